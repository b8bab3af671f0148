"""`jit`: a whole Python function as one compiled program."""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import update_wrapper, wraps
from inspect import signature
from types import MethodType
from typing import Any

import numpy as np

from adjoint.compiler import compile as compile_function
from adjoint.errors import NameLookupError, TypeRuleError, kind_of
from adjoint.func.calling import CHANGED, Caller, guard
from adjoint.func.compiled import Program, write_call, write_return
from adjoint.func.dynamic import Dynamic, cut
from adjoint.func.lifting import Lifted, lift
from adjoint.func.tracing import applied
from adjoint.func.tree import LEAF, Structure, tree_flatten, tree_unflatten
from adjoint.ir import TensorType
from adjoint.ir.printer import print_functions
from adjoint.tensor.autocasting import mode
from adjoint.tensor.checking import nan_mode, refuse_nan
from adjoint.tensor.plan import options
from adjoint.tensor.record import rebind, record
from adjoint.tensor.structure import Node, Operation, Spec, spec_of
from adjoint.tensor.tensor import Tensor, from_array
from adjoint.tensor.trace import state

__all__ = ["Jitted", "jit"]

#: Most kinds of arguments for which a function is kept, and most variants of it for arguments of one kind, which differ
#: in other things that it depends on.
_MOST, _MOST_ALIKE = 64, 8


def jit(
    function: Callable[..., Any] | None = None,
    *,
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Sequence[str] = (),
    dynamic: Mapping[str, Mapping[int, str]] | None = None,
    bound: int | None = None,
) -> Any:
    """Compile a function of tensors as a whole: ``jit(function)``, or the decorator ``@jit`` or ``@jit(...)``.

    The function is traced when it is called with arguments of a new kind, and never again for those: later calls run
    the compiled program. Modules and optimizers that it uses are read and updated in place, so a training step can be
    one function. Python code in it runs only while it is traced; what a call would have to repeat is refused.

    Parameters
    ----------
    function : callable, optional
        Takes and returns tensors, or trees of them. NumPy arrays are taken as tensors. Other arguments must be
        hashable; the function is traced for each of their values. A float that varies becomes a tensor, f32[].
    static_argnums : int or sequence of int, default ()
        Positions of arguments that are not looked into and must be hashable.
    static_argnames : str or sequence of str, default ()
        Names of keyword arguments of the same kind.
    dynamic : mapping, optional
        Arguments, by the names of parameters, whose axis 0 has a size that varies, ``{"x": {0: "n"}, "y": {0: "n"}}``.
        The function is compiled once for every size up to a bound, and computes with the rows that there are. They are
        tensors or arrays, given by position.
    bound : int, optional
        The largest size; default: the first one, rounded up to a power of two, and again for each larger one.

    Returns
    -------
    Jitted
        The compiled function. If a result requires a gradient and the function changes no parameter, its calls are
        recorded as one operation, which can be differentiated. Otherwise its results require no gradients.

    Raises
    ------
    TypeRuleError, InvalidValueError
        In a call, if the function reads a tensor, changes Python objects, prints or draws random numbers while it is
        traced, or keeps a traced tensor.
    """
    numbers = (static_argnums,) if isinstance(static_argnums, int) else tuple(static_argnums)
    names = (static_argnames,) if isinstance(static_argnames, str) else tuple(static_argnames)
    sizes = None if dynamic is None else Dynamic(dynamic, bound)
    if function is None:
        return lambda given: Jitted(given, numbers, names, sizes)
    return Jitted(function, numbers, names, sizes)


class _Variant:
    """A traced function, and the function that calls it as long as nothing that it depends on has changed."""

    def __init__(self, lifted: Lifted, specs: tuple[Spec, ...], grad: bool) -> None:
        self.lifted = lifted
        caller = Caller(len(specs))
        for n, spec in enumerate(specs):
            caller.require(f"a{n}._spec is {caller.name(spec)}")
        here = caller.name(state)
        caller.require(f"{here}.grad is {grad} and {here}.trace.outer is None")
        caller.require(f"{caller.name(mode)}.dtype is {caller.name(mode.dtype)}")
        for optimizer in lifted.around.optimizers:
            for updates in optimizer._bound._updates:
                group, hypers = caller.name(updates.group), caller.item(updates.__dict__, "_hypers")
                caller.check(f"if {group}.changed: {caller.name(updates.refresh)}()")
                caller.require(f"{hypers} is {caller.name(updates._hypers)}")
        around = lifted.around
        guard(caller, around.guards, [(cell, content) for _, cell, content in around.cells], lifted.grads)
        if lifted.program is None:
            self._write_record(caller)
        else:
            caller.add(f"if {caller.name(nan_mode)}.on: {caller.name(self._check)}(args)")
            write_call(caller, lifted.program, lifted.entered, lifted.structure, lifted.results, lifted.effects)
        #: Takes the tensors; returns `CHANGED` if the function has to be traced again.
        self.call: Callable[[Sequence[Tensor]], Any] = caller.made()

    def _check(self, args: Sequence[Tensor]) -> None:
        """Refuse NaN in what a call computes."""
        function = self.lifted.function
        if function is not None:
            tensors = self._operands(args)
            refuse_nan(function, [tensor.elements().array for tensor in tensors], options.compile)

    def _operands(self, args: Sequence[Tensor]) -> list[Tensor]:
        """The tensors in place of the parameters of the graph."""
        entered = [self.lifted.entered[place] for place in self.lifted.places]
        return [args[one] if isinstance(one, int) else one.container[one.key] for one in entered]

    def _write_record(self, caller: Caller) -> None:
        """Add code that records the call as one operation, so that it can be differentiated."""
        lifted = self.lifted
        for one in (lifted.entered[place] for place in lifted.places):
            if not isinstance(one, int):
                where, tensor = caller.item(one.container, one.key), caller.name(one.tensor)
                same = "" if one.moving else f"{where} is {tensor} and "
                caller.require(f"{same}{where}._spec is {caller.name(one.tensor._spec)}")
        if lifted.function is not None:
            entry = Operation(applied(lifted.function), numbers=False)
            caller.add(f"o = {caller.name(record)}({caller.name(entry)}, {caller.name(self._operands)}(args))")
        for target, n in lifted.effects.rebound:
            caller.add(f"{caller.name(rebind)}({caller.name(target)}, o[{n}])")
        names = {"new": "o[{}]", "argument": "a{}"}
        leaves = [
            names[result.kind].format(result.item) if result.kind in names else caller.name(result.item)
            for result in lifted.results
        ]
        write_return(caller, lifted.structure, leaves)


class Jitted:
    """A function that is compiled as a whole; `jit` makes it.

    Parameters
    ----------
    function : callable
        The function.
    static_argnums, static_argnames : tuple
        As for `jit`.
    dynamic : Dynamic, optional
        The arguments of varying size.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        static_argnums: tuple[int, ...],
        static_argnames: tuple[str, ...],
        dynamic: Dynamic | None = None,
    ) -> None:
        if not callable(function):
            raise TypeRuleError(f"jit takes a function, got {kind_of(function)}; pass the function, not its call")
        self._function = function
        self._static = (static_argnums, static_argnames)
        self._dynamic = dynamic
        self._sized = () if dynamic is None else _positions_of(function, dynamic.names)
        self._name = _plain_name(getattr(function, "__name__", type(function).__name__))
        self._root = Node(None)
        self._programs: dict[Any, Program] = {}
        self._variants: OrderedDict[Hashable, list[_Variant]] = OrderedDict()
        #: Calls the variant that was called last, for arguments that are tensors, none of them in a container.
        self._last: Callable[[Any], Any] = lambda _: CHANGED
        #: The kinds of arguments, without their floats, that have been met, and those whose floats are tensors.
        self._kinds: set[Hashable] = set()
        self._varying: set[Hashable] = set()
        update_wrapper(self, function, updated=())

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        """Call the compiled function, which is compiled first for arguments of a new kind."""
        if not keywords:
            found = self._last(args)
            if found is not CHANGED:
                return found
            if np.ndarray in [arg.__class__ for arg in args]:  # the elements are read before the call returns
                args = tuple([from_array(a, copy=False) if isinstance(a, np.ndarray) else a for a in args])
                found = self._last(args)
                if found is not CHANGED:
                    return found
        return self._call(args, keywords)

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        return self if instance is None else MethodType(self, instance)

    def __repr__(self) -> str:
        return f"<jit of {self._name}>"

    def _call(self, args: tuple[Any, ...], keywords: Mapping[str, Any]) -> Any:
        if state.trace.outer is not None:  # part of the function that is being traced
            return self._function(*args, **keywords)
        if self._dynamic is not None:
            return self._call_dynamic(self._dynamic, args, keywords)
        key, leaves, variants, structure = self._found(args, keywords)
        tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
        for variant in variants:
            found = variant.call(tensors)
            if found is not CHANGED:
                if self._is_plain(leaves, structure):
                    self._last = variant.call
                return found
        variant = self._traced(key, leaves, tensors, structure)
        found = variant.call(tensors)
        if found is CHANGED:
            raise TypeRuleError(
                f"jit: what {self._name} depends on must not be changed by a call of it, got another value after it "
                "was traced; return the new value"
            )
        if self._is_plain(leaves, structure):
            self._last = variant.call
        return found

    def _call_dynamic(self, dynamic: Dynamic, args: tuple[Any, ...], keywords: Mapping[str, Any]) -> Any:
        """A call with a varying number of rows."""
        given = [from_array(arg) if isinstance(arg, np.ndarray) else arg for arg in args]
        if keywords or len(given) <= max(self._sized) or not all(isinstance(arg, Tensor) for arg in given):
            raise TypeRuleError(
                "jit: the arguments of a function with a dynamic size must be tensors or arrays by position, got "
                f"others for {self._name}; let it use them as globals"
            )
        rows = dynamic.rows(given, self._sized)
        tensors = dynamic.filled(given, self._sized, rows)
        key, leaves, variants, structure = self._found(tuple(tensors[:-1]), {})
        found: Any = CHANGED
        for variant in variants:
            found = variant.call(tensors)
            if found is not CHANGED:
                break
        else:
            variant = self._traced(key, leaves, tensors[:-1], structure)
            found = variant.call(tensors)
        results, returned = tree_flatten(found)
        axes = variant.lifted.axes
        parts = [x if axis is None else cut(x, axis, rows) for x, axis in zip(results, axes, strict=True)]
        return tree_unflatten(returned, parts)

    @staticmethod
    def _is_plain(leaves: list[Any], structure: Structure) -> bool:
        """Whether all arguments are tensors, given by position."""
        args, keywords = structure.children
        return (
            not keywords.children
            and all(child == LEAF for child in args.children)
            and all(isinstance(leaf, Tensor) for leaf in leaves)
        )

    def _found(
        self, args: tuple[Any, ...], keywords: Mapping[str, Any]
    ) -> tuple[Hashable, list[Any], list[_Variant], Structure]:
        """The key of a call, its leaves, the variants that were traced for it, and the structure of the arguments."""
        numbers, names = self._static
        static = [_Static(arg) if n in numbers or n - len(args) in numbers else arg for n, arg in enumerate(args)]
        named = {name: _Static(item) if name in names else item for name, item in keywords.items()}
        leaves, structure = tree_flatten((tuple(static), named))
        kinds: list[Hashable] = []
        floats: list[float] = []
        for n, leaf in enumerate(leaves):
            if isinstance(leaf, np.ndarray | np.generic):
                leaf = leaves[n] = from_array(np.asarray(leaf), copy=isinstance(leaf, np.generic))
            if isinstance(leaf, Tensor):
                kinds.append(leaf._spec)
            elif isinstance(leaf, float):
                kinds.append(float)
                floats.append(leaf)
            else:
                kinds.append((type(leaf), _hashable(self._name, leaf)))
        base = (structure, tuple(kinds), state.grad, mode.dtype)
        key: Hashable = (*base, tuple(repr(number) for number in floats))
        if floats and key not in self._variants and base in self._kinds:
            self._varying.add(base)
        if base in self._varying:
            leaves = [from_array(np.asarray(x, np.float32)) if isinstance(x, float) else x for x in leaves]
            key = (*base, "tensors")
        self._kinds.add(base)
        return key, leaves, self._variants.get(key, []), structure

    def _traced(self, key: Hashable, leaves: list[Any], tensors: list[Tensor], structure: Structure) -> _Variant:
        specs = tuple(tensor._spec for tensor in tensors)
        statics = [leaf.value if isinstance(leaf, _Static) else leaf for leaf in leaves if not isinstance(leaf, Tensor)]
        lifted = lift(
            _unwrapping(self._function),
            self._name,
            self._root,
            self._programs,
            structure,
            leaves,
            specs,
            (self._function, *statics),
            self._sized,
        )
        extra = () if self._dynamic is None else (spec_of(TensorType((), np.dtype(np.int32))),)
        variant = _Variant(lifted, (*specs, *extra), state.grad)
        alike = self._variants.setdefault(key, [])
        alike.insert(0, variant)
        self._variants.move_to_end(key)
        if len(self._variants) > _MOST or len(alike) > _MOST_ALIKE:
            del alike[_MOST_ALIKE:]
            while len(self._variants) > _MOST:
                self._variants.popitem(last=False)
            self._forget_programs()
        return variant

    def _forget_programs(self) -> None:
        """Forget the programs that no variant calls, and the structure that led to them."""
        used = {id(variant.lifted.program) for alike in self._variants.values() for variant in alike}
        for key in [key for key, program in self._programs.items() if id(program) not in used]:
            del self._programs[key]
        self._root = Node(None)

    def lower(self, *args: Any, **keywords: Any) -> Any:
        """The graph that a call with these arguments computes, an `adjoint.ir.Function`; nothing is run.

        Arguments may be given by `TensorType`.
        """
        given, structure = tree_flatten((args, keywords))
        args, keywords = tree_unflatten(structure, [_zeros(x) if isinstance(x, TensorType) else x for x in given])
        key, leaves, variants, structure = self._found(args, keywords)
        tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
        variant = variants[0] if variants else self._traced(key, leaves, tensors, structure)
        return variant.lifted.function

    def show(self, stage: str = "graph") -> str:
        """The text of a stage of compilation, of the call that was compiled last.

        Parameters
        ----------
        stage : str, default "graph"
            ``"graph"``, with the line of code of each value, ``"kernels"``, ``"llvm"`` or ``"asm"``.

        Raises
        ------
        TypeRuleError
            If the function has not been called yet.
        """
        if not self._programs and not self._variants:
            raise TypeRuleError(f"show: {self._name} must be called first, got no call; call it with its arguments")
        variant = next(reversed(self._variants.values()))[0]
        function = variant.lifted.function
        if function is None:
            return f"{self._name} computes nothing"
        if stage == "graph":
            return print_functions((function,), show_lines=True)
        if variant.lifted.program is None:
            return compile_function(function, options=options.compile)[function.name].text(stage)
        return variant.lifted.program.entry.text(stage)


class _Static:
    """A static argument."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Static) and type(self.value) is type(other.value) and bool(self.value == other.value)

    def __hash__(self) -> int:
        return hash(self.value)


def _zeros(type_: TensorType) -> Tensor:
    return from_array(np.zeros(type_.shape, type_.dtype), copy=False)


def _hashable(name: str, leaf: Any) -> Any:
    try:
        hash(leaf)
    except TypeError:
        raise TypeRuleError(
            f"jit: the arguments of {name} must be tensors, arrays or hashable objects, got {kind_of(leaf)}; convert "
            "it, or let the function use it as a global"
        ) from None
    return leaf


def _unwrapping(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, called with static arguments as they were given."""

    @wraps(function, updated=())
    def call(*args: Any, **keywords: Any) -> Any:
        return function(
            *[arg.value if isinstance(arg, _Static) else arg for arg in args],
            **{name: item.value if isinstance(item, _Static) else item for name, item in keywords.items()},
        )

    return call


def _positions_of(function: Callable[..., Any], names: Sequence[str]) -> tuple[int, ...]:
    """The positions of parameters."""
    known = list(signature(function).parameters)
    for name in names:
        if name not in known:
            raise NameLookupError(
                f"jit: dynamic names parameters of the function, got {name!r}; known parameters: {', '.join(known)}"
            )
    return tuple(known.index(name) for name in names)


def _plain_name(name: str) -> str:
    found = "".join(c if c.isalnum() or c == "_" else "_" for c in name).strip("_")
    return found if found and not found[0].isdigit() else "function"
