"""Keras optimisers that keep sparse gradients sparse, and apply them correctly.

The gradient of a gather is a `tf.IndexedSlices`: some rows of the variable, each as often as it
was gathered. Keras's own optimisers square these rows before they sum the duplicates, which is
not the update that the dense gradient gives, and they compute over the whole variable.
The optimisers here sum duplicate rows first, then sum over the replicas, clip the sums, and read
and write only the touched rows of the variable and of its slots. Dense gradients are applied by
Keras's rules, but in place: neither the rule nor clipping by a norm needs another tensor of the
variable's size, except for Adagrad with an `epsilon` that is not negligible. They too are summed
over the replicas before they are clipped, so that several replicas do what one does with the joint
batch.

`Adagrad`, and `SGD` without momentum, do not change a row without a gradient, so that the result
is that of Keras on the dense gradient, up to rounding. `SGD` with momentum, `Adam` and `AdamW` are
lazy: the moments of an untouched row stay as they are, whereas Keras would decay them and move the
row.

All options of Keras's optimisers are supported. For sparse gradients they mean:

| option | what it does to the rows of a variable | cost in addition to the touched rows |
|---|---|---|
| `weight_decay` | a touched row decays as in Keras; an untouched one stays (lazy) | none |
| `gradient_accumulation_steps` | as in Keras, for the rows touched in the cycle | a slot like the \
variable and one number for each row, which is read once a cycle |
| `use_ema` | as in Keras, for all rows | a slot like the variable and one number for each row |
| `ema_overwrite_frequency` | as in Keras | a pass over the variable at each overwrite |
| `loss_scale_factor`, `clipnorm`, `clipvalue`, `global_clipnorm` | as in Keras | none |

The moving average of an untouched row approaches the row at a known rate, so it is brought up to
date when the row is touched or the averages are read (at the end of `fit`, or by
`keras.callbacks.SwapEMAWeights`). This is exact as long as only the optimiser changes the variable
during training, or a constraint that changes only rows which the step has touched. As in Keras, the
average includes every step, even those within a cycle of `gradient_accumulation_steps`.

The gradient of a cycle is the mean of its steps' gradients. docs/keras.md says which losses then
give all tokens the same weight. Gradients accumulate after the sum over the replicas, so several
replicas exchange them in each step of a cycle. With `jit_compile=True`, whose tensors have fixed
sizes, the update that ends a cycle computes over all rows.

A constraint on a variable still reads it whole, because Keras asks for it. Under the policy
"mixed_float16", Keras wraps an optimiser in `LossScaleOptimizer`, which skips a step whose
gradients are not finite. Call `tfsoftmax.mend_keras()` for it: Keras alone overlooks all but the
last gradient of a row that occurs several times, makes a tensor of the variable's size, and asks
only the first of several replicas. `loss_scale_factor` is constant and skips no steps, on one
device or several.
"""

from tfsoftmax.optimizers.rows import sum_duplicates
from tfsoftmax.optimizers.rules import SGD, Adagrad, Adam, AdamW
from tfsoftmax.optimizers.sparse_rows import SparseRows

__all__ = ["SGD", "Adagrad", "Adam", "AdamW", "SparseRows", "sum_duplicates"]
