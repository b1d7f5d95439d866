"""How far a training run has come."""

import dataclasses
import math

from tfsoftmax.support.arguments import refusing


@dataclasses.dataclass
class Progress:
    """How far a run has come. Each checkpoint holds a copy.

    The place in the data follows from `step`: an epoch has a step for each record, in order.
    """

    step: int = 0
    seconds: float = 0.0  # spent in training steps, not in validation
    previous_perplexity: float = math.inf  # when the decay of the learning rate last looked
    best_perplexity: float = math.inf
    best_step: int = 0
    gained_perplexity: float = math.inf  # the last one that the patience counted as better
    gained_step: int = 0
    validated_step: int = 0

    def validated(self, perplexity: float, min_delta: float) -> bool:
        """Notes a validation after this step; returns whether it is the best one so far.

        The patience counts only a best one that also gains more than `min_delta`.
        """
        best = perplexity < self.best_perplexity
        if best:
            self.best_perplexity, self.best_step = perplexity, self.step
        if best and self.gained_perplexity - perplexity > min_delta:
            self.gained_perplexity, self.gained_step = perplexity, self.step
        return best

    @classmethod
    def of(cls, saved, checkpoints):
        """The progress that the last checkpoint holds."""
        path = checkpoints.path(checkpoints.name())
        with refusing(TypeError, f"{path}:", "hold a run's progress"):
            return cls(**saved)
