"""Measures what a training step costs: memory, arithmetic and time, part by part."""
