"""Pure functions of tensors that distributions stand on: logits, chunks, criteria, replicas."""
