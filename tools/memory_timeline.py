#!/usr/bin/env python3
"""Runs `tfsoftmax memory_timeline`; see its --help."""

from tfsoftmax_command import main

main("memory_timeline")
