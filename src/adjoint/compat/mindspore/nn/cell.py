"""`mindspore.nn.Cell`: adjoint's module with `construct`, and names that parameters keep."""

from collections.abc import Iterable, Iterator
from typing import Any, Self

from adjoint.compat.mindspore.common.parameter import Parameter
from adjoint.compat.mindspore.context import GRAPH_MODE, get_context
from adjoint.compat.uncovered import uncovered
from adjoint.errors import TypeRuleError
from adjoint.func.jit import jit
from adjoint.modules import Module
from adjoint.nn import ModuleList, Sequential
from adjoint.tensor.trace import state

__all__ = ["Cell", "CellList", "SequentialCell"]


class Cell(Module):
    """An `adjoint.nn.Module` whose subclasses define `construct`; in graph mode, its calls are compiled.

    Parameters
    ----------
    auto_prefix : bool, default True
        Whether the names of attributes are put before the names of the parameters in them.
    flags : dict, optional
        No effect.
    """

    training: bool = False
    _auto_prefix: bool = True
    _compiled: Any = None

    def __init__(self, auto_prefix: bool = True, flags: Any = None) -> None:  # noqa: ARG002
        super().__init__()
        object.__setattr__(self, "_auto_prefix", auto_prefix)

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        """Run `construct`; compiled as a whole in graph mode."""
        if get_context("mode") != GRAPH_MODE or state.trace.outer is not None:
            return super().__call__(*args, **keywords)
        if self._compiled is None:
            object.__setattr__(self, "_compiled", jit(self))
        return self._compiled(*args, **keywords)

    def forward(self, *args: Any, **keywords: Any) -> Any:
        """Run `construct`."""
        return self.construct(*args, **keywords)

    def construct(self, *args: Any, **keywords: Any) -> Any:  # noqa: ARG002
        """What the cell computes; a subclass defines it.

        Raises
        ------
        TypeRuleError
            If the subclass does not.
        """
        raise TypeRuleError(f"{type(self).__name__}: a cell must define construct(self, ...), got none; add it")

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if isinstance(value, Parameter):
            if value.name == "Parameter":
                value.name = name
        elif isinstance(value, Cell) and self._auto_prefix:
            value.update_parameters_name(f"{name}.")

    def update_parameters_name(self, prefix: str = "", recurse: bool = True) -> None:
        """Put a prefix before the names of the parameters."""
        for parameter in self.get_parameters(recurse):
            parameter.name = prefix + parameter.name

    def get_parameters(self, expand: bool = True) -> Iterator[Any]:
        """The parameters, those that are not trained among them."""
        return self.parameters(recurse=expand)

    def trainable_params(self, recurse: bool = True) -> list[Any]:
        """The parameters that are trained."""
        return [one for one in self.parameters(recurse=recurse) if one.requires_grad]

    def untrainable_params(self, recurse: bool = True) -> list[Any]:
        """The parameters that are not trained, such as moving means."""
        return [one for one in self.parameters(recurse=recurse) if not one.requires_grad]

    def parameters_dict(self, recurse: bool = True) -> dict[str, Any]:
        """The parameters by their own names."""
        return {one.name: one for one in self.get_parameters(recurse)}

    def parameters_and_names(self, name_prefix: str = "", expand: bool = True) -> Iterator[tuple[str, Any]]:
        """The parameters with their names in this cell."""
        return self.named_parameters(prefix=name_prefix, recurse=expand)

    def set_train(self, mode: bool = True) -> Self:
        """Set whether the cell is trained; returns it."""
        return self.train(mode)

    def set_grad(self, requires_grad: bool = True) -> Self:  # noqa: ARG002
        """The cell: gradients are computed when they are asked for."""
        return self

    def cells(self) -> Iterable[Any]:
        """The cells that are its attributes."""
        return self.children()

    def cells_and_names(self, name_prefix: str = "") -> Iterator[tuple[str, Any]]:
        """All cells in it with their names, this one first."""
        return self.named_modules(prefix=name_prefix)

    def name_cells(self) -> dict[str, Any]:
        """The cells that are its attributes, by name."""
        return dict(self.named_children())

    def insert_child_to_cell(self, child_name: str, child_cell: Any) -> None:
        """Make a cell an attribute."""
        setattr(self, child_name, child_cell)

    def insert_param_to_cell(self, param_name: str, param: Any, check_name_contain_dot: bool = True) -> None:  # noqa: ARG002
        """Make a parameter an attribute."""
        setattr(self, param_name, param)

    def init_parameters_data(self, auto_parallel_mode: bool = False) -> dict[Any, Any]:  # noqa: ARG002
        """An empty dict: parameters have their elements from the beginning, and none is replaced."""
        return {}

    def to_float(self, dst_type: Any) -> Self:
        """Refused: computing in another type than that of the parameters is a matter of the model.

        Raises
        ------
        TypeRuleError
            Always.
        """
        raise TypeRuleError(
            f"Cell.to_float: the type of computations is chosen for a whole model, got {dst_type}; use "
            "Model(..., amp_level='O2') or adjoint.autocast"
        )


class SequentialCell(Cell, Sequential):
    """Cells in a row: ``SequentialCell(a, b)`` or ``SequentialCell([a, b])`` or of an OrderedDict."""

    def __init__(self, *args: Any) -> None:
        Sequential.__init__(self, *(args[0] if len(args) == 1 and isinstance(args[0], list | tuple) else args))
        _name_children(self)

    def construct(self, input_x: Any) -> Any:
        """The result of the last cell."""
        return Sequential.forward(self, input_x)


class CellList(Cell, ModuleList):
    """A list of cells."""

    def __init__(self, *args: Any, **_options: Any) -> None:
        ModuleList.__init__(self, args[0] if len(args) == 1 and isinstance(args[0], list | tuple) else args)

    def append(self, cell: Any) -> Self:
        """Add a cell at the end."""
        if isinstance(cell, Cell):
            cell.update_parameters_name(f"{len(self)}.")
        ModuleList.append(self, cell)
        return self


def _name_children(cell: Cell) -> None:
    for name, child in cell.named_children():
        if isinstance(child, Cell):
            child.update_parameters_name(f"{name}.")


__getattr__ = uncovered(__name__, {}, "adjoint.nn")
