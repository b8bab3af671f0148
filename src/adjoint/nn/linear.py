"""Linear layers."""

from typing import Any

from adjoint.modules import Module
from adjoint.nn import functional as F  # noqa: N812
from adjoint.nn.parameters import check_sizes, drawn, own_dtype
from adjoint.tensor.tensor import Parameter

__all__ = ["Bilinear", "Identity", "Linear"]


class Identity(Module):
    """Returns its input; takes any settings, and ignores them."""

    def __init__(self, *args: Any, **keywords: Any) -> None:  # noqa: ARG002
        super().__init__()

    def forward(self, input: Any) -> Any:
        """The input."""
        return input


class Linear(Module):
    """``input @ weight.T + bias``.

    Parameters
    ----------
    in_features, out_features : int
        Sizes of the last axis of the input and of the result.
    bias : bool, default True
        Whether there is a bias.
    device : str, optional
        "cpu".
    dtype : str or numpy dtype, optional
        Dtype of the parameters; default: `adjoint.get_default_dtype`.

    Attributes
    ----------
    weight : Parameter
        Shape ``[out_features, in_features]``, drawn evenly between plus and minus ``1 / sqrt(in_features)``.
    bias : Parameter or None
        Shape ``[out_features]``, drawn likewise.
    """

    bias: Parameter | None

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, device: object = None, dtype: object = None
    ) -> None:
        super().__init__()
        check_sizes("Linear", in_features=in_features, out_features=out_features)
        self.in_features, self.out_features = in_features, out_features
        own = own_dtype(device, dtype)
        bound = in_features**-0.5 if in_features else 0.0
        self.weight = drawn((out_features, in_features), bound, own)
        self.register_parameter("bias", drawn((out_features,), bound, own) if bias else None)

    def forward(self, input: Any) -> Any:
        """The product, shape ``[..., out_features]``."""
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        """The sizes."""
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


class Bilinear(Module):
    """``input1 @ weight[o] @ input2 + bias[o]`` for each output o.

    Parameters
    ----------
    in1_features, in2_features, out_features : int
        Sizes of the last axes of the inputs and of the result.
    bias : bool, default True
        Whether there is a bias.
    device : str, optional
        "cpu".
    dtype : str or numpy dtype, optional
        Dtype of the parameters; default: `adjoint.get_default_dtype`.

    Attributes
    ----------
    weight : Parameter
        Shape ``[out_features, in1_features, in2_features]``, drawn evenly between plus and minus
        ``1 / sqrt(in1_features)``.
    bias : Parameter or None
        Shape ``[out_features]``, drawn likewise.
    """

    bias: Parameter | None

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        device: object = None,
        dtype: object = None,
    ) -> None:
        super().__init__()
        check_sizes("Bilinear", in1_features=in1_features, in2_features=in2_features, out_features=out_features)
        self.in1_features, self.in2_features, self.out_features = in1_features, in2_features, out_features
        own = own_dtype(device, dtype)
        bound = in1_features**-0.5
        self.weight = drawn((out_features, in1_features, in2_features), bound, own)
        self.register_parameter("bias", drawn((out_features,), bound, own) if bias else None)

    def forward(self, input1: Any, input2: Any) -> Any:
        """The products, shape ``[..., out_features]``."""
        return F.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        """The sizes."""
        return (
            f"in1_features={self.in1_features}, in2_features={self.in2_features}, out_features={self.out_features}, "
            f"bias={self.bias is not None}"
        )
