"""Windows in the panels of split-K: axes of the result along which the packed operand is shifted, not another one.

The weight gradient of a convolution multiplies gradients ``dy[o, p]`` with shifted images ``x[c, p + tap]``. If there
are many output channels, gradients are packed, and elements of images broadcast. If there are few of them, images are
packed instead, with lanes along their channels. All taps then read the same panel, at different places; it holds
the steps of the block and those that the taps at its border need::

    panel[p, c] = x[c, p]                            squares transposed in registers
    for each tile of output channels and taps:
      for step in block: acc[o, tap] += dy[o, step] * panel[step + tap, lanes]
"""

from collections.abc import Mapping, Sequence
from math import gcd

from adjoint import costs
from adjoint.kernel.index import Index, Var, as_index, flatten
from adjoint.kernel.ir import Load
from adjoint.lazy_dataclass import dataclass

__all__ = ["Window", "packed_steps", "panel_step", "windows_of"]


@dataclass(frozen=True, slots=True)
class Window:
    """An axis of taps, which shifts the panel along a summed axis.

    Parameters
    ----------
    row, along : Var
        The axis of taps, and the summed axis.
    ahead, stride : int
        Places in the panel from one tap to the next (dilation), and from one step to the next.
    unit : int
        Elements of the operand from one place to the next.
    """

    row: Var
    along: Var
    ahead: int
    stride: int
    unit: int

    def places(self, steps: int) -> int:
        """Places in the panel that so many steps need."""
        return (steps - 1) * self.stride + (self.row.extent - 1) * self.ahead + 1


def windows_of(panel: Load, own: Sequence[Var], k: Sequence[Var]) -> tuple[Window, ...]:
    """The windows among the axes of the result that only the panel has; each along a longer summed axis of its own.

    Empty, unless exactly one of these axes, which the lanes run along, is none.
    """
    found: list[Window] = []
    for row in own:
        ahead = panel.index.coefficient(row) or 0
        for along in k:
            step = panel.index.coefficient(along) or 0
            unit = gcd(step, ahead)
            near = ahead > 0 and step > 0 and max(step, ahead) <= costs.MAX_WINDOW_STEP * unit
            longer = along.extent >= row.extent
            if near and longer and all(along is not other.along for other in found):
                found.append(Window(row, along, ahead // unit, step // unit, unit))
                break
    return tuple(found) if len(found) == len(own) - 1 else ()


def packed_steps(
    panel: Load, k: Sequence[Var], blocks: Sequence[int], windows: Sequence[Window]
) -> tuple[Load, list[Var], list[int]]:
    """What a block of the panel holds: the operand in terms of places along each summed axis, these, and how many."""
    axes, counts, index = list(k), list(blocks), panel.index
    for window in windows:
        number = next(n for n, v in enumerate(k) if v is window.along)
        axes[number] = Var(window.along.name, window.places(window.along.extent))
        counts[number] = window.places(blocks[number])
        index = index.substitute({window.along: as_index(0), window.row: as_index(0)})
        index = index + as_index(axes[number]) * window.unit
    return Load(panel.buffer, index), axes, counts


def panel_step(
    k: Sequence[Var],
    within: Sequence[Index],
    blocks: Sequence[int],
    row: Mapping[Var, Index],
    windows: Sequence[Window],
) -> Index:
    """The number of the panel's row that a step within a block and a row of the result need."""
    places, extents = [], []
    for var, step, block in zip(k, within, blocks, strict=True):
        window = next((w for w in windows if w.along is var), None)
        places.append(step if window is None else step * window.stride + row[window.row] * window.ahead)
        extents.append(block if window is None else window.places(block))
    return flatten(places, extents)
