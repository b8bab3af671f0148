"""Margins between classes: what is refused. `tests/nn/test_nn.py` has their values and gradients from PyTorch."""

import pytest

from adjoint.errors import AdjointError
from adjoint.ir import TensorType
from adjoint.losses import MultiLabelMarginLoss, MultiLabelSoftMarginLoss, MultiMarginLoss, multi_margin

F = TensorType((2, 3))


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (lambda: multi_margin(None, None, p=3), "multi_margin_loss: p must be 1 or 2, got 3; pass one of them"),
        (
            lambda: MultiMarginLoss().function(TensorType((2, 3, 4)), TensorType((2,), "i64")),
            "multi_margin_loss: predictions must be [N, C] or [C] with C >= 1, got f32[2,3,4]",
        ),
        (
            lambda: MultiMarginLoss().function(F, TensorType((3,), "i64")),
            "multi_margin_loss: for predictions f32[2,3], targets must be class indices of shape [2], got i64[3]; "
            "reshape or cast them",
        ),
        (
            lambda: MultiLabelMarginLoss().function(F, F),
            "multilabel_margin_loss: for predictions f32[2,3], targets must be class indices of shape [2, 3], got "
            "f32[2,3]; reshape or cast them",
        ),
        (
            lambda: MultiLabelSoftMarginLoss(reduction="all"),
            "multilabel_soft_margin_loss: reduction must be one of mean, sum, none, got 'all'",
        ),
    ],
)
def test_what_does_not_fit_is_refused(build, expected):
    with pytest.raises(AdjointError) as error:
        build()
    assert error.value.message == expected


def test_types_of_targets_are_inferred():
    assert MultiMarginLoss().target_types(F) == (TensorType((2,), "i64"),)
    assert MultiLabelMarginLoss().target_types(F) == (TensorType((2, 3), "i64"),)
    assert MultiLabelSoftMarginLoss(weight=[1, 2, 3]).target_types(F) == (F,)
    assert MultiMarginLoss(weight=[1, 2, 3]) == MultiMarginLoss(weight=(1.0, 2.0, 3.0))
