"""Kernels are the same where they do the same to corresponding buffers."""

import numpy as np
import pytest

from adjoint.codegen.kernels import emit_kernel
from adjoint.compiler import host
from adjoint.ir import TensorType
from adjoint.kernel.index import Dynamic, Var, as_index
from adjoint.kernel.ir import Apply, Buffer, Const, For, Kernel, Load, Store, When
from adjoint.kernel.structure import structure, structures
from adjoint.losses import CrossEntropyLoss
from adjoint.models import gpt
from adjoint.optim import SGD
from adjoint.pipeline import finish_program, lower_function
from adjoint.training import SetupTrainer

F32, F64, I64 = (np.dtype(t) for t in (np.float32, np.float64, np.int64))


def made(
    names="xyzui", dtype=F32, size=32, space="external", extent=4, step=4, kind="serial", constant=0.0, function="add",
    twice=False, swapped=False, low=0,
):  # fmt: skip
    """``z[u * step + i] = (x[...] + y[...]) * constant`` under a condition."""
    x, y, z = (Buffer(name, dtype, size, space) for name in names[:3])
    unit, i = Var(names[3], 8), Var(names[4], extent)
    place = as_index(unit) * step + as_index(i)
    a, b = Load(x, place), Load(x if twice else y, place)
    value = Apply(function, (b, a) if swapped else (a, b), dtype)
    value = Apply("mul", (value, Const(constant, dtype)), dtype)
    inner = When(as_index(unit), low, 7, (Store(((z, place, value),)),))
    return Kernel(names, unit, (For(i, (inner,), kind),), (names,), parallel=True)


def test_names_do_not_matter():
    assert structure(made()) == structure(made("abcde"))
    assert hash(structure(made())) == hash(structure(made("abcde")))


def test_operands_in_the_other_order_are_other_buffers_in_the_same_places():
    """Buffers count in the order in which they are read, so the call differs and the code does not."""
    assert structure(made(swapped=True)) == structure(made())


@pytest.mark.parametrize(
    "change",
    [
        {"dtype": F64},
        {"size": 64},
        {"space": "arena"},
        {"extent": 3},
        {"step": 5},
        {"kind": "unroll"},
        {"constant": -0.0},
        {"function": "sub"},
        {"twice": True},
        {"low": 1},
    ],
    ids=str,
)
def test_all_else_matters(change):
    assert structure(made(**change)) != structure(made())


def test_what_an_index_reads_matters():
    def gather(times):
        ids, x, z = Buffer("ids", I64, 8, "external"), Buffer("x", F32, 8, "external"), Buffer("z", F32, 8, "external")
        unit = Var("u", 8)
        row = Apply("mul", (Load(ids, as_index(unit)), Const(times, I64)), I64)
        return Kernel("k", unit, (Store(((z, as_index(unit), Load(x, as_index(Dynamic(row, 8)))),)),))

    assert structure(gather(1)) == structure(gather(1))
    assert structure(gather(1)) != structure(gather(2))


def test_the_ends_of_loops_and_units_matter():
    def filled(loop=None, units=None):
        z, unit, step = Buffer("z", F32, 8, "external"), Var("u", 2), Var("i", 4)
        place = as_index(unit) * 4 + as_index(step)
        return Kernel("k", unit, (For(step, (Store(((z, place, Const(0.0, F32)),)),), until=loop),), until=units)

    assert structure(filled(as_index(3), as_index(1))) == structure(filled(as_index(3), as_index(1)))
    assert len({structure(filled()), structure(filled(as_index(3))), structure(filled(units=as_index(3)))}) == 3


def test_deep_expressions_are_walked_without_recursion():
    x, unit = Buffer("x", F32, 8, "external"), Var("u", 8)
    value = Load(x, as_index(unit))
    for _ in range(5000):
        value = Apply("neg", (value,), F32)
    assert hash(structure(Kernel("k", unit, (Store(((x, as_index(unit), value),)),))))


def test_kernels_of_a_step_that_are_the_same_have_the_same_code():
    setup = SetupTrainer(CrossEntropyLoss(), SGD(0.1), [TensorType((16, 11)), TensorType((16,), "i64")])
    module = setup(gpt(layers=3, heads=2, width=16, length=8, batch_size=2, vocabulary=11))
    kernels = finish_program(lower_function(module["step"], host())).kernels
    texts = {}
    for kernel in kernels:
        texts.setdefault(structure(kernel), set()).add(emit_kernel(kernel, "k", host(), {}))
    assert len(texts) < 0.6 * len(kernels)
    assert all(len(codes) == 1 for codes in texts.values())


def test_kernels_that_no_other_one_resembles_are_not_described():
    kernels = [made(), made(size=64), made("abcde"), made(step=5)]
    found = structures(kernels)
    assert found[1] is kernels[1]
    assert found[0] == found[2] == structure(kernels[0])
    assert found[3] == structure(kernels[3]) != found[0]
