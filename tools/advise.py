#!/usr/bin/env python3
"""Runs `tfsoftmax advise`; see its --help."""

from tfsoftmax_command import main

main("advise")
