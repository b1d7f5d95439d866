"""What runs an experiment, keeps its outcome, and reports it beside the paper."""
