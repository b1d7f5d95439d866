#!/usr/bin/env python3
"""Runs `tfsoftmax cluster`; see its --help."""

from tfsoftmax_command import main

main("cluster")
