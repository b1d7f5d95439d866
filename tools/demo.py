#!/usr/bin/env python3
"""Runs `tfsoftmax demo`; see its --help."""

from tfsoftmax_command import main

main("demo")
