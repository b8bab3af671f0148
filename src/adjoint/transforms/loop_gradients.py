"""The gradient of a loop: another loop, which walks over the iterations backwards.

The body of the new loop is the gradient of the old body. What it needs of the old body's values is *saved*: it becomes
a stacked output of the old loop, and a stacked input of the new one. Not saved is what an iteration has anyway (its
constants and its rows of stacked inputs), and what follows from those by cheap elementwise operators or views.

The cotangents of constants are sums over all iterations. Those that are products of matrices, as for the weights of a
recurrent layer, are not added up iteration by iteration: the factors are stacked, and multiplied once after the loop,
as a single product over all iterations. Other ones are carried along.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field

from adjoint import costs
from adjoint.ir import Function, Value, apply, is_param, param, rebuild, toposort
from adjoint.lazy_dataclass import dataclass
from adjoint.ops.arithmetic import Add, add
from adjoint.ops.base import Elementwise
from adjoint.ops.contract import MatMul
from adjoint.ops.control import Scan, items, uniquely_named
from adjoint.ops.create import full
from adjoint.ops.shape import BroadcastTo, Permute, ReduceSum, Reshape, Slice, permute, reshape
from adjoint.ops.shape import sum as sum_of
from adjoint.transforms.activity import Dependence, flow

__all__ = ["LoopGradient", "active_carries"]

#: Operators that move elements and compute nothing.
_VIEWS = (BroadcastTo, Permute, Reshape, Slice)

#: From the stacks of values, by value, to a value outside the loop.
_Recipe = Callable[[Mapping[Value, Value]], Value]


def active_carries(op: Scan, active: Sequence[bool], through: Dependence) -> tuple[bool, ...]:
    """For each operand whether derivatives flow to it: carries may depend on what others depend on.

    Parameters
    ----------
    op : Scan
        The loop.
    active : sequence of bool
        For each operand whether the outside wants its cotangent.
    through : mapping
        The `dependence` of the functions.
    """
    found = list(active)
    while True:
        seeds = {p: (int(wanted),) for p, wanted in zip(op.body.params, found, strict=True)}
        reach = flow(op.body.values(), seeds, through)
        more = [
            n for n, result in enumerate(op.body.results[: op.carries], op.consts) if reach[result][0] and not found[n]
        ]
        if not more:
            return tuple(found)
        for n in more:
            found[n] = True


@dataclass(eq=False)
class LoopGradient:
    """The gradient of one loop, from the cotangents of its results to those of its operands.

    Parameters
    ----------
    value : Value
        The loop.
    given : mapping of int to Value
        The cotangents of its results that there are.
    active : tuple of bool
        For each operand whether its cotangent is computed.
    """

    value: Value
    given: Mapping[int, Value]
    active: tuple[bool, ...]
    #: What the old loop has to put out besides its results, and what the new one does for products after it.
    _saved: dict[Value, None] = field(default_factory=dict)
    _put_out: dict[Value, None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        op = self.value.op
        assert isinstance(op, Scan)
        self.op = op
        self.body = op.body
        self.fixed = op.consts + op.carries
        prefix = "ct_"
        while any(p.label.startswith(prefix) for p in self.body.params):
            prefix = f"_{prefix}"
        self.prefix = prefix
        #: Parameters of the new body for the cotangents of the old one's results.
        self.cts = {
            n: param(f"{prefix}{n}", result.shape, result.dtype)
            for n, result in enumerate(self.body.results)
            if (n < op.carries and self.active[op.consts + n]) or (n >= op.carries and n in self.given)
        }

    def seeds(self) -> list[tuple[Value, Value]]:
        """The results of the body with their cotangents."""
        return [(self.body.results[n], ct) for n, ct in self.cts.items()]

    def wanted(self) -> list[Value]:
        """The parameters of the body whose cotangents are computed."""
        return [p for p, wanted in zip(self.body.params, self.active, strict=True) if wanted]

    def cotangents(self, found: Sequence[Value | None]) -> dict[int, Value]:
        """The cotangents of operands by number.

        Parameters
        ----------
        found : sequence of Value or None
            The cotangents of `wanted` in terms of the parameters of the body and of `seeds`.
        """
        op = self.op
        of = dict(zip([n for n, wanted in enumerate(self.active) if wanted], found, strict=True))
        self.unknown = self._depending([ct for ct in of.values() if ct is not None])
        after: dict[int, list[_Recipe]] = {}
        kept: dict[int, Value] = {}
        for n in range(op.consts):
            ct = of.get(n)
            if ct is not None:
                recipes, rest = self._summed(ct)
                if recipes:
                    after[n] = recipes
                if rest is not None:
                    kept[n] = rest
        new_carries = [
            made if (made := of[op.consts + n]) is not None else full(0.0, ct.shape, ct.dtype)
            for n, ct in self.cts.items()
            if n < op.carries
        ]
        of_rows = {n: ct for n, ct in of.items() if n >= self.fixed and ct is not None}
        stacks, results = self._loops(kept, new_carries, of_rows)
        for n, recipes in after.items():
            for recipe in recipes:
                made = recipe(stacks)
                results[n] = add(results[n], made) if n in results else made
        return results

    def _depending(self, results: Sequence[Value]) -> set[Value]:
        """The values behind results that depend on cotangents."""
        found = set(self.cts.values())
        for value in toposort(results):
            if any(v in found for v in value.inputs):
                found.add(value)
        return found

    # What is saved.

    def _is_free(self, value: Value) -> bool:
        """Whether the new loop has a value anyway, or computes it cheaply from what it has."""
        todo, steps = [value], 0
        while todo:
            one = todo.pop()
            if is_param(one):
                if self.op.consts <= self._number(one) < self.fixed:
                    return False
                continue
            steps += 1
            if one.inputs and (not _is_cheap(one) or steps > costs.CHEAP_FLOPS):
                return False
            todo.extend(one.inputs)
        return True

    def _number(self, p: Value) -> int:
        return self.body.params.index(p)

    def _save(self, value: Value) -> None:
        """Let the old loop put a value out, unless the new loop has it anyway."""
        if not self._is_free(value):
            self._saved[value] = None

    def _needed(self, results: Sequence[Value]) -> None:
        """Save what the new body needs of the old one's values: behind views, which are cheap."""
        todo, seen = list(results), set(results)
        while todo:
            value = todo.pop()
            if value in self.unknown or not self._stop(value):
                fresh = [v for v in value.inputs if v not in seen]
                seen.update(fresh)
                todo.extend(fresh)
            else:
                self._save(value)

    def _drop_derived(self, pinned: set[Value]) -> None:
        """Do not save what follows cheaply from other saved values, or from what the old loop puts out anyway."""
        there = {*self._saved, *self.body.results[self.op.carries :]}
        for value in [v for v in self._saved if v not in pinned]:
            sources = self._sources(value, there)
            if sources is not None:
                del self._saved[value]
                self._saved |= dict.fromkeys(v for v in sources if v in there)

    def _sources(self, value: Value, there: set[Value]) -> list[Value] | None:
        """What a value follows from by a few cheap operators, if all of it is there; None if not."""
        if not _is_cheap(value):
            return None
        todo, found, steps = list(value.inputs), [], 1
        while todo:
            one = todo.pop()
            if one in there:
                found.append(one)
            elif one.inputs:
                steps += 1
                if steps > costs.CHEAP_FLOPS or not _is_cheap(one):
                    return None
                todo.extend(one.inputs)
            elif not self._is_free(one):
                return None
        return found

    def _stop(self, value: Value) -> bool:
        return not value.inputs or (not isinstance(value.op, _VIEWS) and not self._is_free(value))

    # Sums over the iterations that are computed after the loop.

    def _summed(self, ct: Value) -> tuple[list[_Recipe], Value | None]:
        """The cotangent of a constant: what is computed after the loop, and what is added up in it."""
        recipes, rest = [], []
        todo = [ct]
        while todo:
            term = todo.pop()
            if isinstance(term.op, Add):
                todo.extend(reversed(term.inputs))
                continue
            recipe = self._product(term)
            if recipe is None:
                rest.append(term)
            else:
                recipes.append(recipe)
        total: Value | None = None
        for term in rest:
            recipe = self._total(term)
            if recipe is not None:
                recipes.append(recipe)
            else:
                total = term if total is None else add(total, term)
        return recipes, total

    def _product(self, term: Value) -> _Recipe | None:
        """A product of matrices, or a view of one, as a product of stacks."""
        op = term.op
        if isinstance(op, Reshape | Permute) and term in self.unknown:
            inner = self._product(term.inputs[0])
            return None if inner is None else (lambda stacks: apply(op, inner(stacks)))
        if not isinstance(op, MatMul) or len(term.shape) != 2 or any(map(self._is_constant, term.inputs)):
            return None
        left, right = (self._stack(v) for v in term.inputs)

        def product(stacks: Mapping[Value, Value]) -> Value:
            a, b = left(stacks), right(stacks)
            rows = (a if op.transpose_a else permute(a, (0, 2, 1)), permute(b, (0, 2, 1)) if op.transpose_b else b)
            flat = (reshape(x, (x.shape[0] * x.shape[1], x.shape[2])) for x in rows)
            return apply(MatMul(transpose_a=True), *flat)

        return product

    def _total(self, term: Value) -> _Recipe | None:
        """A sum of what is stacked anyway, as one sum over all iterations."""
        op = term.op
        if isinstance(op, Reshape | Permute) and self._base(term) not in self._put_out:
            inner = self._total(term.inputs[0])
            return None if inner is None else (lambda stacks: apply(op, inner(stacks)))
        source, axes = (term.inputs[0], op.axes) if isinstance(op, ReduceSum) else (term, ())
        if self._base(source) not in self._put_out:
            return None
        stack = self._stack(source)

        def total(stacks: Mapping[Value, Value]) -> Value:
            made = sum_of(stack(stacks), (0, *(axis + 1 for axis in axes)))
            return reshape(made, term.shape)

        return total

    def _is_constant(self, value: Value) -> bool:
        """Whether a value is the same in all iterations."""
        return value not in self.unknown and all(
            self._number(v) < self.op.consts for v in toposort((value,)) if is_param(v)
        )

    def _base(self, value: Value) -> Value:
        while isinstance(value.op, Reshape):
            value = value.inputs[0]
        return value

    def _stack(self, value: Value) -> _Recipe:
        """The values of all iterations, stacked."""
        base = self._base(value)
        if base in self.unknown:
            self._put_out[base] = None
        elif not (is_param(base) and self._number(base) >= self.fixed):
            self._saved[base] = None
        length = self.op.length
        return lambda stacks: reshape(stacks[base], (length, *value.shape))

    # The loops.

    def _loops(
        self, kept: Mapping[int, Value], new_carries: Sequence[Value], of_rows: Mapping[int, Value]
    ) -> tuple[dict[Value, Value], dict[int, Value]]:
        """Both loops; returns stacks of values, and the cotangents of operands that the new loop computes."""
        op, body = self.op, self.body
        outs = list(self._put_out)
        pinned = set(self._saved)
        needed = [*kept.values(), *new_carries, *of_rows.values(), *outs]
        self.unknown = self._depending(needed)  # which has grown by sums
        self._needed(needed)
        self._drop_derived(pinned)
        stacks = dict(zip(body.params[self.fixed :], self.value.inputs[self.fixed :], strict=True))
        stacks |= self._forward()
        totals = {n: param(f"{self.prefix}sum_{n}", body.params[n].shape, body.params[n].dtype) for n in kept}
        results = [*new_carries, *(add(totals[n], kept[n]) for n in kept), *of_rows.values(), *outs]
        rows = {
            v: param(f"{self.prefix}row_{n}", v.shape, v.dtype) if not is_param(v) or v not in body.params else v
            for n, v in enumerate(stacks)
        }
        # A carry of the old loop is a row of the new one.
        results = list(rebuild(tuple(results), lambda _value, _inputs: None, rows))
        used = {v for v in toposort(results) if is_param(v)}
        consts = [n for n in range(op.consts) if body.params[n] in used]
        stacked = [v for v in stacks if rows[v] in used]
        carried = [n for n in self.cts if n < op.carries]
        outputs = [n for n in self.cts if n >= op.carries]
        params = (
            *(body.params[n] for n in consts),
            *(self.cts[n] for n in carried),
            *totals.values(),
            *(rows[v] for v in stacked),
            *(self.cts[n] for n in outputs),
        )
        new_body = uniquely_named(Function(f"vjp_{body.name}", params, tuple(results)))
        loop = Scan(new_body, op.length, len(consts), len(carried) + len(totals), not op.reverse)
        initial = [
            self.given[n] if n in self.given else full(0.0, self.cts[n].shape, self.cts[n].dtype) for n in carried
        ]
        made = items(
            loop,
            *(self.value.inputs[n] for n in consts),
            *initial,
            *(full(0.0, p.shape, p.dtype) for p in totals.values()),
            *(stacks[v] for v in stacked),
            *(self.given[n] for n in outputs),
        )
        numbers = [*(op.consts + n for n in carried), *kept, *of_rows]
        found = {n: ct for n, ct in zip(numbers, made, strict=False) if self.active[n]}
        stacks.update(zip(outs, made[len(numbers) :], strict=True))
        return stacks, found

    def _forward(self) -> dict[Value, Value]:
        """The old loop with what is saved among its outputs: the stack of each saved value."""
        op, body = self.op, self.body
        known = {row: n for n, row in enumerate(body.results[op.carries :], op.carries)}
        extra = [v for v in self._saved if v not in known]
        wider = self.value.op
        if extra:
            wider = Scan(
                uniquely_named(Function(body.name, body.params, (*body.results, *extra))),
                op.length,
                op.consts,
                op.carries,
                op.reverse,
            )
        assert isinstance(wider, Scan)
        if not self._saved:
            return {}
        made = items(wider, *self.value.inputs)
        places = {**known, **{v: n for n, v in enumerate(extra, len(body.results))}}
        return {v: made[places[v]] for v in self._saved}


def _is_cheap(value: Value) -> bool:
    """Whether computing a value again costs less than storing it and loading it again."""
    op = value.op
    return isinstance(op, _VIEWS) or (isinstance(op, Elementwise) and type(op).flops <= costs.CHEAP_FLOPS)
