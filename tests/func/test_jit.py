"""jit: whole functions, training steps that update in place, what makes a function be traced again."""

from types import SimpleNamespace

import numpy as np
import pytest

import adjoint
from adjoint import TensorType, grad, jit, ops, optim, value_and_grad
from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.tensor.autograd import no_grad
from adjoint.tensor.explain import log
from adjoint.tensor.record import entry_of, operation, record_in_place
from adjoint.tensor.step_entry import Update
from adjoint.tensor.tensor import from_array
from adjoint.tensor.updates import record_step

total, mean, scaled = operation(ops.sum), operation(ops.mean), operation(ops.multiply)


def f32(values, requires_grad=False):
    return from_array(np.array(values, np.float32), requires_grad=requires_grad)


#: The linear regression of OneFlow's tutorial, whose losses are published.
X, Y = f32([[1, 2], [2, 3], [4, 6], [3, 1]]), f32([[8], [13], [26], [9]])
LOSSES = {1: 200.0, 2: 58.80001, 3: 19.011995, 50: 0.00345116, 100: 1.9658e-06}


@pytest.mark.parametrize("door", ["functions", "objects"])
def test_a_training_step_is_one_program_that_updates_in_place(door):
    w, lr, sgd = f32([[2], [1]], requires_grad=True), f32(0.01), optim.SGD(0.01)

    def of_functions(x, y):
        loss, (by_w,) = value_and_grad(lambda: total((x @ w - y) ** 2), None, [w])()
        record_step(Update(sgd, [w], [], [lr]), [by_w])
        return loss

    def of_objects(x, y):
        w.grad = None
        loss = total((x @ w - y) ** 2)
        loss.backward()
        record_step(Update(sgd, [w], [], [lr]), [w.grad])
        return loss

    step = jit(of_functions if door == "functions" else of_objects)
    memory, before = w._storage.address, log.count
    for iteration in range(1, 101):
        loss = step(X, Y)
        if iteration in LOSSES:
            assert loss.item() == pytest.approx(LOSSES[iteration], rel=1e-4), iteration
    assert log.count == before + 1
    assert w._storage.address == memory
    assert w.requires_grad
    assert not loss.requires_grad
    np.testing.assert_allclose(w.numpy(force=True).ravel(), [2, 3], atol=1e-3)
    if door == "objects":
        with pytest.raises(InvalidValueError) as error:
            w.grad.numpy()
        assert error.value.message == (
            "a gradient that optimizer.step() has used inside a compiled function is not kept, got a use of one; "
            "return it from the function"
        )
    lr._storage.array[...] = 0  # hyperparameters are read in every call
    kept = w.numpy(force=True).copy()
    step(X, Y)
    assert (w.numpy(force=True) == kept).all()


def test_gradients_accumulate_over_calls():
    w = f32([1, 2], requires_grad=True)

    @jit
    def accumulate(x):
        loss = total(w * x)
        loss.backward()
        return loss

    for count in (1, 2, 3):
        assert accumulate(f32([3, 4])).item() == 11
        assert w.grad.numpy().tolist() == [3 * count, 4 * count]
    w.grad = None
    accumulate(f32([1, 1]))
    assert w.grad.numpy().tolist() == [1, 1]


def test_state_and_random_numbers_are_part_of_the_program():
    module = SimpleNamespace(count=f32(0), training=True, scale=2.0)
    adjoint.manual_seed(0)
    plain = [adjoint.rand(3).numpy() for _ in range(3)]

    @jit
    def function(x):
        if module.training:
            record_in_place(entry_of(scaled), module.count, 2.0)
        record_in_place(ADD, module.count, 1.0)
        return x * module.scale, adjoint.rand(3)

    adjoint.manual_seed(0)
    before = log.count
    outs = [function(f32(1)) for _ in range(3)]
    assert module.count.item() == 7
    assert log.count == before + 1
    for (value, drawn), expected in zip(outs, plain, strict=True):
        assert value.item() == 2
        assert drawn.numpy().tolist() == expected.tolist()
    module.training, module.scale = False, 3.0
    assert function(f32(1))[0].item() == 3
    assert module.count.item() == 8
    module.count = f32(100)  # another tensor in its place
    function(f32(1))
    assert module.count.item() == 101


ADD = entry_of(operation(ops.add))


def test_arguments_are_trees_arrays_and_static_objects():
    @jit
    def function(tree, kind, *, scale=1.0):
        made = tree["x"] + tree["y"][0] if kind == "add" else tree["x"] * tree["y"][0]
        return {"out": made * scale, "kind": kind, "same": tree["x"]}

    x, before = f32([1, 2]), log.count
    tree = {"x": x, "y": (np.array([3, 4], np.float32),)}
    added = function(tree, "add")
    assert (added["out"].numpy().tolist(), added["kind"]) == ([4, 6], "add")
    assert added["same"] is x
    assert function(tree, "mul")["out"].numpy().tolist() == [3, 8]
    # A float is a constant first, and a tensor from its second value on.
    for scale in (2.0, 3.0, 4.0, 5.0):
        assert function(tree, "add", scale=scale)["out"].numpy().tolist() == [4 * scale, 6 * scale]
    assert log.count == before + 4
    powers = jit(lambda x, n: x**n, static_argnums=1)
    assert [powers(x, n).numpy().tolist() for n in (2, 3)] == [[1, 4], [1, 8]]
    named = jit(static_argnames="n")(lambda x, n: x**n)
    assert named(x, n=2).numpy().tolist() == [1, 4]


def test_a_result_that_requires_a_gradient_can_be_differentiated():
    w = f32([1, 2], requires_grad=True)
    forward = jit(lambda x: x * w * w)
    total(forward(f32([3, 4]))).backward()
    assert w.grad.numpy().tolist() == [6, 16]
    assert grad(lambda x: total(forward(x)))(f32([3, 4])).numpy(force=True).tolist() == [1, 4]
    with no_grad():
        assert not forward(f32([3, 4])).requires_grad


def test_captured_tensors_keep_their_elements_for_others():
    w = f32([1, 2])
    pending = w * 10  # recorded, and not run before the call
    view = w.numpy()

    @jit
    def change(x):
        record_in_place(ADD, w, x)
        return x * 2

    assert change(w).numpy().tolist() == [2, 4]  # the argument is the tensor that is changed
    assert pending.numpy().tolist() == [10, 20]
    assert w.numpy().tolist() == [2, 4]
    assert view is not None


def test_methods_lines_and_graphs():
    class Model:
        def __init__(self):
            self.weight = f32([2, 3])

        @jit
        def forward(self, x):
            return x * self.weight

    first, second = Model(), Model()
    second.weight = f32([5, 5])
    assert first.forward(f32([1, 1])).numpy().tolist() == [2, 3]
    assert second.forward(f32([1, 1])).numpy().tolist() == [5, 5]
    text = Model.forward.show()
    assert text.startswith("func @forward(%x: f32[2], %weight: f32[2]) -> f32[2] {")
    line = Model.forward.__wrapped__.__code__.co_firstlineno + 2
    assert f"multiply(%x, %weight)  # test_jit.py:{line}" in text
    assert "kernel" in Model.forward.show("kernels")
    double = jit(lambda x: x + x)
    assert str(double.lower(TensorType((2,), np.dtype(np.float32))).results[0].type) == "f32[2]"
    assert repr(double) == "<jit of lambda>"
    x, y = f32([1, 1]), f32([2, 2])
    graph, tensors = jit(lambda x: x * y).lowered(x)
    assert [p.shape for p in graph.params] == [(2,), (2,)]
    assert [tensor is one for tensor, one in zip(tensors, (x, y), strict=True)] == [True, True]
    compiled = adjoint.compile(lambda x: x + 1, np.ones(2, np.float32))
    count = log.count
    assert compiled(np.ones(2, np.float32)).numpy().tolist() == [2, 2]
    assert log.count == count


def test_gradients_of_arguments():
    x = f32([1, 2], requires_grad=True)

    @jit
    def function(x):
        total(x * x).backward()
        return total(x.grad)

    assert function(x).item() == 6
    assert x.grad.numpy().tolist() == [2, 4]


LOST, STORED, NUMBERS = [], SimpleNamespace(items={}, count=0), np.random.default_rng(0)
CHANGED = None


def appends(x):
    y = x + 1
    LOST.append(y)
    return y


def counts(x):
    STORED.count += 1
    return x


def stores(x):
    STORED.items["x"] = x * 2
    return x


def rebinds_a_global(x):
    global CHANGED
    CHANGED = x + 1
    return x


def rebinds_a_variable():
    k = 0

    def function(x):
        nonlocal k
        k += 1
        return x

    return function


def fills_the_argument(tree):
    tree["y"] = tree["x"] + 1
    return tree["x"]


def hides(x):
    rebinds_a_variable.hidden = x * 3
    return x


def draws(x):
    return x * np.random.rand()


def draws_own(x):
    return x * NUMBERS.random()


def prints(x):
    print(x)
    return x


def reads(x):
    return x * x.item()


def reads_captured(x):
    return x * X.tolist()[0][0]


def branches(x):
    if x:
        return x
    return x + 1


def converts(x):
    return np.asarray(x)


_OBJECTS = "jit: a traced function must not change Python objects, because only tracing would do it, got a change of "
_FIX = "; return the new value, or change a tensor in place"
_DRAWN = (
    "jit: a traced function must not draw random numbers on the host, because every call would use the same ones, got "
)
_DRAW = "; draw them with adjoint.rand and the like, or pass them as arguments"
_READ = (
    "a compiled function cannot read the elements of a tensor while it is traced, got {}; return the tensor and read "
    "it outside of the function"
)
REFUSED = [
    (appends, 2, f"{_OBJECTS}the list LOST in appends{_FIX}"),
    (counts, 1, f"{_OBJECTS}the attribute STORED.count in counts{_FIX}"),
    (stores, 1, f"{_OBJECTS}the dict STORED.items in stores{_FIX}"),
    (rebinds_a_global, 2, f"{_OBJECTS}the global CHANGED in rebinds_a_global{_FIX}"),
    (rebinds_a_variable(), 2, f"{_OBJECTS}the variable k in function{_FIX}"),
    (draws, 1, f"{_DRAWN}numbers of numpy.random in draws{_DRAW}"),
    (draws_own, 1, f"{_DRAWN}numbers of the generator NUMBERS in draws_own{_DRAW}"),
    (
        hides,
        1,
        "jit: a tensor that is made while a function is traced must not be used outside of it, got one of type f32[] "
        "that hides has stored; return it",
    ),
    (
        prints,
        1,
        "jit: a traced function must not call print, which would print only while it is traced; use "
        "adjoint.debug_print(format, *tensors), which prints in every call",
    ),
    (reads, 1, _READ.format("f32[]")),
    (reads_captured, 1, _READ.format("f32[4,2]")),
    (converts, 1, _READ.format("f32[]")),
    (
        branches,
        1,
        "a compiled function cannot branch on the elements of a tensor, got f32[] as a condition; use adjoint.cond, or "
        "choose between two values with where",
    ),
]


@pytest.mark.parametrize(("function", "line", "message"), REFUSED, ids=[case[0].__name__ for case in REFUSED])
def test_what_a_call_would_not_repeat_is_refused_with_its_line(function, line, message):
    with pytest.raises((InvalidValueError, TypeRuleError)) as error:
        jit(function)(f32(2))
    rebinds_a_variable.hidden = None
    assert error.value.message == message
    assert error.value.where == f"{__file__}:{function.__code__.co_firstlineno + line}"
    assert (LOST, STORED.items, STORED.count, CHANGED) == ([], {}, 0, None)
    X.numpy()  # reading works again


def test_other_refusals():
    cases = [
        (lambda: jit(3), "jit takes a function, got an int; pass the function, not its call"),
        (
            lambda: jit(fills_the_argument)({"x": f32(1)}),
            "jit: a traced function must not change the containers that it takes, got a change of an argument of "
            "fills_the_argument; return the new value",
        ),
        (
            lambda: jit(counts)({1}),
            "jit: the arguments of counts must be tensors, arrays or hashable objects, got a set; convert it, or let "
            "the function use it as a global",
        ),
        (
            lambda: jit(counts).show(),
            "show: counts must be called first, got no call; call it with its arguments",
        ),
    ]
    for call, message in cases:
        with pytest.raises(TypeRuleError) as error:
            call()
        assert error.value.message == message


def test_views_outside_see_what_a_call_changes():
    base = adjoint.zeros(4)
    view = base[1:3]

    @jit
    def change(x):
        base[1:] += x
        return base.sum()

    assert [change(f32(k)).item() for k in (1, 2)] == [3, 9]
    assert view.tolist() == [3, 3]


@pytest.mark.parametrize("kind", ["SGD", "Adam"])
def test_an_optimizer_is_lifted_with_its_state_and_settings(kind):
    def losses(compiled):
        w = f32([[2], [1]], requires_grad=True)
        optimizer = getattr(optim, kind)([w], lr=0.01)

        def step(x, y):
            optimizer.zero_grad()
            loss = total((x @ w - y) ** 2)
            loss.backward()
            optimizer.step()
            return loss

        found, step = [], jit(step) if compiled else step
        for count in range(4):
            if count == 2:
                optimizer.param_groups[0]["lr"] = 0.005
            found.append(step(X, Y).item())
        return found, log.count

    before = log.count
    compiled, after = losses(True)
    assert after == before + 1
    assert compiled == losses(False)[0]


def test_the_number_of_programs_is_bounded(monkeypatch):
    monkeypatch.setattr("adjoint.func.jit._MOST", 2)
    monkeypatch.setattr("adjoint.func.jit._MOST_ALIKE", 2)
    setting = SimpleNamespace(scale=0)
    function = jit(lambda x: x * setting.scale)
    for setting.scale in range(4):
        assert function(f32([2])).item() == 2 * setting.scale
    for size in range(1, 4):
        assert function(np.ones(size, np.float32)).shape == (size,)
    assert len(function._programs) == 2
    assert sum(map(len, function._variants.values())) == 2


def test_a_setting_that_changes_the_update_is_seen():
    w, x = adjoint.tensor([1.0, 2.0], requires_grad=True), adjoint.tensor([1.0, 1.0])
    optimizer = adjoint.optim.SGD([w], lr=0.1)

    @jit
    def step():
        optimizer.zero_grad()
        (w * x).sum().backward()
        optimizer.step()

    step()
    step()
    np.testing.assert_allclose(w.tolist(), [0.8, 1.8], rtol=1e-6)
    optimizer.param_groups[0]["weight_decay"] = 0.5
    step()
    np.testing.assert_allclose(w.tolist(), [0.8 - 0.1 * (1 + 0.4), 1.8 - 0.1 * (1 + 0.9)], rtol=1e-6)
