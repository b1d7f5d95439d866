#!/usr/bin/env python3
"""Runs `tfsoftmax heads`; see its --help."""

from tfsoftmax_command import main

main("heads")
