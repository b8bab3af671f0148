"""Tracing of a function for `jit`: which tensors it uses and changes, and the program that does the same.

Every tensor that the function uses besides its arguments becomes an argument of the program, every tensor that it
changes a result. What a program cannot repeat is refused.
"""

import time
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from inspect import signature
from typing import Any

from adjoint.errors import TypeRuleError
from adjoint.func.compiled import Captured, Effects, Program, Result, used_up
from adjoint.func.dynamic import masked
from adjoint.func.surroundings import Surroundings, random_states
from adjoint.func.tracing import Tracing, traced
from adjoint.func.tree import LEAF, Structure, tree_flatten, tree_unflatten
from adjoint.func.watching import refuse_leaks, refuse_side_effects, without_print
from adjoint.ir import Function
from adjoint.lazy_dataclass import dataclass
from adjoint.tensor.explain import log
from adjoint.tensor.plan import program
from adjoint.tensor.preparation import UnpreparedError
from adjoint.tensor.structure import Node, Spec
from adjoint.tensor.tensor import Tensor
from adjoint.tensor.trace import NOTHING, lock
from adjoint.transforms.batch_axis import Axis

__all__ = ["Lifted", "lift"]

#: Most objects that are prepared for a function, which is traced again for each.
_MOST_PREPARED = 1000


@dataclass(frozen=True, slots=True)
class Lifted:
    """A traced function.

    Attributes
    ----------
    program : Program or None
        The compiled function; None if its results can be differentiated and it is recorded instead.
    function : Function or None
        Its graph; None if it computes nothing.
    entered : tuple of int or Captured
        What enters the graph: arguments by number, and captured tensors.
    places : tuple of int
        For each parameter of the graph, the position in `entered`.
    structure : Structure
        Of what it returns.
    results : tuple of Result
        Its leaves.
    effects : Effects
        What it changes.
    differentiable : bool
        Whether a result requires a gradient.
    around : Surroundings
        What it reaches.
    grads : tuple of (Tensor, bool)
        Tensors, and whether their ``grad`` was None, on which the program depends.
    axes : tuple of Axis or None
        For a function with a dynamic size: for each of `results`, its axis of rows.
    """

    program: Program | None
    function: Function | None
    entered: tuple[Any, ...]
    places: tuple[int, ...]
    structure: Structure
    results: tuple[Result, ...]
    effects: Effects
    differentiable: bool
    around: Surroundings
    grads: tuple[tuple[Tensor, bool], ...]
    axes: tuple[Axis | None, ...] = ()


def lift(
    function: Callable[..., Any],
    name: str,
    root: Node,
    programs: dict[Any, Program],
    structure: Structure,
    leaves: Sequence[Any],
    specs: Sequence[Spec],
    roots: Sequence[Any],
    dynamic: Sequence[int] = (),
) -> Lifted:
    """Trace a function.

    Parameters
    ----------
    function : callable
        Called with the positional and keyword arguments that `structure` describes.
    name : str
        Its name.
    root : Node
        Where its programs begin.
    programs : dict
        The programs compiled so far, by structure; a new one is added.
    structure, leaves : Structure, sequence
        The arguments: tensors and static objects.
    specs : sequence of Spec
        Of the tensors among the leaves, in order.
    roots : sequence
        Where to look for what it reaches.
    dynamic : sequence of int, default ()
        The tensors whose first axis has any size up to the one that is given.
    """
    lifting = _Lifting(function, name, root, programs, tuple(dynamic))
    for _ in range(_MOST_PREPARED):
        try:
            return lifting.run(structure, leaves, specs, roots)
        except UnpreparedError as error:
            error.make()
    return lifting.run(structure, leaves, specs, roots)


class _Lifting:
    def __init__(
        self,
        function: Callable[..., Any],
        name: str,
        root: Node,
        programs: dict[Any, Program],
        dynamic: tuple[int, ...],
    ) -> None:
        self.function, self.name, self.root, self.programs, self.dynamic = function, name, root, programs, dynamic
        #: Names of its positional parameters.
        self.parameters: tuple[str, ...] = ()
        with suppress(TypeError, ValueError):  # some built-in functions have no signature
            self.parameters = tuple(
                p.name for p in signature(function).parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD
            )

    def run(self, structure: Structure, leaves: Sequence[Any], specs: Sequence[Spec], roots: Sequence[Any]) -> Lifted:
        around = Surroundings(roots)
        numbers = random_states()
        before = {known: tensor.__dict__.get("_grad") for known, tensor in around.tensors.items()}
        with lock, traced(Tracing(self.root, compiled=True)) as trace:
            examples = self._examples(trace, structure, leaves, specs)
            with without_print():
                found = self._call(structure, leaves, examples)
            self._refuse(structure, leaves, specs, around, numbers)
            parts = _Parts(trace, examples, found, around, before)
        parts.restore_grads(before)
        made = self._finished(parts, around, before)
        watched = parts.watched()
        del examples, found
        parts.forget()
        refuse_leaks(self.name, watched)
        return made

    def _examples(
        self, trace: Tracing, structure: Structure, leaves: Sequence[Any], specs: Sequence[Spec]
    ) -> list[Tensor]:
        """Tensors in place of the arguments, with the names of the function's parameters."""
        positional, keywords = structure.children
        names: list[str] = []
        for n, child in enumerate(positional.children):
            name = self.parameters[n] if n < len(self.parameters) else f"x{n}"
            names += [name] if child == LEAF else [f"{name}.{k}" for k in range(child.count)]
        names += [f"keyword{n}" for n in range(keywords.count)]
        named = [name for name, leaf in zip(names, leaves, strict=True) if isinstance(leaf, Tensor)]
        return [trace.example(s.type, s.requires_grad, s.leaf, name) for s, name in zip(specs, named, strict=True)]

    def _call(self, structure: Structure, leaves: Sequence[Any], examples: Sequence[Tensor]) -> Any:
        rest = iter(examples)
        args, keywords = tree_unflatten(structure, [next(rest) if isinstance(x, Tensor) else x for x in leaves])
        found = self.function(*args, **keywords)
        after, now = tree_flatten((args, keywords))
        rest = iter(examples)
        same = now == structure and all(
            a is (next(rest) if isinstance(b, Tensor) else b) for a, b in zip(after, leaves, strict=True)
        )
        if not same:
            raise TypeRuleError(
                f"jit: a traced function must not change the containers that it takes, got a change of an argument of "
                f"{self.name}; return the new value"
            )
        return found

    def _refuse(
        self, structure: Structure, leaves: Sequence[Any], specs: Sequence[Spec], around: Surroundings, numbers: Any
    ) -> None:
        def again() -> None:
            with traced(Tracing(self.root, compiled=True)) as trace:
                self._call(structure, leaves, self._examples(trace, structure, leaves, specs))

        refuse_side_effects(self.name, around, numbers, again)

    def _finished(self, parts: "_Parts", around: Surroundings, before: dict[int, Any]) -> Lifted:
        function: Function | None = None
        places: tuple[int, ...] = ()
        compiled: Program | None = None
        axes: tuple[Axis | None, ...] = ()
        differentiable = parts.is_differentiable()
        if parts.wanted:
            function, where = program(parts.node, tuple(parts.wanted), name=self.name)
            places = tuple(where[p] for p in function.params)
            if self.dynamic:
                differentiable = False
                function, axes = self._masked(function, parts, places)
                places = (*places, len(parts.entered))
                parts.entered.append(len(parts.numbers))  # an argument of the program alone
            if not differentiable:
                key = (parts.node, tuple(parts.wanted))
                compiled = self.programs.get(key)
                if compiled is None:
                    start = time.perf_counter()
                    compiled = self.programs[key] = Program(function, places)
                    parts.node.plans = {**(parts.node.plans or {}), key[1]: None}  # for the reason of compilations
                    compiled.number = log.compiled(parts.node, time.perf_counter() - start, self.name)
        grads = parts.grads_read(around, before)
        return Lifted(
            compiled,
            function,
            tuple(parts.entered),
            places,
            parts.structure,
            tuple(parts.results),
            parts.effects,
            differentiable,
            around,
            grads,
            axes,
        )

    def _masked(
        self, function: Function, parts: "_Parts", places: Sequence[int]
    ) -> tuple[Function, tuple[Axis | None, ...]]:
        """The graph for any number of rows, and the axis of rows of each leaf that the function returns."""
        if parts.is_differentiable():
            raise TypeRuleError(
                f"jit: a function with a dynamic size must not return tensors that require gradients, got one from "
                f"{self.name}; call it within no_grad(), or compute the gradients inside"
            )
        candidates = [n for n, place in enumerate(places) if parts.entered[place] in self.dynamic]
        made = masked(function, candidates)
        kept = [n for _, n in parts.effects.rebound] + [n for _, n in parts.effects.grads if isinstance(n, int)]
        if any(made.axes[n] is not None for n in kept):
            raise TypeRuleError(
                f"jit: a function with a dynamic size must not store tensors that have it, got one in {self.name}; "
                "return it"
            )
        return made.function, tuple(made.axes[r.item] if r.kind == "new" else None for r in parts.results)


class _Parts:
    """What a trace has found: operands, results, effects."""

    def __init__(
        self, trace: Tracing, examples: Sequence[Tensor], found: Any, around: Surroundings, before: dict[int, Any]
    ) -> None:
        self.trace: Any = trace
        self.numbers = {id(example): n for n, example in enumerate(examples)}
        self.inputs = {n: example._node for n, example in enumerate(examples)}
        self.examples: Any = examples
        self.wanted: dict[Node, int] = {}
        leaves, self.structure = tree_flatten(found)
        own = {id(tensor): tensor for tensor, _ in trace.captured}
        self.own, self.around = own, around
        self.results = [self._result(leaf) for leaf in leaves]
        self.outs = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
        rebound: list[tuple[Any, int]] = [(tensor, self._want(tensor._node)) for tensor in trace.changed()]
        rebound += [(self.numbers[id(e)], self._want(e._node)) for e in examples if e._node is not trace.first[id(e)]]
        grads: list[tuple[Any, Any]] = []
        changed: dict[int, Tensor] = {id(t): t for t in trace.with_new_grad()}
        for known, tensor in around.tensors.items():
            if tensor.__dict__.get("_grad") is not before[known]:
                changed[known] = tensor
        for tensor in (*changed.values(), *(e for e in examples if e._grad is not None)):
            new = tensor._grad
            if new is not None and new._storage is None:
                new = used_up(new._spec) if new._spent else self._want(new._node)
            grads.append((self.numbers.get(id(tensor), tensor), new))
        prints = tuple((text, tuple(self._want(node) for node in nodes)) for text, nodes in trace.prints)
        self.effects = Effects(tuple(rebound), tuple(grads), prints)
        self.node = trace.node
        self.steps = any(isinstance(n.key, tuple) and n.key[:1] == ("step",) for n in trace.node.path())
        of_leaves = {id(one) for one in before.values()}
        self.accumulates = any(id(target) in of_leaves for target, _ in rebound)
        self.moved = {id(target) for target, _ in rebound}
        self.entered: list[Any] = [self._entered(tensor, around) for tensor in trace.entered]

    def _want(self, node: Node) -> int:
        return self.wanted.setdefault(node, len(self.wanted))

    def _result(self, leaf: Any) -> Result:
        if not isinstance(leaf, Tensor):
            return Result("object", leaf)
        if id(leaf) in self.numbers:
            return Result("argument", self.numbers[id(leaf)])
        if id(leaf) in self.around.tensors:
            return Result("object", leaf)
        return Result("new", self._want(self.trace.operand(leaf)))

    def _entered(self, tensor: Tensor, around: Surroundings) -> Any:
        number = self.numbers.get(id(tensor))
        if number is not None:
            return number
        container, key = around.holders.get(id(tensor), ([tensor], 0))
        return Captured(tensor, container, key, id(tensor) in around.moving and id(tensor) not in self.moved)

    def is_differentiable(self) -> bool:
        """Whether a result requires a gradient, and no parameter is changed."""
        if self.effects.grads or self.effects.prints or self.accumulates:
            return False
        if any(isinstance(t, int) or t._spec.requires_grad for t, _ in self.effects.rebound):
            return False
        return any(out._spec.requires_grad and id(out) not in self.numbers for out in self.outs)

    def restore_grads(self, before: dict[int, Any]) -> None:
        """Give tensors their gradients back that were there before the call, not only before the tensor was used."""
        for target, _ in self.effects.grads:
            if isinstance(target, Tensor) and id(target) in before:
                target._grad = before[id(target)]

    def grads_read(self, around: Surroundings, before: dict[int, Any]) -> tuple[tuple[Tensor, bool], ...]:
        """The tensors whose ``grad`` the program depends on being there, or not."""
        if not self.steps and not self.effects.grads and not self.accumulates:
            return ()
        return tuple(
            (tensor, before[known] is None)
            for known, tensor in around.tensors.items()
            if tensor._spec.requires_grad and tensor._spec.leaf
        )

    def watched(self) -> list[tuple[weakref.ref[Any], str, str]]:
        """The tensors that must not be in use any more."""
        kept = set(self.own)
        return [
            (weakref.ref(tensor), str(tensor._spec.type), tensor._node.graph.line)
            for tensor in self.trace.made
            if id(tensor) not in kept
        ]

    def forget(self) -> None:
        """Forget everything that refers to tensors of the trace."""
        trace = self.trace
        trace.made, trace.entered, trace.storages, trace.captured, trace.examples = [], [], [], [], []
        trace.known, trace.rebound, trace.hooked = None, NOTHING, None
        self.trace = self.examples = None
        self.outs = []
        self.own = {}
