#!/usr/bin/env python3
"""Runs `tfsoftmax rescore`; see its --help."""

from tfsoftmax_command import main

main("rescore")
