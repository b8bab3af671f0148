"""Which parameters of a backbone are inputs, which are trained, and which are states."""

from adjoint.errors import InvalidValueError, plural
from adjoint.ir import IRModule, Value, is_float
from adjoint.training.layout import counts
from adjoint.transforms.batch_axis import batch_inputs
from adjoint.transforms.inline_calls import inline_calls

__all__ = ["with_roles"]


def with_roles(module: IRModule) -> IRModule:
    """The module with the attributes ``param_num`` and ``state_num``, which are inferred if it lacks them.

    The backbone takes ``(inputs..., params..., states...)``. Without ``state_num`` there are no states. Without
    ``param_num``, everything up to the last parameter that must be an input is one: the first parameter, those with a
    dtype that cannot be trained, and those whose rows are combined with the rows of the first one by one, as the rows
    of a batch are. Any other input, such as a mask of floats that is the same for every row, requires ``param_num``.

    Raises
    ------
    InvalidValueError
        If an attribute is not an integer of at least 0, if they leave no inputs, no parameters or no outputs, or if
        ``param_num`` makes an input a parameter.
    NameLookupError
        If the module has no ``backbone``.
    """
    backbone = module["backbone"]
    state_num = counts(module, "state_num")[0] if "state_num" in module.attrs else 0
    others = backbone.params[: max(len(backbone.params) - state_num, 0)]
    flat = inline_calls(backbone)
    rowwise = {p.label for p in batch_inputs(flat, flat.params[: len(others)]).of}
    required = [n == 0 or not is_float(p.dtype) or p.label in rowwise for n, p in enumerate(others)]
    inferred = len(others) - 1 - max((n for n, needed in enumerate(required) if needed), default=0)
    param_num = counts(module, "param_num")[0] if "param_num" in module.attrs else inferred
    input_num = len(others) - param_num
    if param_num < 1 or input_num < 1 or len(backbone.results) <= state_num:
        results = plural(len(backbone.results), "result")
        raise InvalidValueError(
            "@backbone takes inputs, parameters and states, at least one input and one parameter, and returns outputs "
            f"and states, at least one output; it has {_named(backbone.params)} and {results}, got "
            f"param_num={param_num} and state_num={state_num}; correct the module's attributes"
        )
    first = others[input_num]
    # A model without any other parameter trains something for each row.
    if inferred and is_float(first.dtype) and first.label in rowwise and first.label not in _initialized(module):
        raise InvalidValueError(
            f"param_num={param_num} makes %{first.label} a parameter, although its rows are combined with those of "
            f"%{others[0].label}, as those of an input are; use param_num={inferred}, or give it an initial value in "
            "init if it is trained"
        )
    return module.with_attrs(param_num=param_num, state_num=state_num)


def _initialized(module: IRModule) -> set[object]:
    """The names in the attribute ``init``, as far as it is well-formed."""
    entries = module.attrs.get("init", ())
    return (
        {entry[0] for entry in entries if isinstance(entry, tuple) and entry} if isinstance(entries, tuple) else set()
    )


def _named(params: tuple[Value, ...]) -> str:
    if not params:
        return "no parameters"
    return f"the parameter{'' if len(params) == 1 else 's'} {', '.join(p.label for p in params)}"
