"""Names of cells and backends, for command lines. This module imports nothing."""

CELLS = ("lstm", "gru", "rnn")  # of recurrent layers
TRANSFORMER = "transformer"
BACKENDS = ("auto", "fused", "cell", "cudnn")
