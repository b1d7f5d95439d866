#!/usr/bin/env python3
"""Runs `tfsoftmax tfprof`; see its --help."""

from tfsoftmax_command import main

main("tfprof")
