"""What drawings are made of: lines and words with their places in pixels. Templates make elements of them."""

from dataclasses import dataclass

__all__ = ["Label", "Line"]


@dataclass(frozen=True, slots=True)
class Line:
    """A straight line.

    Parameters
    ----------
    x1, y1, x2, y2 : float
        From where to where.
    style : str, default "grid"
        Its classes in the style sheet.
    """

    x1: float
    y1: float
    x2: float
    y2: float
    style: str = "grid"


@dataclass(frozen=True, slots=True)
class Label:
    """Words.

    Parameters
    ----------
    text : str
        What they are.
    x, y : float
        Where the baseline is.
    style : str, default "tick"
        Its classes in the style sheet.
    anchor : {"middle", "end"}, optional
        What of them stands at `x`; where they begin if None.
    angle : float, optional
        Degrees by which they are turned about their place.
    k : int, optional
        The kernel that they are about.
    """

    text: str
    x: float
    y: float
    style: str = "tick"
    anchor: str | None = None
    angle: float | None = None
    k: int | None = None
