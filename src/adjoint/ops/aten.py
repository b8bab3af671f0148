"""PyTorch's core ATen operators, and what computes each here: the table in ``aten.txt``."""

from importlib.resources import files

from adjoint.lazy_dataclass import dataclass

__all__ = ["AtenOperator", "aten_operators"]


@dataclass(frozen=True, slots=True)
class AtenOperator:
    """An operator of PyTorch's core ATen set, version 2.13.

    Parameters
    ----------
    name : str
        The name, without the prefix ``aten::``.
    overloads : tuple of str
        The overloads that are in the set.
    functions : tuple of str
        What computes it: the paths of functions and methods in `adjoint`. Empty if nothing does.
    remark : str
        How they compute it; without functions, the reason why there are none.
    """

    name: str
    overloads: tuple[str, ...]
    functions: tuple[str, ...]
    remark: str

    @property
    def covered(self) -> bool:
        """Whether something computes it."""
        return bool(self.functions)


def aten_operators() -> list[AtenOperator]:
    """The operators of the set, by name."""
    lines = files("adjoint.ops").joinpath("aten.txt").read_text().splitlines()
    return [_read(line) for line in lines if not line.startswith("#")]


def _read(line: str) -> AtenOperator:
    name, overloads, functions, remark = (*(field.strip() for field in line.split("|")), "")[:4]
    return AtenOperator(name, tuple(overloads.split()), tuple(functions.split(", ")) if functions else (), remark)
