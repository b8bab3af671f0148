"""Names of PyTorch that adjoint does not have, with what to use instead.

Modules call `missing_name` in their ``__getattr__``; tensors have `MissingMethods`.
"""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import NoReturn

from adjoint.errors import MissingAttributeError

__all__ = ["INSTEAD", "MissingMethods", "missing_name"]

_NUMPY = "because there is no operator for it yet; use NumPy, as in torch.from_numpy(np.{}(x.detach().numpy()))"
_LINALG = "because there is no operator for it yet; use numpy.linalg on x.detach().numpy()"
_LAYER = "because there is no operator for it yet; {}"
_NO_EFFECT = "leave it out, because it would have no effect here"

_SORTED = {
    "pinverse": "use linalg.pinv",
    "svd": "use linalg.svd, whose third result is transposed",
    "qr": "use linalg.qr",
}

_TORCH = _SORTED | {
    "fft": _LAYER.format("use numpy.fft on x.detach().numpy()"),
    "stft": _LAYER.format("use numpy.fft on x.detach().numpy()"),
    "complex": "because there are no complex numbers; keep the two parts in two tensors",
    "complex64": "because there are no complex numbers; keep the two parts in two tensors",
    "polar": "because there are no complex numbers; use cos and sin",
    "view_as_complex": "because there are no complex numbers; keep the two parts in two tensors",
    "sparse_coo_tensor": "because there are no sparse tensors; use index_add or scatter_add",
    "sparse": "because there are no sparse tensors; use index_add or scatter_add",
    "channels_last": _NO_EFFECT,
    "contiguous_format": _NO_EFFECT,
    "preserve_format": _NO_EFFECT,
    "set_float32_matmul_precision": _NO_EFFECT,
    "use_deterministic_algorithms": "leave it out, because all programs are deterministic",
    "set_printoptions": "use numpy.set_printoptions, and print x.detach().numpy()",
    "set_default_device": "leave it out, because there is one device, 'cpu'",
    "get_default_device": "use torch.device('cpu'), the only device",
    "set_default_tensor_type": "use set_default_dtype",
    "distributed": "training runs on the cores of one machine; leave it out",
    "multiprocessing": "use threads, or the multiprocessing of Python",
    "profiler": "use `adjoint profile`",
    "hub": "load a folder of a model with adjoint.importers.weights.load_pretrained",
    "onnx": "use adjoint.to_onnx and adjoint.from_onnx",
    "random": "use manual_seed, and torch.Generator",
    "special": "use the functions of adjoint itself, such as torch.erf",
    "frombuffer": "use torch.from_numpy(np.frombuffer(...))",
    "gcd": _NUMPY.format("gcd"),
}

_NN = {
    "FractionalMaxPool2d": _LAYER.format("use MaxPool2d"),
    "AlphaDropout": _LAYER.format("use Dropout"),
    "FeatureAlphaDropout": _LAYER.format("use Dropout2d"),
    "SyncBatchNorm": "use BatchNorm2d, because training runs in one process",
    "AdaptiveLogSoftmaxWithLoss": _LAYER.format("use CrossEntropyLoss"),
    "DataParallel": "leave it out, because all cores are used already",
    "parallel": "leave it out, because all cores are used already",
    "Buffer": "use register_buffer",
    "parameter": "use nn.Parameter",
    "modules": "use the names of adjoint.nn",
    "quantized": "use float16 or bfloat16",
}

_FUNCTIONAL = {
    "alpha_dropout": _LAYER.format("use dropout"),
}

_OPTIM = {
    "LBFGS": "use Adam, because an optimizer is part of the compiled step and cannot evaluate the loss again",
    "SparseAdam": "use Adam, because gradients are dense",
}

_SCHEDULES = {
    "_LRScheduler": "use LRScheduler",
}

_UTILS = {
    "prune": "multiply by a mask in forward",
    "fuse_conv_bn_eval": "leave it out, because programs are fused when they are compiled",
    "clip_grads_with_norm_": "use clip_grad_norm_",
}

_AUTOGRAD = {
    "Variable": "use tensors",
    "functional": "use the functions of adjoint itself, such as adjoint.hessian",
    "gradcheck": "compare with differences in float64",
    "profiler": "use `adjoint profile`",
    "detect_anomaly": "look for NaN with torch.isnan",
    "set_detect_anomaly": "look for NaN with torch.isnan",
}

_NUMPY_LINALG = "because there is no operator for it yet; use numpy.linalg.{} on x.detach().numpy()"

_LINALG_NAMES = {name: _NUMPY_LINALG.format(name) for name in ("eig", "eigvals")} | {
    "lu": _LINALG.replace("numpy.linalg", "scipy.linalg"),
    "lu_factor": "use linalg.solve, which factors the matrix itself",
    "solve_ex": "use linalg.solve, and look for NaN with torch.isfinite",
    "inv_ex": "use linalg.inv, and look for NaN with torch.isfinite",
    "cholesky_ex": "use linalg.cholesky, and look for NaN with torch.isfinite",
}

_FUNC = {
    "jacrev": "use jacobian",
    "grad_and_value": "use value_and_grad, which returns the value first",
    "linearize": "use jvp",
    "functionalize": "leave it out, because compiled functions have no changes in place",
}

#: By module: what to do instead, by name.
INSTEAD = {
    "adjoint": _TORCH,
    "adjoint.nn": _NN,
    "adjoint.nn.functional": _FUNCTIONAL,
    "adjoint.nn.utils": _UTILS,
    "adjoint.nn.utils.rnn": {},
    "adjoint.optim": _OPTIM,
    "adjoint.optim.lr_scheduler": _SCHEDULES,
    "adjoint.optim.swa_utils": {},
    "adjoint.autograd": _AUTOGRAD,
    "adjoint.linalg": _LINALG_NAMES,
    "adjoint.func": _FUNC,
}

_RETURNS = "compute a new tensor, as in x = x.{}(...)"

_METHODS = _SORTED | {
    "as_strided": "use reshape, permute and slices",
    "data_ptr": "use x.numpy().ctypes.data",
    "storage": "use numpy()",
    "untyped_storage": "use numpy()",
    "resize_": "use reshape, or make a new tensor",
    "set_": "assign to data",
    "real": "leave it out, because there are no complex numbers",
    "imag": "leave it out, because there are no complex numbers",
    "char": "use to(torch.int8)",
    "layout": "leave it out, because all tensors are dense",
    "is_sparse": "leave it out, because all tensors are dense",
    "to_dense": "leave it out, because all tensors are dense",
    "to_sparse": "because there are no sparse tensors; use index_add or scatter_add",
    "share_memory_": "leave it out, because training runs in one process",
    "register_post_accumulate_grad_hook": "use register_hook, or change grad after backward()",
    "apply_": "use numpy() and a loop, or tensor functions",
    "map_": "use numpy() and a loop, or tensor functions",
    "fill_diagonal_": "use index assignment, as in x[range(n), range(n)] = value",
    "new": "use new_tensor, new_zeros or new_empty",
    "squeeze_": _RETURNS.format("squeeze"),
    "unsqueeze_": _RETURNS.format("unsqueeze"),
    "transpose_": _RETURNS.format("transpose"),
    "t_": _RETURNS.format("t"),
}


def missing_name(module: str, name: str, known: Iterable[str]) -> AttributeError:
    """The error for a name that a module does not have, with what to use instead or the most similar name.

    Parameters
    ----------
    module : str
        The module, as ``adjoint.nn``.
    name : str
        The name.
    known : iterable of str
        The names that it has.
    """
    fix = INSTEAD.get(module, {}).get(name)
    if fix is None and not name.startswith("_"):
        similar = get_close_matches(name, list(known), 1)
        fix = f"did you mean {similar[0]}?" if similar else None
    if fix is None:  # as Python does, for what asks whether there is such a name
        return AttributeError(f"module {module!r} has no attribute {name!r}")
    return MissingAttributeError(f"{module} has no {name}{_joined(fix)}")


def _joined(fix: str) -> str:
    """The second part of a sentence: a reason, or what to do."""
    return f", {fix}" if fix.startswith("because") else f"; {fix}"


class _Absent:
    """A method that raises when it is read, so that `hasattr` finds none.

    A ``__getattr__`` would slow down the attributes that exist.
    """

    __slots__ = ("_fix", "_name")

    def __init__(self, name: str, fix: str) -> None:
        self._name, self._fix = name, fix

    def __get__(self, instance: object, owner: object = None) -> NoReturn:
        raise MissingAttributeError(f"a tensor has no {self._name}{_joined(self._fix)}")


class MissingMethods:
    """The part of `Tensor` that says what to use instead of methods that it does not have."""

    __slots__ = ()

    def __dir__(self) -> Iterable[str]:
        """The attributes that there are."""
        return [name for name in object.__dir__(self) if name not in _METHODS]


for _name, _fix in _METHODS.items():
    setattr(MissingMethods, _name, _Absent(_name, _fix))
