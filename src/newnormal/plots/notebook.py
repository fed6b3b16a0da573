"""A figure that a notebook shows. Import it where Matplotlib is known to be there."""

from io import BytesIO

from matplotlib.figure import Figure
from PIL import Image

DOTS_PER_INCH = 160
_ON_SCREEN = 92  # pixels an inch in a notebook
_FINER = 1.5  # times as many in the picture, for fine displays
_COLOURS = 256  # a third of the bytes that all colours take


class NotebookFigure(Figure):
    """A figure that a notebook shows, whether or not pyplot was ever imported there."""

    def _repr_png_(self) -> tuple[bytes, dict[str, int]]:
        drawn, file = BytesIO(), BytesIO()
        self.savefig(drawn, format="png", dpi=_FINER * _ON_SCREEN)
        with Image.open(drawn) as picture:
            picture.convert("RGB").quantize(_COLOURS).save(file, format="png")
        width, height = (round(inches * _ON_SCREEN) for inches in self.get_size_inches())
        return file.getvalue(), {"width": width, "height": height}
