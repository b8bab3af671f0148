"""PyTorch's modules for training: `from_torch`, and the backend of ``torch.compile``.

``torch.export`` gives the graph of a module in ATen's operators, not decomposed (`export`). It is read once into a
`graph`, which does not depend on PyTorch, and evaluated with adjoint's own functions (`evaluate`, `operators`) by a
module that holds the parameters under their names (`module`). `trainer` compiles its training step as a whole.
"""

from adjoint.importers.torch_export.trainer import TorchTrainer, from_torch

__all__ = ["TorchTrainer", "from_torch"]
