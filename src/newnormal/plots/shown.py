"""A figure that a notebook shows. Import it where Matplotlib is known to be there."""

from __future__ import annotations

from io import BytesIO

from matplotlib.figure import Figure

__all__ = ["DOTS_PER_INCH", "ShownFigure"]

DOTS_PER_INCH = 160
_ON_SCREEN = 92  # pixels an inch in a notebook; the picture has more, for fine displays


class ShownFigure(Figure):
    """A figure that a notebook shows, whether or not pyplot was ever imported there."""

    def _repr_png_(self) -> tuple[bytes, dict[str, int]]:
        file = BytesIO()
        self.savefig(file, format="png", dpi=DOTS_PER_INCH, metadata={"Software": None})
        width, height = (round(inches * _ON_SCREEN) for inches in self.get_size_inches())
        return file.getvalue(), {"width": width, "height": height}
