"""Parameters of modules as functions of others: the names of ``torch.nn.utils.parametrize``."""

from typing import Any

from adjoint.errors import InvalidValueError, MissingAttributeError
from adjoint.modules import Module
from adjoint.nn.containers import ModuleDict, ModuleList
from adjoint.tensor.autograd import no_grad
from adjoint.tensor.making import from_array
from adjoint.tensor.tensor import Parameter, Tensor

__all__ = ["ParametrizationList", "is_parametrized", "register_parametrization", "remove_parametrizations"]


class ParametrizationList(ModuleList):
    """The functions of which a parameter is the result, and what the first one takes.

    Parameters
    ----------
    first : Module
        The first function. If it has a method `right_inverse`, that computes its arguments from the present parameter;
        a tuple is several arguments.
    tensor : Tensor
        The present parameter or buffer.

    Attributes
    ----------
    original : Parameter or Tensor
        The argument of the first function; `original0`, `original1` and so on if it takes several.
    """

    def __init__(self, first: Module, tensor: Tensor) -> None:
        super().__init__([first])
        arguments: Any = tensor
        if hasattr(first, "right_inverse"):
            with no_grad():
                arguments = first.right_inverse(tensor)
        self._several = isinstance(arguments, tuple | list)
        given = list(arguments) if self._several else [arguments]
        self._names = [f"original{n}" for n in range(len(given))] if self._several else ["original"]
        for name, one in zip(self._names, given, strict=True):
            if isinstance(tensor, Parameter):
                self.register_parameter(name, one if isinstance(one, Parameter) and not self._several else _own(one))
            else:
                self.register_buffer(name, one)

    def forward(self) -> Any:
        """The parameter."""
        functions = list(self)
        found = functions[0](*(getattr(self, name) for name in self._names))
        for function in functions[1:]:
            found = function(found)
        return found


def _own(tensor: Tensor) -> Parameter:
    return Parameter(from_array(tensor.detach().elements().array.copy(), copy=False))


def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """Make a parameter or buffer of a module the result of a function, which is computed whenever it is read.

    The module gets a class of its own, in which the parameter is a property, and a module `parametrizations`; the names
    in state dictionaries are PyTorch's, such as ``parametrizations.weight.original``.

    Parameters
    ----------
    module : Module
        The module, which is changed and returned.
    tensor_name : str
        The name of the parameter or buffer.
    parametrization : Module
        The function. If the parameter is the result of one already, this one is applied to its result.
    unsafe : bool, default False
        Whether the shape may change.

    Raises
    ------
    MissingAttributeError
        If the module has no such parameter or buffer.
    InvalidValueError
        If the shape changes.
    """
    if is_parametrized(module, tensor_name):
        functions = _functions(module)[tensor_name]
        before = getattr(module, tensor_name)
        functions.append(parametrization)
    else:
        before = module._parameters.get(tensor_name)
        before = module._buffers.get(tensor_name) if before is None else before
        if before is None:
            raise MissingAttributeError(
                f"register_parametrization: {type(module).__name__} has no parameter or buffer {tensor_name!r}; pass "
                "the name of one"
            )
        functions = ParametrizationList(parametrization, before)
        delattr(module, tensor_name)
        _add_property(module, tensor_name)
        _functions(module)[tensor_name] = functions
    shape = tuple(getattr(module, tensor_name).shape)
    if shape != tuple(before.shape) and not unsafe:
        raise InvalidValueError(
            f"register_parametrization: the shape of {tensor_name} must stay {tuple(before.shape)}, got {shape}; pass "
            "unsafe=True if it may change"
        )
    return module


def _functions(module: Any) -> Any:
    """The functions of a module, by the name of the parameter."""
    return module.parametrizations


def _add_property(module: Module, name: str) -> None:
    """Make an attribute of a module one that is computed."""
    kind = type(module)
    if not is_parametrized(module):
        kind = type(f"Parametrized{kind.__name__}", (kind,), {"__module__": kind.__module__})
        object.__setattr__(module, "__class__", kind)
        module.add_module("parametrizations", ModuleDict())
    setattr(kind, name, property(lambda self: self.parametrizations[name]()))


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Whether a parameter of a module, or any if no name is given, is the result of a function."""
    found = module._modules.get("parametrizations")
    return isinstance(found, ModuleDict) and (bool(len(found)) if tensor_name is None else tensor_name in found)


def remove_parametrizations(module: Module, tensor_name: str, leave_parametrized: bool = True) -> Module:
    """Make a parameter an ordinary one again.

    Parameters
    ----------
    module : Module
        The module, which is changed and returned.
    tensor_name : str
        The name of the parameter or buffer.
    leave_parametrized : bool, default True
        Whether it keeps its present value, rather than that of `original`.

    Raises
    ------
    InvalidValueError
        If it is not the result of a function, or has several originals and is to become one of them.
    """
    if not is_parametrized(module, tensor_name):
        raise InvalidValueError(
            f"remove_parametrizations: {tensor_name} of {type(module).__name__} must have a parametrization, got none; "
            "leave it as it is"
        )
    functions = _functions(module)[tensor_name]
    if functions._several and not leave_parametrized:
        raise InvalidValueError(
            f"remove_parametrizations: leave_parametrized=False needs a single original, got {len(functions._names)} "
            f"for {tensor_name}; omit it"
        )
    is_parameter = bool(functions._parameters)
    with no_grad():
        value = getattr(module, tensor_name) if leave_parametrized else functions.original
    del _functions(module)[tensor_name]
    delattr(type(module), tensor_name)
    if not is_parametrized(module):
        delattr(module, "parametrizations")
        object.__setattr__(module, "__class__", type(module).__mro__[1])
    if is_parameter:
        module.register_parameter(tensor_name, _own(value))
    else:
        module.register_buffer(tensor_name, value.detach())
    return module
