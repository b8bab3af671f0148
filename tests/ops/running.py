"""Run small graphs on arrays, differentiate them by their vjp rules, and lower operators one element at a time."""

from itertools import product

import numpy as np

from adjoint import ops
from adjoint.ir import Function, TensorType, apply, is_float, param, toposort
from adjoint.kernel.scalars import SCALARS
from adjoint.testing.interpreter import interpret


def parameters(*arrays):
    return [param(f"p{n}", np.shape(a), np.asarray(a).dtype) for n, a in enumerate(arrays)]


def evaluate(results, params, arrays):
    return interpret(Function("f", tuple(params), tuple(results)), *map(np.asarray, arrays))


def graph_of(sample):
    """A function that applies a sample's operator to its inputs."""
    params = parameters(*sample.inputs)
    return Function("f", tuple(params), (apply(sample.op, *params),))


def run(build, *arrays):
    """What the graph ``build(*params)`` gives for the arrays."""
    params = parameters(*arrays)
    return evaluate([build(*params)], params, arrays)[0]


def pulled(result, wanted):
    """Gradient graph of the sum of `result` in `wanted`, by asking every operator for its vjp."""
    cts = {result: ops.full(1.0, result.shape, result.dtype)}
    for value in reversed(toposort([result])):
        ct = cts.get(value)
        if ct is None or not value.inputs:
            continue
        for operand, part in zip(value.inputs, value.op.vjp(ct, value, *value.inputs), strict=True):
            assert part is None or part.type == operand.type
            if part is not None:
                cts[operand] = ops.add(cts[operand], part) if operand in cts else part
    return cts.get(wanted, ops.full(0.0, wanted.shape, wanted.dtype))


def gradient(build, *arrays, order=1):
    """Gradient of ``sum(build(*params))`` in the first array; of second order, of the sum of squares of that."""
    params = parameters(*arrays)
    result = pulled(build(*params), params[0])
    for _ in range(order - 1):
        result = pulled(ops.square(result), params[0])
    return evaluate([result], params, arrays)[0]


def differences(function, x, step=1e-6):
    """Central differences of a scalar function of a float64 array."""
    found = np.zeros_like(x)
    for place in np.ndindex(x.shape):
        up, down = x.copy(), x.copy()
        up[place] += step
        down[place] -= step
        found[place] = (function(up) - function(down)) / (2 * step)
    return found


class Direct:
    """A Builder whose scalars are NumPy scalars and whose coordinates are ints: what lowering says, taken literally."""

    def __init__(self, row=None):
        self.row = row

    def const(self, value, dtype):
        return np.asarray(value).astype(dtype)[()]

    def constant_data(self, data, shape, dtype, index):
        return np.frombuffer(data, dtype).reshape(shape)[index]

    def call(self, function, *args):
        with np.errstate(all="ignore"):
            return SCALARS[function].numpy(*args)

    def select(self, condition, then, other):
        return then if condition else other

    def choose(self, condition, then, other):
        return then() if condition else other()

    def cast(self, x, dtype):
        return np.asarray(x).astype(dtype)[()]

    def dtype(self, x):
        return x.dtype

    def coordinate(self, i, dtype):
        return np.asarray(i).astype(dtype)[()]

    def position(self, x, size):
        return min(max(int(x), 0), size - 1)

    def inside(self, i, start, stop):
        return np.bool_(start <= i < stop)

    def reduce(self, kind, extents, body):
        found = [body(r) for r in product(*map(range, extents))]
        if kind == "argmax":
            return np.int64(np.argmax(found))
        if not found:
            return np.float32({"add": 0, "mul": 1}[kind])
        total = found[0]
        for item in found[1:]:
            total = self.call(kind, total, item)
        return total

    def scatter_add(self, rows, count, ids, updates):
        assert 0 <= self.row < rows
        total = 0 * updates(0) if count else np.float32(0)
        for n in range(count):
            if int(ids(n)) == self.row:
                total = total + updates(n)
        return total

    def stream(self, kind, count, dots, weight, values=None, span=None):
        first, last = span or (0, count)
        steps = range(max(first, 0), min(last, count))
        weights = {}
        for n in steps:
            made = [np.sum([dot.row(d) * dot.step(n, d) for d in range(dot.depth)]) for dot in dots]
            weights[n] = weight(n, made)
        if kind == "sum":
            return sum((weights[n] * values(n) for n in steps), 0 * values(0))
        top = max(weights.values())
        raised = {n: np.exp(w - top) for n, w in weights.items()}
        total = sum(raised.values())
        if kind == "log_sum_exp":
            return top + np.log(total)
        return sum(raised[n] * values(n) for n in steps) / total


class Memory:
    """An operand in memory, which is never read outside."""

    def __init__(self, array):
        self.array = array
        self.type = TensorType(array.shape, array.dtype)

    def __call__(self, index):
        assert all(isinstance(i, int) and 0 <= i < n for i, n in zip(index, self.array.shape, strict=True))
        wide = np.float32 if is_float(self.array.dtype) and self.array.itemsize == 2 else self.array.dtype
        return self.array[tuple(index)].astype(wide)


def lowered(op, *arrays):
    """Every element of the result, each by its lowering."""
    type_ = op.infer(*(TensorType(a.shape, a.dtype) for a in arrays))
    result = np.zeros(type_.shape, type_.dtype)
    for place in np.ndindex(type_.shape):
        result[place] = op.lower(Direct(place[0] if place else None), place, *map(Memory, arrays))
    return result
