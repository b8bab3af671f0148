"""`SetupTrainer`: derive everything that a trainer runs from a model."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeGuard

from adjoint import ops
from adjoint.errors import InvalidValueError, TypeRuleError, kind_of, located, plural
from adjoint.ir import Function, IRModule, TensorType, Value, free_number, is_float, numbered, param
from adjoint.lazy_dataclass import dataclass
from adjoint.losses import Loss, as_loss
from adjoint.optim import Optimizer, scale_loss
from adjoint.training.initialize import stated_starts
from adjoint.training.layout import as_model, counts, inference
from adjoint.training.roles import with_roles
from adjoint.training.untrained import warn_untrained
from adjoint.transforms.append_loss import append_loss
from adjoint.transforms.batch_axis import batch_inputs
from adjoint.transforms.differentiate import cotangents, gradient
from adjoint.transforms.inline_calls import inline_calls
from adjoint.transforms.mask_batch import mask_batch
from adjoint.transforms.mixed_precision import MixedPrecision, mixed_precision

__all__ = ["SetupTrainer"]


@dataclass(frozen=True, slots=True)
class SetupTrainer:
    """Turn a module with a model into a module that trains it: ``SetupTrainer(loss, optimizer)(module)``.

    The given module has a function ``backbone``, ``(inputs..., params..., states...) -> (outputs..., updated
    states...)``, and the attributes ``param_num`` and ``state_num``, the numbers of params and states; if they are
    missing, `adjoint.training.roles.with_roles` infers them. If inference differs from training, as in batch
    normalization, it also has ``backbone_inference``, ``(inputs..., params..., states...) -> (outputs...)``, which
    `Trainer.predict` runs. The attribute ``init`` may specify initial values of parameters and states as tuples of a
    name, a kind and its parameters, such as ``(("scale", "ones"), ("table", "normal", 0.02))``;
    `adjoint.training.initialize.stated_starts` lists the kinds. The result has the functions and attributes of the
    module, and:

    * ``backbone_loss``: ``(inputs..., params..., states..., targets..., rows) -> (loss, updated states...)``, where
      ``rows``, an i32 scalar, is the number of rows of the batch that are present (see
      `adjoint.transforms.mask_batch`); it is missing if no rows of this model can be left out;
    * ``backbone_loss_adjoint``: the same inputs ``-> (loss, updated states..., gradients of the params...)``;
    * ``optimizer``: ``(params..., gradients..., optimizer states..., hyper...) -> (params..., optimizer states...)``;
    * ``step``: all of these in one graph without calls, ``(inputs..., targets..., params..., states..., optimizer
      states..., hyper..., rows) -> (loss, params..., states..., optimizer states...)``, with the attribute ``donate``,
      which updates everything except the batch in place. A value of an earlier function has the same name in it;

    as well as the attributes ``input_num``, ``target_num``, ``optimizer_state`` and ``hyper``, the last two as pairs of
    a name and an initial value; ``rows``, the name of that scalar, or ``fixed_rows``, the reason why there is none; and
    ``batch_axes``, pairs of an input or target whose first axis is the batch axis and the number of elements along it
    that belong to a row.

    Parameters
    ----------
    loss : Loss or callable
        For example ``CrossEntropyLoss()``; its reduction must return a scalar. Or a function of graph values, ``def
        loss(predictions, targets)``, which takes all outputs of the backbone, then the targets, and returns a scalar.
    optimizer : Optimizer
        For example ``SGD(0.1)``.
    loss_args : sequence of TensorType, optional
        Types of all arguments of the loss: the outputs of the backbone, then the targets. Default: the types of the
        outputs, then those of `Loss.target_types`: for `CrossEntropyLoss` i64 class indices, for `MSELoss` and `L1Loss`
        the type of the output. Required for a function.

    Raises
    ------
    InvalidValueError
        If the counts do not match the backbone, or ``init`` is invalid.
    TypeRuleError
        If types do not match, or a parameter is not float.
    NameLookupError
        If the module has no ``backbone``, or a name in ``init`` is not that of a parameter or state.
    VerifyError
        If the signature of ``backbone_inference`` does not match that of ``backbone``.
    """

    loss: Loss | Callable[..., Value]
    optimizer: Optimizer
    loss_args: Sequence[TensorType] | None = None
    mixed_precision: MixedPrecision | None = None

    def __post_init__(self) -> None:
        loss: object = self.loss
        optimizer: object = self.optimizer
        types: object = self.loss_args
        if isinstance(loss, Optimizer) and (isinstance(optimizer, Loss) or not isinstance(optimizer, Optimizer)):
            raise TypeRuleError(
                f"SetupTrainer takes the loss, then the optimizer, got {kind_of(loss)}, then {kind_of(optimizer)}; "
                "exchange them"
            )
        as_loss(loss, 0)  # refuses what is no loss
        if not isinstance(optimizer, Optimizer):
            fix = f"call it, as in {optimizer.__name__}(0.01)" if _is_optimizer(optimizer) else "pass one"
            raise TypeRuleError(
                f"SetupTrainer: optimizer must be an Optimizer such as SGD(0.01), got {kind_of(optimizer)}; {fix}"
            )
        optimizer.require_update()
        precision: object = self.mixed_precision
        if precision is not None and not isinstance(precision, MixedPrecision):
            raise TypeRuleError(
                f"SetupTrainer: mixed_precision must be a MixedPrecision, got {kind_of(precision)}; write "
                "transforms.MixedPrecision('O1', 'bf16')"
            )
        if types is not None:
            if isinstance(types, IRModule | Function) or not isinstance(types, Iterable):
                fix = "write [TensorType(shape), ...]"
                if isinstance(types, IRModule | Function):
                    fix = "pass the model to the result, SetupTrainer(loss, optimizer)(model)"
                raise TypeRuleError(
                    f"SetupTrainer: loss_args must be the types of the loss's arguments, got {kind_of(types)}; {fix}"
                )
            object.__setattr__(self, "loss_args", tuple(types))

    def __call__(self, module: IRModule | Function) -> IRModule:
        """Return the training module; `module` is not modified. A function is a module with this ``backbone`` alone."""
        module = with_roles(as_model("SetupTrainer", module))
        backbone = module["backbone"]
        param_num, state_num = counts(module, "param_num", "state_num")
        parts = _split(backbone, param_num, state_num)
        if self.mixed_precision is not None:
            module = _in_mixed_precision(module, parts, self.mixed_precision)
            backbone = module["backbone"]
            parts = _split(backbone, param_num, state_num)
        inference(module, state_num)
        stated_starts(module, {p.label: p.type for p in (*parts.params, *parts.states)})
        # Each function is numbered before the next is derived from it, so that values are called the same in all.
        backbone = numbered(backbone)
        loss, count = self._loss_function([r.type for r in parts.outputs])
        as_loss(self.loss, count).check_outputs(*inline_calls(backbone).results[:count])
        with_loss = numbered(append_loss(backbone, loss, count, name="backbone_loss"))
        target_num = len(with_loss.params) - len(backbone.params)
        free = free_number(with_loss)
        masked, counted = _masked(with_loss, parts)
        with_loss = numbered(masked, free)
        types = {p.label: p.type for p in parts.params}
        adjoint = numbered(gradient(with_loss, list(types), name="backbone_loss_adjoint"), free)
        warn_untrained(with_loss, dict(zip(types, adjoint.results[-len(types) :], strict=True)))
        step = numbered(self._step(adjoint, parts, types, "rows" in counted), free_number(adjoint))
        for function in (with_loss, adjoint, self.optimizer.function(types), step):
            module = module.with_function(function)
        return module.with_attrs(
            input_num=len(parts.inputs),
            target_num=target_num,
            optimizer_state=tuple((spec.name, spec.initial) for spec in self.optimizer.init(types)),
            hyper=tuple((spec.name, spec.initial) for spec in self.optimizer.hyper(types)),
            **counted,
        )

    def _loss_function(self, outputs: Sequence[TensorType]) -> tuple[Function, int]:
        """The loss for a backbone with these outputs, and how many of them it takes."""
        loss = as_loss(self.loss, len(outputs))
        count = loss.num_backbone_results
        if len(outputs) != count:
            raise TypeRuleError(
                f"SetupTrainer: {loss.name} takes {plural(count, 'output')} of @backbone, which returns "
                f"{_listed(outputs)}; return {count}, correct state_num, or use another loss"
            )
        args = (*outputs, *loss.target_types(*outputs)) if self.loss_args is None else tuple(self.loss_args)
        if self.loss_args is not None:
            _require_loss_args(loss, args)
        made = loss.function(*args)
        if args[:count] != tuple(outputs):
            raise TypeRuleError(
                f"SetupTrainer: the first {count} of loss_args must be the outputs of @backbone, "
                f"{_listed(outputs)}, got {_listed(args[:count])}; correct loss_args or state_num"
            )
        result = made.results[0].type
        if result.shape != () or not is_float(result.dtype):
            raise TypeRuleError(
                f"SetupTrainer: the loss must be a float scalar, got {result}; use reduction 'mean' or 'sum', or "
                "ops.mean in a function"
            )
        return made, count

    def _step(self, adjoint: Function, parts: "_Parts", types: dict[str, TensorType], counts_rows: bool) -> Function:
        by_name = {p.label: p for p in adjoint.params}
        named = [[by_name[p.label] for p in group] for group in (parts.inputs, parts.params, parts.states)]
        inputs, params, states = named
        targets = adjoint.params[len(inputs) + len(params) + len(states) :]
        targets, rows = (targets[:-1], targets[-1:]) if counts_rows else (targets, ())
        loss, *rest = adjoint.results
        new_states, grads = rest[: len(states)], rest[len(states) :]
        with located(""):  # nobody wrote these parameters
            state = {s.name: param(s.name, s.type.shape, s.type.dtype) for s in self.optimizer.init(types)}
            hyper = {s.name: param(s.name, s.type.shape, s.type.dtype) for s in self.optimizer.hyper(types)}
        if scale_loss.SCALE in state:
            grads = _scaled_gradients(loss, params, state[scale_loss.SCALE])
        new_params, new_optimizer = self.optimizer.apply(
            {p.label: p for p in params},
            {p.label: g for p, g in zip(params, grads, strict=True)},
            state,
            hyper,
        )
        resident = (*params, *states, *state.values())
        results = (loss, *new_params.values(), *new_states, *new_optimizer.values())
        donate = tuple((p.label, i) for i, p in enumerate(resident, 1))
        batch = {name: stated for name, stated in adjoint.attrs.items() if name == "batch"}
        return Function(
            "step", (*inputs, *targets, *resident, *hyper.values(), *rows), results, batch | {"donate": donate}
        )


def _scaled_gradients(loss: Value, params: Sequence[Value], scale: Value) -> list[Value]:
    """The gradients of the loss times a scale."""
    with located(loss.line):
        seed = ops.cast(scale, loss.dtype)
    found = cotangents([(loss, seed)], params)
    return [ops.full(0.0, p.shape, p.dtype) if ct is None else ct for ct, p in zip(found, params, strict=True)]


@dataclass(frozen=True, slots=True)
class _Parts:
    """The backbone's parameters and results, grouped."""

    inputs: tuple[Value, ...]
    params: tuple[Value, ...]
    states: tuple[Value, ...]
    outputs: tuple[Value, ...]


def _split(backbone: Function, param_num: int, state_num: int) -> _Parts:
    """Group the backbone's parameters and results, of which there are enough."""
    input_num = len(backbone.params) - param_num - state_num
    output_num = len(backbone.results) - state_num
    end = input_num + param_num
    inputs, params, states = backbone.params[:input_num], backbone.params[input_num:end], backbone.params[end:]
    for value in params:
        if not is_float(value.dtype):
            with located(value.line):
                raise TypeRuleError(
                    f"SetupTrainer: parameters must have a float dtype, got %{value.label}: {value.type}; "
                    "make it an input or a state"
                )
    for value, new in zip(states, backbone.results[output_num:], strict=True):
        if value.type != new.type:
            with located(new.line):
                raise TypeRuleError(
                    f"SetupTrainer: an updated state must have the type of the state, got {new.type} for "
                    f"%{value.label}: {value.type}; return the states last and in order"
                )
    return _Parts(inputs, params, states, backbone.results[:output_num])


def _in_mixed_precision(module: IRModule, parts: _Parts, policy: MixedPrecision) -> IRModule:
    """The module whose backbone computes partly in half floats, in training and in inference."""
    weights, inputs = ([p.label for p in group] for group in (parts.params, parts.inputs))
    for name in ("backbone", "backbone_inference"):
        if name in module:
            module = module.with_function(mixed_precision(module[name], policy, weights, inputs))
    return module


def _is_optimizer(given: object) -> TypeGuard[type[Optimizer]]:
    """Whether it is a class of optimizers."""
    return isinstance(given, type) and issubclass(given, Optimizer)


def _require_loss_args(loss: Loss, args: Sequence[object]) -> None:
    """Raise if `loss_args` has not one type for each argument of the loss."""
    least = len(loss.arg_names) - loss.num_optional
    if not least <= len(args) <= len(loss.arg_names):
        names = list(loss.arg_names)
        wanted = ", ".join([*names[:least], *(f"{name} (optional)" for name in names[least:])])
        raise TypeRuleError(
            f"SetupTrainer: loss_args must be the types of all arguments of {loss.name}, [{wanted}], got "
            f"{plural(len(args), 'type')}, {_listed(args)}; pass one for each"
        )


def _masked(with_loss: Function, parts: _Parts) -> tuple[Function, dict[str, Any]]:
    """The model with its loss, for any number of rows if possible, and the module's attributes that say so."""
    flat = inline_calls(with_loss)
    known = {p.label for p in flat.params}
    targets = flat.params[len(parts.inputs) + len(parts.params) + len(parts.states) :]
    name = "rows"
    while name in known:
        name += "_"
    axes = batch_inputs(flat, (*flat.params[: len(parts.inputs)], *targets))
    each = tuple((p.label, axes.of[p].each) for p in flat.params if p in axes.of)
    try:
        for result in flat.results:
            if axes.axis(result) is not None:
                raise InvalidValueError(f"@{flat.name} returns a state with a batch axis, {result.type}")
        return mask_batch(flat, axes, name), {"rows": name, "batch_axes": each}
    except InvalidValueError as error:
        return flat, {"fixed_rows": error.message, "batch_axes": each}


def _listed(types: Sequence[object]) -> str:
    return f"[{', '.join(map(str, types))}]"
