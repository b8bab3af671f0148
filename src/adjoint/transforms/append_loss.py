"""Put a loss behind a model.

Before::

    func @backbone(%x: f32[2,3], %w: f32[3]) -> (f32[2], f32[3]) {
      %0: f32[2,3] = broadcast_to(%w) {shape = (2, 3)}
      %1: f32[2,3] = multiply(%x, %0)
      %out: f32[2] = sum(%1) {axes = (1,), keepdims = False}
      %state: f32[3] = sum(%x) {axes = (0,), keepdims = False}
      return %out, %state
    }

    func @loss(%predictions: f32[2], %targets: f32[2]) -> f32[] {
      %0: f32[2] = subtract(%predictions, %targets)
      %1: f32[2] = abs(%0)
      %2: f32[] = sum(%1) {axes = (0,), keepdims = False}
      return %2
    }

After::

    func @backbone_loss(%x: f32[2,3], %w: f32[3], %targets: f32[2]) -> (f32[], f32[3]) {
      %0: f32[2,3] = broadcast_to(%w) {shape = (2, 3)}
      %1: f32[2,3] = multiply(%x, %0)
      %out: f32[2] = sum(%1) {axes = (1,), keepdims = False}
      %3: f32[2] = subtract(%out, %targets)
      %4: f32[2] = abs(%3)
      %5: f32[] = sum(%4) {axes = (0,), keepdims = False}
      %state: f32[3] = sum(%x) {axes = (0,), keepdims = False}
      return %5, %state
    }
"""

from collections.abc import Mapping

from adjoint.errors import InvalidValueError, TypeRuleError, located, plural
from adjoint.ir import Attribute, Function, rebuild, unnumbered

__all__ = ["append_loss"]


def append_loss(backbone: Function, loss: Function, num_backbone_results: int = 1, name: str | None = None) -> Function:
    """A function that runs a model and then a loss on its results.

    Parameters
    ----------
    backbone : Function
        The model. Its first results are passed to the loss; the others (states) are returned.
    loss : Function
        The loss. Its first parameters receive the model's first results; the others (targets, weights) become
        parameters.
    num_backbone_results : int, default 1
        Number of results passed to the loss.
    name : str, optional
        Name of the new function; default: ``<backbone>_loss``.

    Returns
    -------
    Function
        The parameters are the model's, then the remaining ones of the loss; the results are the loss's, then the
        remaining ones of the model. The attributes are the model's, with adjusted result indices in ``donate``, and the
        numbers of values too: the loss's values get others.

    Raises
    ------
    InvalidValueError
        If the model has too few results, the loss too few parameters, or both have a parameter of the same name.
    TypeRuleError
        If the type of a result differs from that of the parameter.
    """
    count = num_backbone_results
    if not 0 < count <= min(len(backbone.results), len(loss.params)):
        raise InvalidValueError(
            f"append_loss: num_backbone_results must be at least 1 and at most the "
            f"{plural(len(backbone.results), 'result')} of @{backbone.name} and the "
            f"{plural(len(loss.params), 'parameter')} of @{loss.name}, got {count}; change it"
        )
    taken, own = loss.params[:count], loss.params[count:]
    for number, (result, p) in enumerate(zip(backbone.results, taken, strict=False)):
        if result.type != p.type:
            with located(result.line):
                raise TypeRuleError(
                    f"append_loss: result {number} of @{backbone.name} is {result.type}, but %{p.label} of "
                    f"@{loss.name} takes {p.type}; create the loss for the model's types"
                )
    both = sorted({p.label for p in backbone.params} & {p.label for p in own})
    if both:
        raise InvalidValueError(
            f"append_loss: @{backbone.name} and @{loss.name} both have a parameter named {', '.join(both)}; rename one"
        )
    known = {**dict(zip(taken, backbone.results, strict=False)), **{p: p for p in own}}
    results = (*rebuild(loss.results, unnumbered, known), *backbone.results[count:])
    attrs = _moved(backbone.attrs, count, len(loss.results) - count)
    return Function(name or f"{backbone.name}_loss", (*backbone.params, *own), results, attrs)


def _moved(attrs: Mapping[str, Attribute], count: int, shift: int) -> dict[str, Attribute]:
    """The attributes with shifted result indices in ``donate``; pairs of results passed to the loss are dropped."""
    found = dict(attrs)
    pairs = found.get("donate")
    if isinstance(pairs, tuple):
        kept: list[Attribute] = []
        for pair in pairs:
            match pair:
                case (name, int(index)) if index >= count:
                    kept.append((name, index + shift))
        found["donate"] = tuple(kept)
    return found
