"""The groups of a compiled step's inputs (batch, parameters, states), from the module's attributes."""

from collections.abc import Iterable

from adjoint.errors import InvalidValueError, NameLookupError, TypeRuleError, VerifyError, kind_of
from adjoint.ir import Function, IRModule, TensorType, Value
from adjoint.runtime.partial_batch import PartialBatch
from adjoint.training.initialize import stated_starts

__all__ = ["StepLayout", "as_model", "counts", "inference"]


def counts(module: IRModule, *names: str) -> tuple[int, ...]:
    """Integer attributes of a module, each at least 0.

    Raises
    ------
    InvalidValueError
        If one is missing or not such an integer.
    """
    found = []
    for name in names:
        value = module.attrs.get(name)
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            given = "none" if name not in module.attrs else repr(value)
            raise InvalidValueError(f"the module must have the attribute {name}, an integer of at least 0, got {given}")
        found.append(value)
    return tuple(found)


def as_model(caller: str, given: IRModule | Function) -> IRModule:
    """A model as a module; a function is a module with this ``backbone`` alone.

    Parameters
    ----------
    caller : str
        What takes the model, for messages.
    given : IRModule or Function
        The model.

    Raises
    ------
    TypeRuleError
        If it is neither.
    NameLookupError
        If the module has no ``backbone``.
    """
    if isinstance(given, Function):
        return IRModule((given.renamed("backbone"),))
    if not isinstance(given, IRModule):
        fix = 'pass Function("backbone", (inputs..., params...), (outputs...))'
        if isinstance(getattr(given, "module", None), IRModule):
            fix = "pass its module, trainer.module"
        raise TypeRuleError(f"{caller}: the model must be an IRModule or a Function, got {kind_of(given)}; {fix}")
    if "backbone" not in given:
        names = ", ".join(f"@{function.name}" for function in given)
        fix = 'rename it with function.renamed("backbone"), or pass the function itself'
        if len(given.functions) != 1:
            fix = 'rename it with function.renamed("backbone")' if given.functions else "add it"
        raise NameLookupError(
            f"{caller}: the function of the model must be named backbone, got a module of {names or 'no functions'}; "
            f"{fix}"
        )
    return given


def inference(module: IRModule, state_num: int) -> Function:
    """The function for prediction: ``backbone_inference`` if the module has it, else ``backbone`` without states.

    Parameters
    ----------
    module : IRModule
        A module with ``backbone``, whose last `state_num` results are updated states.
    state_num : int
        Number of states.

    Returns
    -------
    Function
        ``(inputs..., params..., states...) -> (outputs...)``. The results do not include the updated states, so nothing
        that only they depend on is compiled.

    Raises
    ------
    VerifyError
        If ``backbone_inference`` has another signature.
    """
    backbone = module["backbone"]
    outputs = backbone.results[: len(backbone.results) - state_num]
    if "backbone_inference" not in module:
        return Function("backbone", backbone.params, outputs)
    given = module["backbone_inference"]
    if list(_types(given.params).items()) != list(_types(backbone.params).items()):
        raise VerifyError(
            f"@backbone_inference must take the parameters of @backbone, {_listed(_types(backbone.params))}, got "
            f"{_listed(_types(given.params))}; declare the same parameters, used or not"
        )
    if [r.type for r in given.results] != [r.type for r in outputs]:
        wanted, got = (", ".join(str(r.type) for r in results) for results in (outputs, given.results))
        raise VerifyError(
            f"@backbone_inference must return the outputs of @backbone, [{wanted}], got [{got}]; return no states"
        )
    return Function(given.name, given.params, given.results)  # without `donate`, because prediction changes nothing


class StepLayout:
    """The inputs of a module's ``step``, grouped.

    Parameters
    ----------
    module : IRModule
        A module created by `SetupTrainer`.

    Attributes
    ----------
    batch, params, states, optimizer, hyper : dict of str to TensorType
        Names and types, in the order of the step; ``batch`` contains inputs and targets.
    initial_optimizer, initial_hyper : dict of str to float
        Initial values of the optimizer's states and of the hyperparameters.
    starts : dict of str to Start
        Initializers of the parameters and states in the module's attribute ``init``.
    partial : PartialBatch
        How the step takes batches of fewer rows.
    """

    def __init__(self, module: IRModule) -> None:
        given: object = module
        if not isinstance(given, IRModule):
            raise TypeRuleError(
                f"Trainer takes a module that SetupTrainer returns, got {kind_of(given)}; write "
                "Trainer(SetupTrainer(loss, optimizer)(model))"
            )
        for name in ("backbone", "step"):
            if name not in module:
                raise VerifyError(f"Trainer: the module has no function {name!r}; create it with SetupTrainer")
        inputs, targets, params, states = counts(module, "input_num", "target_num", "param_num", "state_num")
        self.initial_optimizer = _pairs(module, "optimizer_state")
        self.initial_hyper = _pairs(module, "hyper")
        rows = _text(module, "rows")
        counted = 1 if rows else 0
        groups = (inputs + targets, params, states, len(self.initial_optimizer), len(self.initial_hyper), counted)
        given = module["step"].params
        if sum(groups) != len(given):
            raise VerifyError(
                f"Trainer: the attributes describe {sum(groups)} inputs of @step, which has {len(given)}; "
                "create the module with SetupTrainer"
            )
        ends = [sum(groups[: i + 1]) for i in range(len(groups))]
        parts = [_types(given[end - size : end]) for end, size in zip(ends, groups, strict=True)]
        self.batch, self.params, self.states, self.optimizer, self.hyper, _ = parts
        self.inputs = inputs
        each = {name: int(elements) for name, elements in _pairs(module, "batch_axes").items()}
        most = next((self.batch[name].shape[0] // elements for name, elements in each.items()), 1)
        self.partial = PartialBatch(most, each, rows, _text(module, "fixed_rows"))
        self.starts = stated_starts(module, self.params | self.states)


def _types(params: Iterable[Value]) -> dict[str, TensorType]:
    return {p.label: p.type for p in params}


def _text(module: IRModule, name: str) -> str:
    text = module.attrs.get(name, "")
    if not isinstance(text, str):
        raise InvalidValueError(
            f"the module's attribute {name} must be text, got {text!r}; create it with SetupTrainer"
        )
    return text


def _listed(types: dict[str, TensorType]) -> str:
    return f"({', '.join(f'%{name}: {type_}' for name, type_ in types.items())})"


def _pairs(module: IRModule, name: str) -> dict[str, float]:
    pairs = module.attrs.get(name)
    if not isinstance(pairs, tuple):
        raise InvalidValueError(
            f"the module must have the attribute {name}, pairs of name and value; create it with SetupTrainer"
        )
    found: dict[str, float] = {}
    for pair in pairs:
        match pair:
            case (str(label), int(value) | float(value)):
                found[label] = float(value)
            case _:
                raise InvalidValueError(
                    f"the module's attribute {name} must hold pairs of name and value, got {pair!r}"
                )
    return found
