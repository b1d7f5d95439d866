"""Names of recurrent cells and backends, for command lines. Loads nothing."""

CELLS = ("lstm", "gru")
BACKENDS = ("auto", "fused", "cell", "cudnn")
