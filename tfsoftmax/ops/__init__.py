"""The mathematics of the heads: pure functions of tensors, which own no variables."""
