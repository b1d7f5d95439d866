"""`HEADS`: the heads of the package that are distributions, by the names of commands."""

from tfsoftmax import heads, survey
from tfsoftmax.lm.head_names import HEAD_NAMES

HEADS = {
    name: getattr(heads if hasattr(heads, cls) else survey, cls)
    for name, (cls, _) in HEAD_NAMES.items()
}
