"""Functions, operators as objects, and functions over tuples."""

import numpy as np
import pytest

from adjoint.compat.mindspore import Tensor, ops
from adjoint.compat.mindspore.ops import composite as C
from adjoint.compat.mindspore.ops import functional as F
from adjoint.compat.mindspore.ops import operations as P
from adjoint.errors import TypeRuleError

A = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (lambda x: P.MatMul(transpose_b=True)(x, x), A @ A.T),
        (lambda x: P.ReduceSum(keep_dims=True)(x, 1), A.sum(1, keepdims=True)),
        (lambda x: P.ReduceMean()(x), A.mean()),
        (lambda x: P.Transpose()(x, (1, 0)), A.T),
        (lambda x: P.Concat(1)((x, x)), np.concatenate([A, A], 1)),
        (lambda x: P.Argmax()(x), [2, 2]),
        (lambda x: P.Softmax()(x), np.exp(A) / np.exp(A).sum(1, keepdims=True)),
        (lambda x: P.Gather()(x, Tensor([[2, 0]]), 1), A[:, [[2, 0]]]),
        (lambda _: P.OneHot()(Tensor([1, 0]), 2, Tensor(1.0), Tensor(0.0)), [[0, 1], [1, 0]]),
        (lambda x: ops.max(x, 1)[0], [2, 5]),
        (lambda x: P.Split(1, 3)(x)[1], A[:, 1:2]),
        (lambda x: F.expand_dims(x, 0), A[None]),
        (lambda x: C.clip_by_global_norm((x, x), 1.0)[0], A / np.sqrt(2 * (A**2).sum())),
        (lambda x: C.clip_by_value(x, 1, 3), A.clip(1, 3)),
        (lambda x: P.L2Loss()(x), (A**2).sum() / 2),
        (lambda x: ops.std(x, 1), A.std(1)),  # without Bessel's correction
        (lambda x: ops.flatten(x.reshape(1, 2, 3)), A.reshape(1, 6)),
        (lambda x: P.Equal()(x, Tensor(A)), np.ones((2, 3), bool)),
        (lambda x: ops.meshgrid(x[0], x[1])[0], np.meshgrid(A[0], A[1])[0]),
        (lambda x: P.Ones()((2, 3), x.dtype).astype("f16"), np.ones((2, 3), np.float16)),
        (lambda x: ops.sort(x, 1, True)[0], A[:, ::-1]),
    ],
)
def test_functions_compute_what_numpy_computes(found, expected):
    np.testing.assert_allclose(found(Tensor(A)).asnumpy(), expected, rtol=1e-6)


def test_a_function_over_tuples_has_definitions_by_types():
    scale = C.MultitypeFuncGraph("scale")

    @scale.register("Number", "Tensor")
    def scaled(factor, gradient):
        return gradient * factor

    found = C.HyperMap()(ops.partial(scale, 2.0), (Tensor([1.0]), Tensor([3.0])))
    assert [one.item() for one in found] == [2.0, 6.0]
    with pytest.raises(TypeRuleError, match=r"^scale: no definition takes \(str\); register one"):
        scale("a")
