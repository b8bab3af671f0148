"""Pickling and copying: equal graphs with their labels, of any depth, with what they share still shared."""

import copy
import multiprocessing
import pickle

import ml_dtypes
import numpy as np
import pytest

from adjoint import ops
from adjoint.compiler import CompileOptions, compile
from adjoint.data import Rows
from adjoint.errors import AdjointError, InternalError, ParseError, TypeRuleError
from adjoint.ir import DTYPES, Function, IRModule, TensorType, TupleType, param, parse, toposort
from adjoint.losses import CrossEntropyLoss
from adjoint.models import gpt, mlp
from adjoint.optim import SGD, Adam
from adjoint.training import SetupTrainer, Trainer
from tests.training.models import INDICES, LOGITS, SIZES

PROTOCOLS = range(2, pickle.HIGHEST_PROTOCOL + 1)


def again(given, protocol=pickle.HIGHEST_PROTOCOL):
    return pickle.loads(pickle.dumps(given, protocol))


def training_module():
    return SetupTrainer(CrossEntropyLoss(), Adam(0.1), [LOGITS, INDICES])(mlp(SIZES, 8))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_module_is_the_same_with_labels_and_attributes(protocol):
    module = training_module()
    got = again(module, protocol)
    assert got == module
    assert str(got) == str(module)
    assert dict(got.attrs) == dict(module.attrs)
    with pytest.raises(TypeError):
        got.attrs["param_num"] = 3


def test_functions_of_a_large_model_are_equal():
    for function in gpt():
        got = again(function)
        assert got == function
        assert str(got) == str(function)


def test_a_chain_of_20_000_values_is_pickled_and_copied():
    x = param("x", (2,))
    value = x
    for _ in range(20_000):
        value = ops.negative(value)
    function = Function("deep", (x,), (value.named("end"),))
    (end,) = again(function).results
    assert end.label == "end"
    assert len(toposort((end,))) == 20_001
    assert again(value.inputs[0]).type == value.type
    assert copy.deepcopy(function) is copy.copy(function) is function
    assert copy.deepcopy([value])[0] is value


def test_a_chain_of_1000_functions_is_pickled():
    x = param("x", (2,))
    function = Function("f0", (x,), (ops.negative(x),))
    for number in range(1, 1001):
        y = param("x", (2,))
        function = Function(f"f{number}", (y,), (ops.call(function, y),))
    got = again(function)
    depth = 0
    while (op := got.results[0].op).name == "call":
        depth, got = depth + 1, op.callee
    assert depth == 1000
    assert got.name == "f0"


def test_shared_values_and_functions_stay_shared():
    x = param("x", (2,))
    shared = ops.exp(x)
    inner = Function("inner", (x,), (shared,))
    y = param("y", (2,))
    called = ops.add(ops.call(inner, y), ops.call(inner, ops.exp(y)))
    outer = Function("outer", (y,), (called,))
    other = Function("other", (x,), (ops.add(shared, shared), shared))
    got = again(IRModule((inner, other, outer)))
    one, two, three = got
    assert one.results[0] is two.results[1]
    assert two.results[0].inputs == (one.results[0],) * 2
    assert one.params[0] is two.params[0]
    calls = three.results[0].inputs
    assert calls[0].op.callee is calls[1].op.callee is one
    value = again(called)
    assert value.inputs[0].op.callee is value.inputs[1].op.callee
    assert value.inputs[1].inputs[0].inputs[0] is value.inputs[0].inputs[0]


def test_a_loaded_function_computes_the_same(tmp_path):
    function = training_module()["backbone_loss_adjoint"]
    options = CompileOptions(cache_directory=tmp_path, threads=1)
    rng = np.random.default_rng(0)
    arrays = [
        rng.integers(1, 3, p.shape, p.dtype) if p.dtype.kind == "i" else rng.random(p.shape, "f4")
        for p in function.params
    ]
    results = [compile(IRModule((f,)), options=options)[f.name](*arrays) for f in (function, again(function))]
    for one, other in zip(*results, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    "given",
    [
        *(TensorType((2, 3), dtype) for dtype in DTYPES),
        TupleType((TensorType(()), TensorType((2,), "bf16"))),
        SGD(0.1, 0.9),
        CrossEntropyLoss(label_smoothing=0.1),
        SetupTrainer(CrossEntropyLoss(), Adam(0.1), [LOGITS, INDICES]),
        CompileOptions(threads=2, memory_budget=100),
        ops.constant(np.arange(3.0, dtype="f4")).op,
    ],
    ids=lambda given: type(given).__name__,
)
def test_descriptions_are_pickled_and_copied(given):
    assert again(given) == given
    assert copy.copy(given) == copy.deepcopy(given) == given


def test_rows_are_pickled_and_copied():
    rows = Rows(np.arange(6, dtype=ml_dtypes.bfloat16).reshape(3, 2), scale=0.5)
    for got in (again(rows), copy.deepcopy(rows), copy.copy(rows)):
        np.testing.assert_array_equal(got.array, rows.array)
        assert got.scale == 0.5


def in_other_process(function, value):
    """Check in a process of its own; returns the function's text and the sum of its result."""
    assert value.label == "y"
    return str(function), compile(IRModule((function,)))[function.name](np.ones(2, np.float32)).sum()


def failing():
    parse("nonsense", {})


def test_a_function_and_an_error_pass_to_and_from_a_spawned_process():
    x = param("x", (2,))
    y = ops.exp(x).named("y")
    function = Function("f", (x,), (ops.add(y, y),))
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        text, total = pool.apply(in_other_process, (function, y))
        with pytest.raises(ParseError) as caught:
            pool.apply(failing)
    assert text == str(function)
    assert total == pytest.approx(4 * np.e)
    assert (caught.value.line, caught.value.column) == (1, 1)


@pytest.mark.parametrize(
    "error", [TypeRuleError("a rule"), ParseError("no", 3, 4), InternalError("a bug", "func"), AdjointError("more")]
)
def test_errors_are_pickled_with_their_message_line_and_attributes(error):
    got = again(error)
    assert type(got) is type(error)
    assert str(got) == str(error)
    assert got.__dict__ == error.__dict__


CODE = (
    "is not pickled or copied, because it is code loaded in this process; pickle the module or function, and compile "
    "it again, which the compile cache makes fast"
)


@pytest.mark.parametrize("attempt", [pickle.dumps, copy.copy, copy.deepcopy])
def test_what_is_compiled_says_what_to_do_instead(attempt, tmp_path):
    x = param("x", (2,))
    executable = compile(Function("f", (x,), (ops.exp(x),)), options=CompileOptions(cache_directory=tmp_path))
    trainer = Trainer(training_module())
    for given, message in (
        (executable, f"an Executable {CODE}"),
        (executable["f"], f"an Entry {CODE}"),
        (
            trainer,
            "a Trainer is not pickled or copied, because it holds compiled code; use trainer.save(path) and "
            "Trainer.load(path)",
        ),
    ):
        with pytest.raises(TypeRuleError) as caught:
            attempt(given)
        assert caught.value.message == message
