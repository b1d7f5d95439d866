"""The numbers by which loops and tiles are cut: what each bounds, and why it is what it is.

They were chosen on two-core machines. Everybody reads them as `budgets.NAME` when a graph is
traced, so that a program may set another value before. This command takes those that the training
step of a head reads at half and at twice their values, in turns with the current ones:

    python -m experiments.benchmarks.run budgets
"""

# Positions of a chunk. Fewer lose speed of the matmul: 256 take a tenth to a third longer. More
# gain hardly any, and take more memory.
CHUNK_ROWS = 512

# Bytes of what the positions of a chunk hold beside their logits, such as rows for each position.
CHUNK_BYTES = 1 << 28

# Bytes of the logits of a chunk, which cut it above V = 262,144: less costs matmuls of fewer
# positions, and more is memory without a gain. A chunk has LEAST_ROWS positions whatever they take,
# as each chunk reads the kernel, and adds a gradient of its size to a total.
LOGITS_BYTES = 1 << 29
LEAST_ROWS = 64

# Words of a block where the k likeliest are wanted: the logits of a chunk take 256 MiB. At
# V = 1,000,000, blocks of 25,000 gain a twentieth for k = 20, but take 2.5 times as long for
# k = 1,000; blocks of 262,144 gain nothing.
TOP_K_WORDS = 1 << 17

# Columns of a run, whose maximum says whether the run can hold one of the k best scores of a row.
# For k = 10 of 44,370 in 512 rows, 16 take a quarter longer, and 64 a tenth less; for k = 512 of
# 131,072, 64 take a fifth longer. `tf.math.top_k` alone takes five times as long for k = 10.
RUN_COLUMNS = 32

# Blocks of a kernel. Graphs unroll them, so that their number must not grow with V. More take
# longer to trace; with fewer, blocks outgrow the cache at a smaller V.
MOST_BLOCKS = 16

# Bytes of a block's logits, or rows, where exponentials are kept for the gradient, and of rows that
# are read in turn for a sum of their products. Smaller blocks lose speed of the matmul, and the
# logits of larger ones leave the cache before their exponentials are formed.
BLOCK_BYTES = 1 << 25

# Words of a block of a cluster, and wherever only ln Σ exp z is wanted. Adaptive softmax takes a
# twenty-fifth longer with 2,048, and a twentieth with 16,384; ln Σ exp z alone would gain a
# fiftieth with 1,024.
BLOCK_WORDS = 4096

# Words of a tile, all or none of which are drawn for `gradient_share`: fewer copy more often, and
# more have fewer tiles to draw from. `experiments.measurements.light_blocks` has both.
TILE_WORDS = 512

# Nodes numbered below this are scored for all positions by one matmul. With breadth-first numbers
# these are the top levels, where most steps of the paths lie: 32 to 256 cost the same.
TOP_NODES = 64

# Steps of the paths of a binary tree that are scored at a time, in two tensors (PATH_STEPS, D) that
# should stay in the cache. Gradients at D = 512 take least with 256 on one processor (2,048: a
# fifth more), and with 1,024 on another (256: a seventh more).
PATH_STEPS = 512

# The search for the likeliest words of a binary tree: the least number of nodes that a round opens
# at each position, how many times as many it keeps for later rounds, and the rounds after which it
# gives up, because the distribution is too flat for it to pay off.
OPENED_NODES = 32
KEPT_NODES = 4
SEARCH_ROUNDS = 32

# Nodes of any width whose matmuls may run side by side.
PARALLEL_NODES = 4

# Steps and edges of a tile of such nodes, for XLA. Of 8 to 64 steps and 128 to 512 edges, the
# fastest at V = 44,370 and 200,606 with two levels.
TILE_STEPS = 16
TILE_EDGES = 256

# Rows that take this much of a variable are updated at a time, so that they and those of the slots
# stay in the processor's cache from the reading to the writing. With an eighth of it, the rounds of
# the loop take longer than they gain: updates of Adam and of row-wise Adagrad for the heads of a
# tree and of clusters (V = 200,606, D = 512) took 1.2 to 2 times as long. Other devices take larger
# chunks.
UPDATE_BYTES = 1 << 21
UPDATE_BYTES_ELSEWHERE = 1 << 26

# The fewest queries of a block of attention, where there are as many.
QUERIES = 64

# Bytes of the rows in a part of a file of shards.
FILE_BYTES = 1 << 26
