"""Names of PyTorch that adjoint does not have, with what to use instead.

Modules call `missing_name` in their ``__getattr__``; tensors have `MissingMethods`.
"""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import NoReturn

from adjoint.errors import MissingAttributeError

__all__ = ["MissingMethods", "missing_name"]

_NUMPY = "because there is no operator for it yet; use NumPy, as in torch.from_numpy(np.{}(x.detach().numpy()))"
_LINALG = "because there is no operator for it yet; use numpy.linalg on x.detach().numpy()"
_LAYER = "because there is no operator for it yet; {}"
_CELL = _LAYER.format("write the cell with nn.Linear, and loop over the steps in forward")
_NO_EFFECT = "leave it out, because it would have no effect here"

_SORTED = {
    "sort": _NUMPY.format("sort"),
    "argsort": _NUMPY.format("argsort"),
    "topk": _LAYER.format("use max for the largest, or NumPy, as in np.argsort(x.detach().numpy())"),
    "kthvalue": _NUMPY.format("partition"),
    "median": _NUMPY.format("median"),
    "nanmedian": _NUMPY.format("nanmedian"),
    "quantile": _NUMPY.format("quantile"),
    "unique": _NUMPY.format("unique"),
    "unique_consecutive": _NUMPY.format("unique"),
    "histc": _NUMPY.format("histogram"),
    "mode": _LAYER.format("use bincount and argmax for integers"),
    "cummax": _NUMPY.format("maximum.accumulate"),
    "cummin": _NUMPY.format("minimum.accumulate"),
    "diff": "subtract slices, as in x[1:] - x[:-1]",
    "cross": "use products and sums of slices",
    "atan2": _NUMPY.format("arctan2"),
    "atan": _NUMPY.format("arctan"),
    "asin": _NUMPY.format("arcsin"),
    "acos": _NUMPY.format("arccos"),
    "asinh": _NUMPY.format("arcsinh"),
    "acosh": _NUMPY.format("arccosh"),
    "atanh": _NUMPY.format("arctanh"),
    "lgamma": _LAYER.format("use scipy.special on x.detach().numpy()"),
    "digamma": _LAYER.format("use scipy.special on x.detach().numpy()"),
    "erfinv": _LAYER.format("use scipy.special on x.detach().numpy()"),
    "det": _LINALG,
    "slogdet": _LINALG,
    "logdet": _LINALG,
    "inverse": _LINALG,
    "pinverse": _LINALG,
    "svd": _LINALG,
    "qr": _LINALG,
    "cholesky": _LINALG,
    "matrix_power": _LINALG,
    "unfold": _LAYER.format("stack slices"),
    "scatter_reduce": "use scatter_add, or index_add",
    "index_fill": "use index assignment, as in x[index] = value",
    "index_copy": "use index assignment, as in x[index] = source",
    "index_put": "use index assignment, as in x[index] = value",
    "masked_scatter": "use index assignment, as in x[mask] = values",
    "tensor_split": "use split or chunk",
    "logaddexp": "use torch.logsumexp(torch.stack([x, y]), 0)",
    "nanmean": "use torch.where(x.isnan(), 0.0, x), and divide by the number of the others",
    "nansum": "use torch.where(x.isnan(), 0.0, x).sum()",
    "hypot": "use torch.sqrt(x * x + y * y)",
    "xlogy": "use torch.where(x == 0, 0.0, x * torch.log(y))",
    "fmax": "use torch.maximum",
    "fmin": "use torch.minimum",
    "isin": "use (x[..., None] == values).any(-1)",
    "moveaxis": "use movedim",
    "vdot": "use dot",
}

_TORCH = _SORTED | {
    "searchsorted": _NUMPY.format("searchsorted"),
    "bucketize": _NUMPY.format("digitize"),
    "fft": _LAYER.format("use numpy.fft on x.detach().numpy()"),
    "stft": _LAYER.format("use numpy.fft on x.detach().numpy()"),
    "linalg": _LINALG,
    "cdist": "use ((a[:, None] - b[None]) ** 2).sum(-1).sqrt()",
    "kron": "use einsum and reshape",
    "rot90": "use transpose and flip",
    "column_stack": "use torch.stack(tensors, 1), or hstack",
    "chain_matmul": "use @",
    "cartesian_prod": "use meshgrid and stack",
    "block_diag": "use cat with zeros",
    "promote_types": "use result_type, or numpy.promote_types",
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
    "distributions": "write the density with torch.log and friends, and draw with rand, randn or multinomial",
    "poisson": "use numpy.random.Generator.poisson",
    "distributed": "training runs on the cores of one machine; leave it out",
    "multiprocessing": "use threads, or the multiprocessing of Python",
    "profiler": "use `adjoint profile`",
    "hub": "load the weights with torch.load, or safetensors, into a model of your own",
    "onnx": "save the state_dict",
    "random": "use manual_seed, and torch.Generator",
    "special": "use the functions of adjoint itself, such as torch.erf",
    "frombuffer": "use torch.from_numpy(np.frombuffer(...))",
    "gcd": _NUMPY.format("gcd"),
}

_NN = {
    "LSTM": _CELL,
    "GRU": _CELL,
    "RNN": _CELL,
    "LSTMCell": _LAYER.format("write the cell with nn.Linear, sigmoid and tanh"),
    "GRUCell": _LAYER.format("write the cell with nn.Linear, sigmoid and tanh"),
    "RNNCell": _LAYER.format("write the cell with nn.Linear and tanh"),
    "FractionalMaxPool2d": _LAYER.format("use MaxPool2d"),
    "EmbeddingBag": "use Embedding, and sum or mean over the axis of the words",
    "CTCLoss": _LAYER.format("use cross entropy with aligned labels"),
    "MultiMarginLoss": _LAYER.format("use CrossEntropyLoss, or clamp and mean"),
    "MultiLabelMarginLoss": _LAYER.format("use BCEWithLogitsLoss"),
    "MultiLabelSoftMarginLoss": "use BCEWithLogitsLoss",
    "AlphaDropout": _LAYER.format("use Dropout"),
    "FeatureAlphaDropout": _LAYER.format("use Dropout2d"),
    "Softmax2d": "use Softmax(dim=-3)",
    "RReLU": _LAYER.format("use LeakyReLU"),
    "SyncBatchNorm": "use BatchNorm2d, because training runs in one process",
    "LazyLinear": "use Linear, with in_features from the shape of a batch",
    "LazyConv2d": "use Conv2d, with in_channels from the shape of a batch",
    "Transformer": "use TransformerEncoder and TransformerDecoder; for generate_square_subsequent_mask, causal_mask",
    "CosineSimilarity": "use nn.functional.cosine_similarity",
    "PairwiseDistance": "use nn.functional.pairwise_distance",
    "TripletMarginWithDistanceLoss": "use TripletMarginLoss",
    "AdaptiveLogSoftmaxWithLoss": _LAYER.format("use CrossEntropyLoss"),
    "DataParallel": "leave it out, because all cores are used already",
    "parallel": "leave it out, because all cores are used already",
    "Buffer": "use register_buffer",
    "parameter": "use nn.Parameter",
    "modules": "use the names of adjoint.nn",
    "quantized": "use float16 or bfloat16",
}

_FUNCTIONAL = {
    "ctc_loss": _NN["CTCLoss"],
    "gumbel_softmax": "use softmax((logits - torch.log(-torch.log(torch.rand_like(logits)))) / tau, dim=-1)",
    "embedding_bag": _NN["EmbeddingBag"],
    "alpha_dropout": _LAYER.format("use dropout"),
    "multi_margin_loss": _LAYER.format("use cross_entropy, or clamp and mean"),
    "multilabel_margin_loss": _LAYER.format("use binary_cross_entropy_with_logits"),
    "multilabel_soft_margin_loss": "use binary_cross_entropy_with_logits",
    "rrelu": _LAYER.format("use leaky_relu"),
    "pdist": "use pairwise differences, as in ((x[:, None] - x[None]) ** 2).sum(-1).sqrt()",
    "relu_": "use relu",
    "elu_": "use elu",
    "leaky_relu_": "use leaky_relu",
    "hardtanh_": "use hardtanh",
}

_NO_OPTIMIZER = (
    "because only the most used optimizers are there yet; use SGD, Adam or AdamW, or define update() of a subclass of "
    "optim.Optimizer"
)

_OPTIM = dict.fromkeys(
    ["RMSprop", "Adagrad", "Adadelta", "Adafactor", "Adamax", "NAdam", "RAdam", "ASGD", "Rprop", "LBFGS", "Muon"],
    _NO_OPTIMIZER,
) | {
    "SparseAdam": "use Adam, because gradients are dense",
    "swa_utils": "average copies of the parameters within torch.no_grad(), as in a.lerp_(p, 0.1)",
}

_SCHEDULES = {
    "CyclicLR": "use OneCycleLR, or LambdaLR with a function of the step",
    "_LRScheduler": "use LRScheduler",
}

_UTILS = {
    "weight_norm": "write the product of a direction and a norm in forward",
    "spectral_norm": "divide by the norm in forward",
    "parametrizations": "write the function of the parameter in forward",
    "parametrize": "write the function of the parameter in forward",
    "prune": "multiply by a mask in forward",
    "fuse_conv_bn_eval": "leave it out, because programs are fused when they are compiled",
    "clip_grads_with_norm_": "use clip_grad_norm_",
}

_PACKED = "because there are no packed sequences; pad them, and mask what was added"

_RNN = dict.fromkeys(["PackedSequence", "pack_padded_sequence", "pad_packed_sequence", "pack_sequence"], _PACKED)

_AUTOGRAD = {
    "Function": "write forward() with tensor functions, whose derivatives are known; for another derivative, use "
    "detach(), as in x + (f(x) - x).detach()",
    "Variable": "use tensors",
    "functional": "use the functions of adjoint itself, such as adjoint.hessian",
    "gradcheck": "compare with differences in float64",
    "profiler": "use `adjoint profile`",
    "detect_anomaly": "look for NaN with torch.isnan",
    "set_detect_anomaly": "look for NaN with torch.isnan",
}

#: By module: what to do instead, by name.
_MISSING = {
    "adjoint": _TORCH,
    "adjoint.nn": _NN,
    "adjoint.nn.functional": _FUNCTIONAL,
    "adjoint.nn.utils": _UTILS,
    "adjoint.nn.utils.rnn": _RNN,
    "adjoint.optim": _OPTIM,
    "adjoint.optim.lr_scheduler": _SCHEDULES,
    "adjoint.autograd": _AUTOGRAD,
}

_RETURNS = "compute a new tensor, as in x = x.{}(...)"

_METHODS = _SORTED | {
    "as_strided": "use reshape, permute and slices",
    "data_ptr": "use x.numpy().ctypes.data",
    "storage": "use numpy()",
    "untyped_storage": "use numpy()",
    "resize_": "use reshape, or make a new tensor",
    "set_": "assign to data",
    "H": "use mT, because there are no complex numbers",
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
    "tril_": _RETURNS.format("tril"),
    "triu_": _RETURNS.format("triu"),
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
    fix = _MISSING[module].get(name)
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
