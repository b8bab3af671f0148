"""Drop parameters that no result needs.

Before::

    func @main(%x: f32[3], %unused: f32[3]) -> f32[3] {
      %0: f32[3] = exp(%x)
      return %0
    }

After::

    func @main(%x: f32[3]) -> f32[3] {
      %0: f32[3] = exp(%x)
      return %0
    }
"""

from collections.abc import Iterable, Iterator

from adjoint.ir import Function, toposort

__all__ = ["prune_params"]


def prune_params(function: Function, keep: Iterable[str] = ()) -> Function:
    """Remove the parameters that no result depends on.

    Parameters
    ----------
    function : Function
        Any function.
    keep : iterable of str, optional
        Names of parameters to keep in any case. Those in ``donate`` are kept too.

    Returns
    -------
    Function
        Same name, results and attributes.
    """
    needed = {*keep, *_donated(function)}
    reached = set(toposort(function.results))
    params = tuple(p for p in function.params if p in reached or p.label in needed)
    return Function(function.name, params, function.results, function.attrs)


def _donated(function: Function) -> Iterator[str]:
    pairs = function.attrs.get("donate", ())
    for pair in pairs if isinstance(pairs, tuple) else ():
        match pair:
            case (str(name), _):
                yield name
