"""Lines of text in a figure."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from newnormal.plots.canvas import NORMAL, SMALL

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LEFT = 0.14  # inches


def write(
    figure: "Figure",
    lines: Sequence[str],
    y: float,
    colour: str,
    *,
    left: float = LEFT,
    size: float = SMALL,
    weight: str = "normal",
    line: float | None = None,
) -> float:
    """Write lines, the first at `y` inches from the foot, and return where the next would be."""
    width, height = figure.get_size_inches()
    step = line or (0.25 if size > NORMAL else 0.19)
    for text in lines:
        figure.text(
            left / width,
            y / height,
            text,
            fontsize=size,
            fontweight=weight,
            color=colour,
            va="center",
            parse_math=False,
        )
        y -= step
    return y


def shortened(name: str, letters: int) -> str:
    """Return a name with at most about so many letters; both ends may distinguish it from others.

    >>> shortened("temperature of the oil", 12), shortened("flow", 12)
    ('temper…he oil', 'flow')
    """
    return name if len(name) <= letters else f"{name[: letters // 2]}…{name[-(letters // 2) :]}"
