"""A traced function together with the code that calls its program."""

from collections.abc import Callable, Sequence
from typing import Any

from adjoint.func.calling import Caller, guard
from adjoint.func.compiled import Captured, captured, write_call, write_return
from adjoint.func.lifting import Lifted
from adjoint.func.tracing import applied
from adjoint.tensor.autocasting import mode
from adjoint.tensor.checking import nan_mode, refuse_nan
from adjoint.tensor.plan import options
from adjoint.tensor.record import rebind, record
from adjoint.tensor.structure import Operation, Spec
from adjoint.tensor.tensor import Tensor
from adjoint.tensor.trace import state

__all__ = ["Variant"]


class Variant:
    """A traced function, and the function that calls it as long as nothing that it depends on has changed."""

    def __init__(self, lifted: Lifted, specs: tuple[Spec, ...], grad: bool) -> None:
        self.lifted = lifted
        self._kind = specs, grad
        caller = self._guarded()
        if lifted.program is None:
            self._write_record(caller)
        else:
            caller.add(f"if {caller.name(nan_mode)}.on: {caller.name(self._check)}(args)")
            write_call(caller, lifted.program, lifted.entered, lifted.structure, lifted.results, lifted.effects)
        #: Takes the tensors; returns `CHANGED` if the function has to be traced again.
        self.call: Callable[[Sequence[Tensor]], Any] = caller.made()

    def _guarded(self) -> Caller:
        """A caller that checks what the trace depended on."""
        lifted, (specs, grad) = self.lifted, self._kind
        caller = Caller(len(specs))
        for n, spec in enumerate(specs):
            caller.require(f"a{n}._spec is {caller.name(spec)}")
        here = caller.name(state)
        caller.require(f"{here}.grad is {grad} and {here}.trace.outer is None")
        caller.require(f"{caller.name(mode)}.dtype is {caller.name(mode.dtype)}")
        for optimizer in lifted.around.optimizers:
            for updates in optimizer._bound._updates:
                group, optimizer_now = caller.name(updates.group), caller.item(updates.__dict__, "_optimizer")
                caller.check(f"if {group}.changed: {caller.name(updates.refresh)}()")
                caller.require(f"{optimizer_now} is {caller.name(updates._optimizer)}")
        around = lifted.around
        guard(caller, around.guards, [(cell, content) for _, cell, content in around.cells], lifted.grads)
        return caller

    def checker(self) -> Callable[[Sequence[Tensor]], Any]:
        """A function that checks a call without running it.

        It returns `CHANGED` if the function has to be traced again, and otherwise the tensors besides the arguments
        that the program uses, by position among what entered the trace.
        """
        caller = self._guarded()
        names = [
            f"{place}: {captured(caller, one)}"
            for place, one in enumerate(self.lifted.entered)
            if isinstance(one, Captured)
        ]
        caller.add(f"return {{{', '.join(names)}}}")
        made: Callable[[Sequence[Tensor]], Any] = caller.made()
        return made

    def _check(self, args: Sequence[Tensor]) -> None:
        """Refuse NaN in what a call computes."""
        function = self.lifted.function
        if function is not None:
            tensors = self.operands(args)
            refuse_nan(function, [tensor.elements().array for tensor in tensors], options.compile)

    def operands(self, args: Sequence[Tensor]) -> list[Tensor]:
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
            caller.add(f"o = {caller.name(record)}({caller.name(entry)}, {caller.name(self.operands)}(args))")
        for target, n in lifted.effects.rebound:
            caller.add(f"{caller.name(rebind)}({caller.name(target)}, o[{n}])")
        names = {"new": "o[{}]", "argument": "a{}"}
        leaves = [
            names[result.kind].format(result.item) if result.kind in names else caller.name(result.item)
            for result in lifted.results
        ]
        write_return(caller, lifted.structure, leaves)
