#!/usr/bin/env python3
"""Runs `tfsoftmax train_pairs`; see its --help."""

from tfsoftmax_command import main

main("train_pairs")
