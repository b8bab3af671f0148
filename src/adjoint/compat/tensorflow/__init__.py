"""TensorFlow's names: ``import adjoint.compat.tensorflow as tf``.

Tensors are adjoint's. Operations are recorded for gradients within a `GradientTape`; layers record nothing outside.
"""

from adjoint.compat.tensorflow import data, keras, math, nn, random
from adjoint.compat.tensorflow.functions import function
from adjoint.compat.tensorflow.gradients import GradientTape, UnconnectedGradients, stop_gradient
from adjoint.compat.tensorflow.mathematics import *  # noqa: F403
from adjoint.compat.tensorflow.mathematics import __all__ as _mathematics
from adjoint.compat.tensorflow.variables import Variable
from adjoint.compat.uncovered import uncovered
from adjoint.tensor.dtypes import bfloat16, bool, float16, float32, float64, int8, int16, int32, int64, uint8
from adjoint.tensor.tensor import Tensor

#: A new axis in an index.
newaxis = None

__all__ = [
    "GradientTape", "Tensor", "UnconnectedGradients", "Variable", "bfloat16", "bool", "data", "float16", "float32",
    "float64", "function", "int8", "int16", "int32", "int64", "keras", "math", "newaxis", "nn", "random",
    "stop_gradient", "uint8", *_mathematics,
]  # fmt: skip
__getattr__ = uncovered(
    __name__,
    {
        "distribute": "leave it out: training uses the cores of one machine",
        "Session": "leave it out: functions run when they are called",
        "while_loop": "use adjoint.while_loop",
        "cond": "use adjoint.cond",
        "custom_gradient": "use adjoint.custom_vjp",
        "TensorArray": "use a Python list and tf.stack",
        "print": "use adjoint.debug_print within tf.function, and print elsewhere",
    },
    "adjoint",
)
