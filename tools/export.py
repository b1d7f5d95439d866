#!/usr/bin/env python3
"""Runs `tfsoftmax export`; see its --help."""

from tfsoftmax_command import main

main("export")
