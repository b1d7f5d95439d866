"""What output layers cost: see README.md here, and `python experiments/benchmarks/run.py`."""
