"""Tensors that record what is done with them: the recorder behind the object door and the functional door.

The package has the name of the function that makes tensors, ``adjoint.tensor(data)``, so it can be called as that.
"""

import sys
from types import ModuleType
from typing import Any

from adjoint.tensor.tensor import Tensor  # noqa: F401, RUF100 - results of operations are of this class

# isort: split
from adjoint.tensor.creation import tensor as _from_data


class _Callable(ModuleType):
    """The package, called as the function `adjoint.tensor.creation.tensor`."""

    def __call__(self, data: Any, **keywords: Any) -> Any:
        return _from_data(data, **keywords)


sys.modules[__name__].__class__ = _Callable
