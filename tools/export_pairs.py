#!/usr/bin/env python3
"""Runs `tfsoftmax export_pairs`; see its --help."""

from tfsoftmax_command import main

main("export_pairs")
