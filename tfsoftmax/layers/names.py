"""Names of recurrent cells and backends, for command lines. This module imports nothing."""

CELLS = ("lstm", "gru", "rnn")
BACKENDS = ("auto", "fused", "cell", "cudnn")
