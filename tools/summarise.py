#!/usr/bin/env python3
"""Runs `tfsoftmax summarise`; see its --help."""

from tfsoftmax_command import main

main("summarise")
