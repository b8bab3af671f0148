"""How uncertain a language model is."""

from typing import Any

import numpy as np

from adjoint.errors import TypeRuleError
from adjoint.ir import is_float
from adjoint.nn.functional import log_softmax
from adjoint.tensor.comparison import where
from adjoint.tensor.tensor import Tensor
from adjoint.training.metrics.classes import ClassMetric

__all__ = ["Perplexity"]

#: The least probability, so that a target that was thought impossible has a finite logarithm.
_LEAST = 1e-10


class Perplexity(ClassMetric):
    """``exp`` of the mean negative log-likelihood of the targets.

    Outputs are ``[..., C]`` and targets class indices ``[...]``.

    Parameters
    ----------
    ignore_label : int or None, default -100
        Targets of this class do not count, such as those that fill up a sequence.
    from_logits : bool, default True
        Whether outputs are logits. Otherwise they are probabilities; those below 1e-10 count as 1e-10.
    axis : int, default -1
        The axis of classes in the outputs.
    weighted : bool, default False
        Whether `update` takes the weights of targets as a third argument.
    name : str, default "perplexity"
        The key in results.
    """

    name = "perplexity"
    higher_is_better = False
    loss: Tensor
    rows: Tensor

    def __init__(
        self,
        ignore_label: int | None = -100,
        *,
        from_logits: bool = True,
        axis: int = -1,
        weighted: bool = False,
        name: str | None = None,
    ) -> None:
        super().__init__(axis=axis, ignore_index=ignore_label, weighted=weighted, name=name)
        self.from_logits = from_logits
        self.add_sum("loss")
        self.add_amount("rows")

    def update(self, outputs: Any, targets: Any, weight: Any = None) -> None:
        """Add the losses of a batch."""
        axis = self._class_axis(outputs)
        if axis is None or not is_float(outputs.dtype) or outputs.shape[axis] < 2:
            raise TypeRuleError(
                f"Perplexity: outputs must be floats with an axis of at least 2 classes, got {outputs._spec.type}; "
                "pass logits [..., C]"
            )
        read = self.read(outputs, targets, weight)
        scores = outputs.movedim(axis, -1).reshape(-1, outputs.shape[axis])
        logs = log_softmax(scores, -1) if self.from_logits else scores.clamp(min=_LEAST).log()
        losses = -logs.gather(1, read.actual[:, None])[:, 0].double()
        losses = losses if read.weight is None else losses * read.weight
        self.loss.add_(where(read.valid, losses, 0.0).sum())
        self.rows.add_(read.amounts(read.valid).sum())

    def result(self) -> float:
        """The perplexity."""
        return float(np.exp(self.ratio("loss", "rows")))
