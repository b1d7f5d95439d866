#!/usr/bin/env python3
"""Runs `tfsoftmax evaluate`; see its --help."""

from tfsoftmax_command import main

main("evaluate")
