"""`jit`: a whole Python function as one compiled program."""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import update_wrapper
from importlib import import_module
from types import MethodType
from typing import Any

import numpy as np

from adjoint.compiler import compile as compile_function
from adjoint.errors import InvalidValueError, TypeRuleError, kind_of
from adjoint.func.arguments import Static, hashable, plain_name, positions_of, unwrapping, zeros
from adjoint.func.buckets import Buckets
from adjoint.func.calling import CHANGED
from adjoint.func.compiled import Captured, Program
from adjoint.func.dynamic import Dynamic, cut
from adjoint.func.lifting import lift
from adjoint.func.resident import ResidentCall
from adjoint.func.tree import LEAF, Structure, tree_flatten, tree_unflatten
from adjoint.func.variant import Variant
from adjoint.ir import Function, TensorType
from adjoint.tensor.autocasting import mode
from adjoint.tensor.plan import options
from adjoint.tensor.showing import Text, functions, stage_text
from adjoint.tensor.structure import Node, spec_of
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
    buckets: Mapping[str, Mapping[int, str | Sequence[int]]] | None = None,
    sizes: Mapping[str, str | Sequence[int]] | None = None,
    fill: Mapping[str, float] | None = None,
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
    buckets : mapping, optional
        Arguments that are filled up along axes to the next of some sizes, ``{"tokens": {1: (64, 128)}}``, so that at
        most one program is compiled for each of these. A name in place of the sizes, ``{"tokens": {1: "n"}, "labels":
        {1: "n"}}``, gives axes the same size: that of the longest. The results are those of the larger arguments.
    sizes : mapping, optional
        The sizes by name, ``{"n": (64, 128)}``; default: powers of 2.
    fill : mapping, optional
        What arguments with buckets are filled up with, ``{"labels": -100}``; default: 0.

    Returns
    -------
    Jitted
        The compiled function. If a result requires a gradient and the function changes no parameter, its calls are
        recorded as one operation, which can be differentiated. Otherwise its results require no gradients.

    Raises
    ------
    TypeRuleError, InvalidValueError
        In a call, if the function reads a tensor, changes Python objects, prints or draws random numbers while it is
        traced, or keeps a traced tensor; if an argument is longer than the largest of its buckets.
    """
    numbers = (static_argnums,) if isinstance(static_argnums, int) else tuple(static_argnums)
    names = (static_argnames,) if isinstance(static_argnames, str) else tuple(static_argnames)
    rows = None if dynamic is None else Dynamic(dynamic, bound)
    if buckets is None and (sizes is not None or fill is not None):
        raise InvalidValueError(
            "jit: sizes and fill are for arguments with buckets, got no buckets; pass buckets={...}"
        )

    def made(given: Callable[..., Any]) -> Jitted:
        filled = None if buckets is None else Buckets(given, buckets, sizes or {}, fill or {})
        return Jitted(given, numbers, names, rows, filled)

    return made if function is None else made(function)


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
    buckets : Buckets, optional
        The arguments that are filled up.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        static_argnums: tuple[int, ...],
        static_argnames: tuple[str, ...],
        dynamic: Dynamic | None = None,
        buckets: Buckets | None = None,
    ) -> None:
        if not callable(function):
            raise TypeRuleError(f"jit takes a function, got {kind_of(function)}; pass the function, not its call")
        self._function = function
        self._static = (static_argnums, static_argnames)
        self._dynamic = dynamic
        self._buckets = buckets
        self._sized = () if dynamic is None else positions_of(function, dynamic.names)
        self._name = plain_name(getattr(function, "__name__", type(function).__name__))
        self._root = Node(None)
        self._programs: dict[Any, Program] = {}
        self._variants: OrderedDict[Hashable, list[Variant]] = OrderedDict()
        #: Calls the variant that was called last, for arguments that are tensors, none of them in a container.
        self._last: Callable[[Any], Any] = lambda _: CHANGED
        #: The kinds of arguments, without their floats, that have been met, and those whose floats are tensors.
        self._kinds: set[Hashable] = set()
        self._varying: set[Hashable] = set()
        update_wrapper(self, function, updated=())
        functions.add(self)

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
        if self._buckets is not None:
            args, keywords = self._buckets.filled(args, keywords)
            found = CHANGED if keywords else self._last(args)
            if found is not CHANGED:
                return found
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
    ) -> tuple[Hashable, list[Any], list[Variant], Structure]:
        """The key of a call, its leaves, the variants that were traced for it, and the structure of the arguments."""
        numbers, names = self._static
        static = [Static(arg) if n in numbers or n - len(args) in numbers else arg for n, arg in enumerate(args)]
        named = {name: Static(item) if name in names else item for name, item in keywords.items()}
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
                kinds.append((type(leaf), hashable(self._name, leaf)))
        base = (structure, tuple(kinds), state.grad, mode.dtype)
        key: Hashable = (*base, tuple(repr(number) for number in floats))
        if floats and key not in self._variants and base in self._kinds:
            self._varying.add(base)
        if base in self._varying:
            leaves = [from_array(np.asarray(x, np.float32)) if isinstance(x, float) else x for x in leaves]
            key = (*base, "tensors")
        self._kinds.add(base)
        return key, leaves, self._variants.get(key, []), structure

    def _traced(self, key: Hashable, leaves: list[Any], tensors: list[Tensor], structure: Structure) -> Variant:
        specs = tuple(tensor._spec for tensor in tensors)
        statics = [leaf.value if isinstance(leaf, Static) else leaf for leaf in leaves if not isinstance(leaf, Tensor)]
        lifted = lift(
            unwrapping(self._function),
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
        variant = Variant(lifted, (*specs, *extra), state.grad)
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
        return self._lowered(args, keywords)[0].lifted.function

    def lowered(self, *args: Any, **keywords: Any) -> tuple[Function | None, list[Tensor]]:
        """What `lower` returns, and the tensors that stand for its parameters: arguments, and what it uses besides."""
        variant, tensors = self._lowered(args, keywords)
        return variant.lifted.function, variant.operands(tensors)

    def resident(self, *args: Any) -> ResidentCall | None:
        """A call with these arguments that a loop in native code can repeat; nothing is run.

        Arguments may be given by `TensorType`. None if the function does something that only Python can repeat, such as
        printing.
        """
        variant, tensors = self._lowered(args, {})
        return None if ResidentCall.reason(variant) else ResidentCall(variant, tensors)

    def _lowered(self, args: tuple[Any, ...], keywords: Mapping[str, Any]) -> tuple[Variant, list[Tensor]]:
        """The variant for a call with these arguments, and its tensors."""
        given, structure = tree_flatten((args, keywords))
        args, keywords = tree_unflatten(structure, [zeros(x) if isinstance(x, TensorType) else x for x in given])
        if self._buckets is not None:
            args, keywords = self._buckets.filled(args, keywords)
        key, leaves, variants, structure = self._found(args, keywords)
        tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
        return variants[0] if variants else self._traced(key, leaves, tensors, structure), tensors

    def show(self, stage: str = "graph") -> Text:
        """The text of a stage of compilation, of the call that was compiled last.

        Parameters
        ----------
        stage : str, default "graph"
            ``"graph"``, with the line of code of each value; ``"kernels"``, with the lines of each kernel; ``"llvm"``;
            ``"asm"``; or the name of a pass, as `adjoint show` has it, for what it makes of the graph.

        Raises
        ------
        TypeRuleError
            If the function has not been called yet.
        InvalidValueError
            For any other stage.
        """
        if not self._programs and not self._variants:
            raise TypeRuleError(f"show: {self._name} must be called first, got no call; call it with its arguments")
        variant = next(reversed(self._variants.values()))[0]
        function = variant.lifted.function
        if function is None:
            return Text(f"{self._name} computes nothing")
        program = variant.lifted.program
        if program is not None:
            return stage_text(function, lambda: program.entry, stage)
        return stage_text(function, lambda: compile_function(function, options=options.compile)[function.name], stage)

    def profile(self, *args: Any, runs: int = 50, peaks: Any = None, **keywords: Any) -> Any:
        """Measure the program of a call kernel by kernel, on copies of all tensors, so that nothing is changed.

        Parameters
        ----------
        *args, **keywords
            The arguments of the call.
        runs : int, default 50
            Number of runs; the times are interquartile means.
        peaks : adjoint.profiling.Peaks, optional
            The limits of the machine; default: measured once and stored.

        Returns
        -------
        adjoint.profiling.StepProfile
            Printed, it is a table of the kernels with the lines of code of what they compute.

        Raises
        ------
        TypeRuleError
            If the function computes nothing, or has a dynamic size.
        """
        if self._dynamic is not None:
            raise TypeRuleError(
                f"profile: a function is measured for one size, got {self._name}, which has a dynamic size; profile "
                "jit(function) without dynamic"
            )
        variant, tensors = self._lowered(args, keywords)
        function = variant.lifted.function
        if function is None:
            raise TypeRuleError(f"profile: {self._name} computes nothing, got no operations in it; let it return some")
        operands = zip(function.params, variant.operands(tensors), strict=True)
        arrays = {param.label: tensor.elements().array for param, tensor in operands}
        measure = import_module("adjoint.profiling.doors").profile_function  # which calls do not need
        return measure(function, arrays, self._name, options.compile, runs, peaks)

    def programs(self) -> Iterator[tuple[list[Tensor], int, Function, Program]]:
        """The programs that it has compiled: the tensors besides arguments, number and graph of each, and itself."""
        for variant in [variant for alike in self._variants.values() for variant in alike]:
            lifted, program = variant.lifted, variant.lifted.program
            if program is not None:
                captured = [one.tensor for one in lifted.entered if isinstance(one, Captured)]
                yield captured, program.number, program.function, program
