"""`Module`: parameters, buffers and submodules as attributes, and what is done with all of them."""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Self

import numpy as np

from adjoint.errors import TypeRuleError
from adjoint.ir import DTYPES, as_dtype, dtype_name, is_float
from adjoint.modules.attributes import Attributes
from adjoint.modules.hooks import Hooks, RemovableHandle
from adjoint.modules.inspection import Inspection
from adjoint.modules.state import IncompatibleKeys, load_state, state_of
from adjoint.modules.walking import Walking
from adjoint.tensor.assign import assign
from adjoint.tensor.environment import check_device
from adjoint.tensor.environment import device as device_type
from adjoint.tensor.tensor import Tensor
from adjoint.tensor.updates import clear_gradients

__all__ = ["Module"]


class Module(Attributes, Walking, Inspection):
    """The base class of modules, as in PyTorch.

    A subclass calls ``super().__init__()`` first, assigns parameters and other modules to attributes, and defines
    `forward`, which calls of the module run.

    Attributes
    ----------
    training : bool
        Whether the module is trained, as `train` and `eval` set it.
    """

    training: bool = True
    _hooks: Hooks | None = None

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        """Run `forward`, and the hooks, if there are any."""
        hooks = self._hooks
        if hooks is None:
            return self.forward(*args, **keywords)
        return hooks.call(self, args, keywords)

    def forward(self, *args: Any, **keywords: Any) -> Any:  # noqa: ARG002
        """What the module computes; a subclass defines it.

        Raises
        ------
        TypeRuleError
            If the subclass does not.
        """
        raise TypeRuleError(
            f"{type(self).__name__}: a module that is called must define forward(self, ...), got none; add it"
        )

    # What is done with all parts.

    def train(self, mode: bool = True) -> Self:
        """Set `training` here and in all submodules; returns the module.

        Raises
        ------
        TypeRuleError
            If the mode is not a bool.
        """
        if not isinstance(mode, bool):
            raise TypeRuleError(f"train: the mode must be a bool, got {mode!r}; pass True or False")
        for module in self.modules():
            object.__setattr__(module, "training", mode)
        return self

    def eval(self) -> Self:
        """``train(False)``: what the module computes is used, not trained."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Set whether the parameters are trained; returns the module."""
        for parameter in self.parameters():
            parameter.requires_grad = requires_grad
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of all parameters, or set them to zeros with ``set_to_none=False``."""
        clear_gradients(self.parameters(), set_to_none)

    def to(self, *args: Any, dtype: Any = None, device: Any = None, non_blocking: bool = False) -> Self:  # noqa: ARG002
        """Convert all floats among parameters and buffers to a dtype, in place; returns the module.

        Parameters
        ----------
        *args : dtype, device or Tensor
            A float dtype, the device "cpu", both, or a tensor of the dtype.
        dtype : str or numpy dtype, optional
            A float dtype.
        device : str, optional
            "cpu", the only device.
        non_blocking : bool, default False
            No effect.

        Raises
        ------
        InvalidValueError
            If the device is not the CPU.
        TypeRuleError
            If the dtype is not a float.
        """
        wanted = dtype
        for arg in args:
            if isinstance(arg, Tensor):
                wanted = arg.dtype
            elif _is_device(arg):
                check_device(arg)
            elif arg is not None:
                wanted = arg
        if device is not None:
            check_device(device)
        if wanted is not None:
            found = as_dtype(wanted)
            if not is_float(found):
                raise TypeRuleError(f"to: the dtype of a module must be a float, got {dtype_name(found)}; use f32")
            self._convert(found)
        return self

    def _convert(self, dtype: np.dtype) -> None:
        for tensor in (*self.parameters(), *self.buffers()):
            if is_float(tensor.dtype) and tensor.dtype != dtype:
                grad, tensor._grad = tensor._grad, None
                assign(tensor, tensor.elements().array.astype(dtype))
                if grad is not None:
                    assign(grad, grad.elements().array.astype(dtype))
                    tensor._grad = grad

    def float(self) -> Self:
        """``to("f32")``."""
        return self.to(DTYPES["f32"])

    def double(self) -> Self:
        """``to("f64")``."""
        return self.to(DTYPES["f64"])

    def half(self) -> Self:
        """``to("f16")``."""
        return self.to(DTYPES["f16"])

    def bfloat16(self) -> Self:
        """``to("bf16")``."""
        return self.to(DTYPES["bf16"])

    def cpu(self) -> Self:
        """The module, which is on the CPU."""
        return self

    def cuda(self, device: Any = None) -> Self:
        """Refused: there is no other device than the CPU."""
        return self.to(device="cuda" if device is None else f"cuda:{device}")

    # State dictionaries.

    def state_dict(self, *, prefix: str = "", keep_vars: bool = False) -> "OrderedDict[str, Tensor]":
        """The parameters and persistent buffers by name, under PyTorch's names.

        Parameters
        ----------
        prefix : str, default ""
            What all names begin with.
        keep_vars : bool, default False
            Whether the parameters themselves are returned, instead of tensors without gradients.
        """
        return state_of(self, prefix, keep_vars)

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> IncompatibleKeys:
        """Copy tensors or arrays into the parameters and buffers of the same names, in their dtypes.

        Parameters
        ----------
        state_dict : mapping of str to Tensor or numpy.ndarray
            What `state_dict` returned; tensors of PyTorch are accepted too.
        strict : bool, default True
            Whether both must have the same names.
        assign : bool, default False
            Whether given Parameters and buffers take the place of the present ones, instead of being copied.

        Returns
        -------
        IncompatibleKeys
            The names ``missing_keys`` and ``unexpected_keys``.

        Raises
        ------
        InvalidValueError
            If a shape differs or, if `strict`, names differ. Nothing has been loaded then.
        TypeRuleError
            If an entry is not a tensor.
        """
        return load_state(self, state_dict, strict, assign)

    # Hooks.

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Call ``hook(module, args)`` before `forward`; what it returns, unless None, replaces the arguments.

        Parameters
        ----------
        hook : callable
            The hook; with `with_kwargs`, ``hook(module, args, kwargs)``, which returns None or both.
        prepend : bool, default False
            Whether it is called before the hooks that there are.
        with_kwargs : bool, default False
            Whether it takes keyword arguments.
        """
        return self._own_hooks().add_before(hook, prepend, with_kwargs)

    def register_forward_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False, always_call: bool = False
    ) -> RemovableHandle:
        """Call ``hook(module, args, result)`` after `forward`; what it returns, unless None, replaces the result.

        Parameters
        ----------
        hook : callable
            The hook; with `with_kwargs`, ``hook(module, args, kwargs, result)``.
        prepend : bool, default False
            Whether it is called before the hooks that there are.
        with_kwargs : bool, default False
            Whether it takes keyword arguments.
        always_call : bool, default False
            Whether it is also called, with None as the result, if `forward` raises.
        """
        return self._own_hooks().add_after(hook, prepend, with_kwargs, always_call)

    def register_full_backward_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call ``hook(module, grad_input, grad_output)`` in backward passes, with the gradients of inputs and results.

        Parameters
        ----------
        hook : callable
            What it returns, unless None, replaces ``grad_input``. Both are tuples, of the gradients of the positional
            arguments and of the result, or results if it is a tuple; None where no gradient is computed. If no argument
            requires one, it is called with the gradients of the results, and must return None.
        prepend : bool, default False
            Whether it is called before the hooks that there are.
        """
        return self._own_hooks().add_backward(hook, prepend, before=False)

    def register_full_backward_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call ``hook(module, grad_output)`` in backward passes, before they pass the module.

        Parameters
        ----------
        hook : callable
            What it returns, unless None, replaces ``grad_output``, the tuple of the gradients of the results.
        prepend : bool, default False
            Whether it is called before the hooks that there are.
        """
        return self._own_hooks().add_backward(hook, prepend, before=True)

    def _own_hooks(self) -> Hooks:
        hooks = self._hooks
        if hooks is None:
            hooks = Hooks()
            object.__setattr__(self, "_hooks", hooks)
        return hooks

    # Text.

    def extra_repr(self) -> str:
        """The settings to show in the repr; a subclass may define it."""
        return ""

    def __repr__(self) -> str:
        lines = self.extra_repr().split("\n") if self.extra_repr() else []
        inner = [f"({name}): {_indented(repr(module))}" for name, module in self._modules.items()]
        if len(lines) == 1 and not inner:
            return f"{type(self).__name__}({lines[0]})"
        if not lines and not inner:
            return f"{type(self).__name__}()"
        return "\n  ".join((f"{type(self).__name__}(", *lines, *inner)) + "\n)"


def _indented(text: str) -> str:
    return text.replace("\n", "\n  ")


def _is_device(given: Any) -> bool:
    return given not in DTYPES if isinstance(given, str) else isinstance(given, device_type)
