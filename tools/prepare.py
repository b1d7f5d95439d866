#!/usr/bin/env python3
"""Runs `tfsoftmax prepare`; see its --help."""

from tfsoftmax_command import main

main("prepare")
