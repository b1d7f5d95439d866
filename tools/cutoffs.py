#!/usr/bin/env python3
"""Runs `tfsoftmax cutoffs`; see its --help."""

from tfsoftmax_command import main

main("cutoffs")
