"""Released weights: folders of models of transformers, and adapters of peft, without either program.

`architecture` is the form of the tables, of which there is one file for each architecture; `configuration` and `stored`
read the files.
"""

from adjoint.importers.weights.adapters import load_adapter, save_adapter
from adjoint.importers.weights.pretrained import load_pretrained, save_pretrained

__all__ = ["load_adapter", "load_pretrained", "save_adapter", "save_pretrained"]
