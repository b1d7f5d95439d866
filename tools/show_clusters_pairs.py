#!/usr/bin/env python3
"""Runs `tfsoftmax show_clusters_pairs`; see its --help."""

from tfsoftmax_command import main

main("show_clusters_pairs")
