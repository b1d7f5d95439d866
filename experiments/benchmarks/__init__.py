"""What output layers cost: see README.md here, and `python -m experiments.benchmarks.run`."""
