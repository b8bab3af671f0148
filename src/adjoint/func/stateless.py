"""Modules as functions of their parameters, as in `torch.func`: `functional_call` and `stack_module_state`."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from adjoint.errors import InvalidValueError, TypeRuleError, kind_of, listed
from adjoint.tensor.autograd import no_grad
from adjoint.tensor.joining import stack
from adjoint.tensor.tensor import Tensor

__all__ = ["functional_call", "stack_module_state"]

_TABLES = ("_parameters", "_buffers")


def functional_call(
    module: Any,
    parameter_and_buffer_dicts: Mapping[str, Tensor] | Sequence[Mapping[str, Tensor]],
    args: Any = None,
    kwargs: Mapping[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Call a module with other tensors in the place of its parameters and buffers.

    The module keeps its own. What it changes in place, such as the statistics of a batch norm, changes in the given
    tensors. It agrees with `torch.func.functional_call` of PyTorch 2.13.

    Parameters
    ----------
    module : Module
        The module.
    parameter_and_buffer_dicts : mapping of str to Tensor, or sequence of such
        Tensors by the names of `named_parameters` and `named_buffers`; the module's own are used for other names.
    args : tuple or Tensor, optional
        The positional arguments; anything but a tuple is the only one.
    kwargs : mapping of str, optional
        The keyword arguments.
    tie_weights : bool, default True
        Whether a tensor that the module has under several names is replaced under all of them.
    strict : bool, default False
        Whether every parameter and buffer must be given.

    Returns
    -------
    Any
        What the module returns.

    Raises
    ------
    TypeRuleError
        If the first argument is not a module, or what is given is not a tensor.
    InvalidValueError
        If the module has no parameter or buffer of a name, one is missing although `strict`, a name is given twice, or
        different tensors are given for one that is tied.
    """
    if not hasattr(module, "named_modules"):
        raise TypeRuleError(f"functional_call takes a module, got {kind_of(module)}; pass the module first")
    given = _merged(parameter_and_buffer_dicts)
    given_args = () if args is None else args if isinstance(args, tuple) else (args,)
    with _replaced(module, given, tie_weights, strict):
        return module(*given_args, **(kwargs or {}))


def _merged(dicts: Any) -> dict[str, Tensor]:
    """The tensors of one or several dictionaries."""
    found: dict[str, Tensor] = {}
    for one in [dicts] if isinstance(dicts, Mapping) else dicts:
        if not isinstance(one, Mapping):
            raise TypeRuleError(
                f"functional_call: tensors must be in a dict by their names, got {kind_of(one)}; pass "
                "dict(module.named_parameters()) or several such dicts"
            )
        for name, tensor in one.items():
            if not isinstance(tensor, Tensor):
                raise TypeRuleError(
                    f"functional_call: parameters and buffers must be tensors, got {kind_of(tensor)} for {name!r}; "
                    "convert it with adjoint.tensor"
                )
            if name in found:
                raise InvalidValueError(
                    f"functional_call: each name must be given once, got {name!r} twice; leave one out"
                )
            found[name] = tensor
    return found


@contextmanager
def _replaced(module: Any, given: Mapping[str, Tensor], tie_weights: bool, strict: bool) -> Iterator[None]:
    """Put tensors in the place of parameters and buffers, and put those back afterwards."""
    places = _places(module)
    unknown = [name for name in given if name not in places]
    missing = [name for name in places if name not in given] if strict else []
    if unknown or missing:
        what, names = ("the unexpected", unknown) if unknown else ("no", missing)
        raise InvalidValueError(
            f"functional_call: the names must be those of parameters and buffers of {type(module).__name__}, got "
            f"{what} {listed(names)}; named_parameters() and named_buffers() list them"
        )
    wanted = dict(given)
    if tie_weights:
        of_tensor: dict[int, Tensor] = {}
        for name, tensor in given.items():
            known = of_tensor.setdefault(id(_tensor(places[name])), tensor)
            if known is not tensor:
                raise InvalidValueError(
                    f"functional_call: a tensor with several names must be replaced by one tensor, got another for "
                    f"{name!r}; pass the same tensor, or tie_weights=False"
                )
        wanted = {n: of_tensor[id(_tensor(p))] for n, p in places.items() if id(_tensor(p)) in of_tensor}
    before = {name: _tensor(places[name]) for name in wanted}
    try:
        for name, tensor in wanted.items():
            _put(places[name], tensor)
        yield
    finally:
        for name, tensor in before.items():
            _put(places[name], tensor)


#: A module, the name of its table, and the name in it.
_Place = tuple[Any, str, str]


def _places(module: Any) -> dict[str, _Place]:
    """Where each parameter and buffer of a module is, by its name; tied ones under all of their names."""
    found: dict[str, _Place] = {}
    for prefix, part in module.named_modules(remove_duplicate=False):
        dot = f"{prefix}." if prefix else ""
        for table in _TABLES:
            for name, tensor in getattr(part, table).items():
                if tensor is not None:
                    found[dot + name] = part, table, name
    return found


def _tensor(place: _Place) -> Tensor:
    part, table, name = place
    tensor: Tensor = getattr(part, table)[name]
    return tensor


def _put(place: _Place, tensor: Tensor) -> None:
    part, table, name = place
    getattr(part, table)[name] = part.__dict__[name] = tensor


def stack_module_state(models: Sequence[Any]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The parameters and buffers of equal modules, stacked along a new first axis.

    They are what `vmap` over an ensemble takes, and `scan` over a stack of equal layers. It agrees with
    `torch.func.stack_module_state` of PyTorch 2.13.

    Parameters
    ----------
    models : sequence of Module
        Modules of the same class with parameters of the same names, shapes and dtypes.

    Returns
    -------
    params, buffers : dict of str to Tensor
        New tensors; those of parameters are leaves that require gradients where the parameters do.

    Raises
    ------
    TypeRuleError
        If something is not a module, or the modules are not of one class and mode, with the same names and types.
    InvalidValueError
        If there are no modules, or only some of the parameters of a name require gradients.
    """
    models = list(models)
    if not models:
        raise InvalidValueError("stack_module_state needs at least one module, got none; pass a list of modules")
    for model in models:
        if not hasattr(model, "named_modules"):
            raise TypeRuleError(f"stack_module_state takes modules, got {kind_of(model)}; pass a list of modules")
    first = models[0]
    other = next((m for m in models if type(m) is not type(first)), None)
    if other is not None:
        raise TypeRuleError(
            f"stack_module_state: the modules must be of one class, got {type(first).__name__} and "
            f"{type(other).__name__}; stack those of each class"
        )
    if any(m.training != first.training for m in models):
        raise TypeRuleError(
            "stack_module_state: all modules must be in the same mode, got some in training and some not; call train() "
            "or eval() of all"
        )
    params = _stacked([dict(m.named_parameters()) for m in models])
    buffers = _stacked([dict(m.named_buffers()) for m in models])
    return params, buffers


def _stacked(states: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """The tensors of each name, stacked."""
    found = {}
    for number, state in enumerate(states):
        if state.keys() != states[0].keys():
            names = listed(sorted(state.keys() ^ states[0].keys()))
            raise TypeRuleError(
                f"stack_module_state: the modules must have the same names, got {names} in only one of modules 0 and "
                f"{number}; use equal modules"
            )
    for name, one in states[0].items():
        tensors = [state[name] for state in states]
        wrong = next((t for t in tensors if t._spec.type != one._spec.type), None)
        if wrong is not None:
            raise TypeRuleError(
                f"stack_module_state: the tensors of each name must have one type, got {one._spec.type} and "
                f"{wrong._spec.type} for {name!r}; use equal modules"
            )
        if any(t.requires_grad != one.requires_grad for t in tensors):
            raise InvalidValueError(
                f"stack_module_state: all parameters of a name must require gradients, or none, got both for {name!r}; "
                "use requires_grad_"
            )
        with no_grad():
            found[name] = stack(tuple(tensors))
        found[name].requires_grad_(one.requires_grad)
    return found
