"""adjoint: a training compiler. Forward, loss, gradients and optimizer become one native function.

The most frequently used names, each loaded from its own module on first use, so that ``import adjoint`` is fast.
Everything else is imported from the module that defines it, such as ``adjoint.ir.parse``.
"""

from typing import TYPE_CHECKING

from adjoint.lazy_names import lazy_names
from adjoint.names import TENSOR_NAMES
from adjoint.version import __version__

if TYPE_CHECKING:
    from adjoint import (
        amp,
        autograd,
        data,
        distributions,
        errors,
        func,
        ir,
        linalg,
        losses,
        models,
        nn,
        ops,
        optim,
        training,
        transforms,
        utils,
    )
    from adjoint.amp import autocast as autocast
    from adjoint.compiler import CompileOptions, Executable
    from adjoint.errors import AdjointError
    from adjoint.func.batching import vmap
    from adjoint.func.buckets import pad_to_bucket
    from adjoint.func.checkpointing import checkpoint
    from adjoint.func.custom import custom_jvp, custom_vjp
    from adjoint.func.debugging import debug_print
    from adjoint.func.derivatives import grad, jvp, stop_gradient, value_and_grad, vjp
    from adjoint.func.front import compile
    from adjoint.func.jacobians import hessian, jacfwd, jacobian
    from adjoint.func.jit import jit
    from adjoint.func.loops import cond, fori_loop, scan, while_loop
    from adjoint.func.tree import register_tree, tree_flatten, tree_leaves, tree_map, tree_unflatten
    from adjoint.importers.onnx import from_onnx as from_onnx
    from adjoint.importers.onnx import to_onnx as to_onnx
    from adjoint.importers.torch_export import from_torch
    from adjoint.ir import Function, IRModule, TensorType, Value, param
    from adjoint.nn.top_level import *  # noqa: F403
    from adjoint.saving import load, save
    from adjoint.tensor.accelerators import *  # noqa: F403
    from adjoint.tensor.arithmetic import *  # noqa: F403
    from adjoint.tensor.arranging import *  # noqa: F403
    from adjoint.tensor.autograd import enable_grad as enable_grad
    from adjoint.tensor.autograd import inference_mode as inference_mode
    from adjoint.tensor.autograd import is_grad_enabled as is_grad_enabled
    from adjoint.tensor.autograd import no_grad as no_grad
    from adjoint.tensor.autograd import set_grad_enabled as set_grad_enabled
    from adjoint.tensor.checking import debug_nan
    from adjoint.tensor.comparison import *  # noqa: F403
    from adjoint.tensor.creation import *  # noqa: F403
    from adjoint.tensor.diagonals import *  # noqa: F403
    from adjoint.tensor.dlpack import from_dlpack as from_dlpack
    from adjoint.tensor.dtypes import *  # noqa: F403
    from adjoint.tensor.elementwise import *  # noqa: F403
    from adjoint.tensor.environment import device as device
    from adjoint.tensor.environment import get_default_dtype as get_default_dtype
    from adjoint.tensor.environment import get_num_threads as get_num_threads
    from adjoint.tensor.environment import set_default_dtype as set_default_dtype
    from adjoint.tensor.environment import set_num_threads as set_num_threads
    from adjoint.tensor.explain import explain_recompiles as explain_recompiles
    from adjoint.tensor.gathering import *  # noqa: F403
    from adjoint.tensor.generator import Generator, default_generator, manual_seed
    from adjoint.tensor.in_place_functions import *  # noqa: F403
    from adjoint.tensor.joining import *  # noqa: F403
    from adjoint.tensor.linear_algebra import *  # noqa: F403
    from adjoint.tensor.ordering import *  # noqa: F403
    from adjoint.tensor.questions import *  # noqa: F403
    from adjoint.tensor.random import bernoulli as bernoulli
    from adjoint.tensor.random import multinomial as multinomial
    from adjoint.tensor.random import normal as normal
    from adjoint.tensor.random import rand as rand
    from adjoint.tensor.random import rand_like as rand_like
    from adjoint.tensor.random import randint as randint
    from adjoint.tensor.random import randint_like as randint_like
    from adjoint.tensor.random import randn as randn
    from adjoint.tensor.random import randn_like as randn_like
    from adjoint.tensor.random import randperm as randperm
    from adjoint.tensor.random_distributions import poisson as poisson
    from adjoint.tensor.reductions import *  # noqa: F403
    from adjoint.tensor.scattering import *  # noqa: F403
    from adjoint.tensor.segments import *  # noqa: F403
    from adjoint.tensor.shapes import *  # noqa: F403
    from adjoint.tensor.size import Size as Size
    from adjoint.tensor.systems import chain_matmul as chain_matmul
    from adjoint.tensor.systems import cholesky as cholesky
    from adjoint.tensor.systems import cholesky_inverse as cholesky_inverse
    from adjoint.tensor.systems import cholesky_solve as cholesky_solve
    from adjoint.tensor.systems import det as det
    from adjoint.tensor.systems import inverse as inverse
    from adjoint.tensor.systems import logdet as logdet
    from adjoint.tensor.systems import matrix_power as matrix_power
    from adjoint.tensor.systems import slogdet as slogdet
    from adjoint.tensor.systems import triangular_solve as triangular_solve
    from adjoint.tensor.tensor import Tensor as Tensor
    from adjoint.training import SetupTrainer, Trainer
    from adjoint.training.model import Model as Model
    from adjoint.training.model import TrainOneStep as TrainOneStep
else:
    _HOMES = {
        "adjoint": (
            "amp",
            "autograd",
            "data",
            "distributions",
            "errors",
            "func",
            "ir",
            "linalg",
            "losses",
            "models",
            "nn",
            "ops",
            "optim",
            "tensor",
            "training",
            "transforms",
            "utils",
        ),
        "adjoint.amp": ("autocast",),
        "adjoint.compiler": ("CompileOptions", "Executable"),
        "adjoint.errors": ("AdjointError",),
        "adjoint.func.batching": ("vmap",),
        "adjoint.func.buckets": ("pad_to_bucket",),
        "adjoint.func.checkpointing": ("checkpoint",),
        "adjoint.func.custom": ("custom_jvp", "custom_vjp"),
        "adjoint.func.debugging": ("debug_print",),
        "adjoint.func.derivatives": ("grad", "jvp", "stop_gradient", "value_and_grad", "vjp"),
        "adjoint.func.front": ("compile",),
        "adjoint.func.jacobians": ("hessian", "jacfwd", "jacobian"),
        "adjoint.func.jit": ("jit",),
        "adjoint.func.loops": ("cond", "fori_loop", "scan", "while_loop"),
        "adjoint.func.tree": ("register_tree", "tree_flatten", "tree_leaves", "tree_map", "tree_unflatten"),
        "adjoint.importers.torch_export": ("from_torch",),
        "adjoint.importers.onnx": ("from_onnx", "to_onnx"),
        "adjoint.ir": ("Function", "IRModule", "TensorType", "Value", "param"),
        "adjoint.tensor.checking": ("debug_nan",),
        "adjoint.tensor.generator": (
            "Generator",
            "default_generator",
            "get_rng_state",
            "initial_seed",
            "manual_seed",
            "seed",
            "set_rng_state",
        ),
        "adjoint.saving": ("load", "save"),
        "adjoint.training": ("SetupTrainer", "Trainer"),
        "adjoint.training.model": ("Model", "TrainOneStep"),
        **TENSOR_NAMES,
    }
    __getattr__, __dir__ = lazy_names(__name__, _HOMES)


__all__ = [
    "AdjointError",
    "CompileOptions",
    "Executable",
    "Function",
    "Generator",
    "IRModule",
    "SetupTrainer",
    "TensorType",
    "Trainer",
    "Value",
    "__version__",
    "amp",
    "autograd",
    "checkpoint",
    "compile",
    "cond",
    "custom_jvp",
    "custom_vjp",
    "data",
    "debug_nan",
    "debug_print",
    "default_generator",
    "distributions",
    "errors",
    "fori_loop",
    "from_onnx",
    "from_torch",
    "func",
    "grad",
    "hessian",
    "ir",
    "jacfwd",
    "jacobian",
    "jit",
    "jvp",
    "linalg",
    "load",
    "losses",
    "manual_seed",
    "models",
    "nn",
    "ops",
    "optim",
    "pad_to_bucket",
    "param",
    "register_tree",
    "save",
    "scan",
    "stop_gradient",
    "to_onnx",
    "training",
    "transforms",
    "tree_flatten",
    "tree_leaves",
    "tree_map",
    "tree_unflatten",
    "utils",
    "value_and_grad",
    "vjp",
    "vmap",
    "while_loop",
]

if not TYPE_CHECKING:
    __all__ += ["tensor", *(name for names in TENSOR_NAMES.values() for name in names)]  # noqa: F405
