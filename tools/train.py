#!/usr/bin/env python3
"""Runs `tfsoftmax train`; see its --help."""

from tfsoftmax_command import main

main("train")
