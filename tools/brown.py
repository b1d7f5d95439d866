#!/usr/bin/env python3
"""Runs `tfsoftmax brown`; see its --help."""

from tfsoftmax_command import main

main("brown")
