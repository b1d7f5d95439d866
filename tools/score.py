#!/usr/bin/env python3
"""Runs `tfsoftmax score`; see its --help."""

from tfsoftmax_command import main

main("score")
