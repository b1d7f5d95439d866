"""Training runs: their folder, their checkpoints, what trains them, and what uses them."""
