#!/usr/bin/env python3
"""Runs `tfsoftmax prepare_pairs`; see its --help."""

from tfsoftmax_command import main

main("prepare_pairs")
