#!/usr/bin/env python3
"""Runs `tfsoftmax generate`; see its --help."""

from tfsoftmax_command import main

main("generate")
