"""The contract of every operator, on its own samples: a new operator needs no new test code."""

from contextlib import contextmanager
from functools import partial

import numpy as np
import pytest

from adjoint.errors import TypeRuleError
from adjoint.ir import DTYPES, Function, TensorType, TupleType, apply, infer_type, is_float, param
from adjoint.ops.base import Elementwise, Operator, Sample
from adjoint.ops.calls import Call, TupleGet
from adjoint.ops.catalogue import CATALOGUE, OPERATORS
from adjoint.testing import check_gradients, interpret

#: Operators whose result does not depend on floats smoothly anywhere: the gradient is 0 by definition, and a
#: difference quotient would see through a stop_gradient.
OPAQUE = {"stop_gradient"}


def each_operator(choose):
    """Parametrize a test with the samples of each operator that `choose` takes.

    One test an operator: tests of single samples would take longer to collect and to report than to run.
    """
    found = {cls.name: [sample for sample in cls.samples() if choose(sample)] for cls in CATALOGUE}
    return pytest.mark.parametrize("samples", [pytest.param(some, id=name) for name, some in found.items() if some])


@contextmanager
def told(sample):
    """Say of which sample an error is."""
    try:
        yield
    except BaseException as error:
        error.add_note(f"with {sample.op} of {', '.join(map(str, types_of(sample)))}")
        raise


def types_of(sample):
    return tuple(TensorType(x.shape, x.dtype) for x in sample.inputs)


def has_gradient(sample):
    """Whether floats go in and out."""
    floats_in = any(is_float(x.dtype) for x in sample.inputs)
    return not sample.error and floats_in and is_float(sample.op.infer(*types_of(sample)).dtype)


def function_of(sample):
    params = tuple(param(f"x{i}", x.shape, x.dtype) for i, x in enumerate(sample.inputs))
    return Function("sample", params, (apply(sample.op, *params),))


@each_operator(lambda s: not s.error)
def test_infer_agrees_with_reference(samples):
    for sample in samples:
        with told(sample), np.errstate(all="ignore"):
            result = sample.op.infer(*types_of(sample))
            kept = [x.copy() for x in sample.inputs]
            made = sample.op.reference(*sample.inputs)
            assert isinstance(made, np.ndarray)
            assert TensorType(made.shape, made.dtype) == result
            for x, before in zip(sample.inputs, kept, strict=True):
                np.testing.assert_array_equal(x, before, err_msg="a reference leaves its inputs alone")


@each_operator(lambda s: s.error)
def test_bad_inputs_are_refused_in_words(samples):
    for sample in samples:
        with told(sample):
            with pytest.raises(TypeRuleError) as refusal:
                infer_type(sample.op, types_of(sample))
            message = refusal.value.message
            assert sample.error in message
            assert message.startswith((f"{sample.op.name}: ", "sizes in a shape must be ")), (
                "a refusal begins with the operator's name"
            )
            assert "\n" not in message


@each_operator(lambda s: s.gradient and has_gradient(s))
def test_vjp_agrees_with_difference_quotients_to_second_order(samples):
    for sample in samples:
        with told(sample):
            check_gradients(partial(apply, sample.op), sample.inputs, rtol=1e-5, order=2)


@each_operator(lambda s: not s.error)
def test_vjp_gives_cotangents_of_the_operands_types(samples):
    for sample in samples:
        out = function_of(sample).results[0]
        if not is_float(out.dtype):
            continue
        with told(sample):
            found = sample.op.vjp(param("ct", out.shape, out.dtype), out, *out.inputs)
            assert len(found) == len(out.inputs)
            for ct, operand in zip(found, out.inputs, strict=True):
                if not is_float(operand.dtype):
                    assert ct is None, "integers and bool have no cotangent"
                elif ct is not None:
                    assert ct.type == operand.type


@pytest.mark.parametrize("cls", CATALOGUE, ids=lambda cls: cls.name)
def test_samples_cover_the_contract(cls):
    samples = cls.samples()
    good = [s for s in samples if not s.error]
    assert good
    assert all(isinstance(s, Sample) and type(s.op) is cls for s in samples)
    if any(s.inputs for s in good):
        assert any(s.error for s in samples), "an operator with operands has a sample that it refuses"
    if any(has_gradient(s) for s in good) and cls.name not in OPAQUE:
        assert any(s.gradient and has_gradient(s) for s in good), "floats to floats has its gradient checked"


@pytest.mark.parametrize("cls", CATALOGUE, ids=lambda cls: cls.name)
def test_every_operator_is_complete(cls):
    lowering = "scalar" if issubclass(cls, Elementwise) else "lower"
    base = Elementwise if issubclass(cls, Elementwise) else Operator
    for method in ("infer", "reference", "vjp", lowering):
        owner = Operator if method in ("infer", "reference", "vjp") else base
        assert getattr(cls, method) is not getattr(owner, method), f"{cls.__name__} lacks {method}"
    assert cls.__doc__
    assert cls.flops >= 0


@pytest.mark.parametrize("cls", CATALOGUE, ids=lambda cls: cls.name)
def test_operators_refuse_a_wrong_number_of_operands(cls):
    op = next(s.op for s in cls.samples() if not s.error)
    with pytest.raises(TypeRuleError, match=f"^{cls.name}: "):
        infer_type(op, (TensorType((2,)),) * 9 if cls.name != "concat" else ())


@pytest.mark.parametrize("cls", CATALOGUE, ids=lambda cls: cls.name)
def test_operators_refuse_tuples(cls):
    sample = next(s for s in cls.samples() if not s.error)
    if not sample.inputs:
        return
    pair = TupleType((TensorType((2,)), TensorType((2,))))
    with pytest.raises(TypeRuleError, match="operands must be tensors"):
        infer_type(sample.op, (pair,) * len(sample.inputs))


def test_names_are_unique_and_known_to_the_parser():
    names = [cls.name for cls in CATALOGUE]
    assert len(set(names)) == len(names)
    assert set(OPERATORS) == {*names, "call", "cond", "custom_call", "scan", "tuple_get", "while_loop"}
    assert OPERATORS["call"] is Call
    assert OPERATORS["tuple_get"] is TupleGet


def test_operators_are_hashable_values():
    for cls in CATALOGUE:
        for sample, twin in zip(cls.samples(), cls.samples(), strict=True):
            assert sample.op.key() == twin.op.key(), f"{cls.__name__}: equal attributes make equal operators"
            assert hash(sample.op.key()) == hash(twin.op.key())
            with pytest.raises((AttributeError, TypeError)):
                sample.op.anything = 1


@pytest.mark.parametrize("dtype", ["f32", "f64", "f16", "bf16"])
def test_float_operators_run_in_every_float_dtype(dtype):
    for cls in CATALOGUE:
        for sample in cls.samples():
            if sample.error or not issubclass(cls, Elementwise) or cls.name in ("cast", "full"):
                continue
            if not sample.inputs or any(x.dtype != np.float32 for x in sample.inputs):
                continue
            arrays = [x.astype(DTYPES[dtype]) for x in sample.inputs]
            function = function_of(Sample(sample.op, tuple(arrays)))
            with np.errstate(all="ignore"):
                assert interpret(function, *arrays)[0].shape == sample.inputs[0].shape
            break
