"""Weight and spectral normalization by hooks: the former functions ``torch.nn.utils.weight_norm`` and its kin.

Their parameters have other names in state dictionaries than those of `adjoint.nn.utils.parametrizations`: ``weight_g``
and ``weight_v``, or ``weight_orig``, ``weight_u`` and ``weight_v``.
"""

from typing import Any

from adjoint.errors import InvalidValueError
from adjoint.modules import Module
from adjoint.nn.utils.parametrizations import (
    as_matrix,
    norm_except,
    power_iteration,
    spectral_dim,
    spectral_value,
    starting_vectors,
)
from adjoint.tensor.autograd import no_grad
from adjoint.tensor.making import from_array
from adjoint.tensor.tensor import Parameter

__all__ = ["remove_spectral_norm", "remove_weight_norm", "spectral_norm", "weight_norm"]


def _parameter(tensor: Any) -> Parameter:
    return Parameter(from_array(tensor.detach().elements().array.copy(), copy=False))


class _Hook:
    """Computes a weight before each call of its module."""

    def __init__(self, name: str) -> None:
        self.name = name

    def value(self, module: Module) -> Any:
        raise NotImplementedError

    def parts(self) -> tuple[str, ...]:
        """The names of the parameters and buffers that it computes the weight from."""
        raise NotImplementedError

    def __call__(self, module: Module, args: Any) -> None:  # noqa: ARG002
        object.__setattr__(module, self.name, self.value(module))


class _WeightNormHook(_Hook):
    def __init__(self, name: str, dim: int | None) -> None:
        super().__init__(name)
        self.dim = dim

    def parts(self) -> tuple[str, ...]:
        return f"{self.name}_g", f"{self.name}_v"

    def value(self, module: Module) -> Any:
        norm, direction = (getattr(module, part) for part in self.parts())
        return direction * (norm / norm_except(direction, self.dim))


class _SpectralNormHook(_Hook):
    def __init__(self, name: str, iterations: int, dim: int, eps: float) -> None:
        super().__init__(name)
        self.iterations, self.dim, self.eps = iterations, dim, eps

    def parts(self) -> tuple[str, ...]:
        return f"{self.name}_orig", f"{self.name}_u", f"{self.name}_v"

    def value(self, module: Module) -> Any:
        weight, u, v = (getattr(module, part) for part in self.parts())
        matrix = as_matrix(weight, self.dim)
        if module.training:
            power_iteration(matrix.T, v, u, self.iterations, self.eps)
        return weight / spectral_value(matrix, u, v)


def _removed(owner: str, kind: type[_Hook], module: Module, name: str) -> Module:
    """Make the weight an ordinary parameter again, of its present value."""
    hooks = {} if module._hooks is None else module._hooks.before
    for number, (hook, _) in list(hooks.items()):
        if isinstance(hook, kind) and hook.name == name:
            was_training = module.training
            object.__setattr__(module, "training", False)  # without a power iteration
            with no_grad():
                value = hook.value(module)
            object.__setattr__(module, "training", was_training)
            del hooks[number]
            for part in hook.parts():
                delattr(module, part)
            object.__delattr__(module, name)
            module.register_parameter(name, _parameter(value))
            return module
    raise InvalidValueError(
        f"{owner}: {name} of {type(module).__name__} must have been normalized, got an ordinary one; leave it as it is"
    )


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """`parametrizations.weight_norm` with the parameters ``weight_g`` and ``weight_v``.

    Parameters
    ----------
    module : Module
        The module, which is changed and returned.
    name : str, default "weight"
        The name of the weight.
    dim : int or None, default 0
        The axis along which each slice has a norm of its own; None for one norm of the whole.
    """
    hook, weight = _WeightNormHook(name, dim), getattr(module, name)
    with no_grad():
        norm = norm_except(weight, dim)
    delattr(module, name)
    module.register_parameter(f"{name}_g", _parameter(norm))
    module.register_parameter(f"{name}_v", _parameter(weight))
    hook(module, ())
    module.register_forward_pre_hook(hook)
    return module


def spectral_norm(
    module: Module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> Module:
    """`parametrizations.spectral_norm` with ``weight_orig`` and the buffers ``weight_u`` and ``weight_v``.

    Parameters and errors are as there. As in PyTorch, an iteration computes the right singular vector first here, and
    the left one first there.
    """
    weight = getattr(module, name)
    axis = spectral_dim("spectral_norm", module, weight, n_power_iterations, dim)
    hook = _SpectralNormHook(name, n_power_iterations, axis, eps)
    u, v = starting_vectors(as_matrix(weight, axis), eps)
    delattr(module, name)
    module.register_parameter(f"{name}_orig", weight)
    module.register_buffer(f"{name}_u", u)
    module.register_buffer(f"{name}_v", v)
    object.__setattr__(module, name, from_array(weight.detach().elements().array))
    module.register_forward_pre_hook(hook)
    return module


def remove_weight_norm(module: Module, name: str = "weight") -> Module:
    """Make a weight of `weight_norm` an ordinary parameter again.

    Raises
    ------
    InvalidValueError
        If it is not one of `weight_norm`.
    """
    return _removed("remove_weight_norm", _WeightNormHook, module, name)


def remove_spectral_norm(module: Module, name: str = "weight") -> Module:
    """Make a weight of `spectral_norm` an ordinary parameter again.

    Raises
    ------
    InvalidValueError
        If it is not one of `spectral_norm`.
    """
    return _removed("remove_spectral_norm", _SpectralNormHook, module, name)
