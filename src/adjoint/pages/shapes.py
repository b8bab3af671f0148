"""Elements of drawings: lines and text with positions in pixels, which templates turn into SVG."""

from adjoint.lazy_dataclass import dataclass

__all__ = ["Label", "Line"]


@dataclass(frozen=True, slots=True)
class Line:
    """A straight line.

    Parameters
    ----------
    x1, y1, x2, y2 : float
        The end points.
    style : str, default "grid"
        CSS classes.
    """

    x1: float
    y1: float
    x2: float
    y2: float
    style: str = "grid"


@dataclass(frozen=True, slots=True)
class Label:
    """A text.

    Parameters
    ----------
    text : str
        The text.
    x, y : float
        Position of the baseline.
    style : str, default "tick"
        CSS classes.
    anchor : {"middle", "end"}, optional
        The point of the text at `x`; default: its start.
    angle : float, optional
        Rotation in degrees around this position.
    k : int, optional
        The kernel that it refers to.
    """

    text: str
    x: float
    y: float
    style: str = "tick"
    anchor: str | None = None
    angle: float | None = None
    k: int | None = None
