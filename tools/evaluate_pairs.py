#!/usr/bin/env python3
"""Runs `tfsoftmax evaluate_pairs`; see its --help."""

from tfsoftmax_command import main

main("evaluate_pairs")
