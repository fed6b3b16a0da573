"""Pictures of an experiment: which colour is whose, and where the files go."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from newnormal import plots
from newnormal.plots.canvas import FALSE, INK, TRUE
from newnormal.plots.charts import PALETTE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["COLOURS", "ROW_COLOURS", "colour_of", "figure_of", "keep", "label_of"]

# The paper's models and rows of its ablation; ours, as the paper has it, in red.
COLOURS = {
    "MLP": TRUE,
    "MLP + DT": "#009E73",
    "MLP + TTA": "#E69F00",
    "MLP + DT+TTA": FALSE,
    "LSTM": "#CC79A7",
    "LSTM (diagonal)": "#E5BCD3",
    "USAD": "#56B4E9",
    "THOC": "#8C6D31",
    "AT": INK,
}
# The rows of drift: the paper's method at three settings is one colour in three strengths.
ROW_COLOURS = {
    "frozen MLP": TRUE,
    "γ 0.8, η 0.1": "#F5C9A8",
    "γ 0.99, η 0.05": "#EB9A62",
    "γ 0.999, η 0.005": FALSE,
    "PCA": "#009E73",
    "default": INK,
}


def colour_of(name: str) -> str:
    """Return a colour for a model's or row's name, the same one each time.

    Examples
    --------
    >>> colour_of("MLP") == COLOURS["MLP"]
    True
    >>> colour_of("mine") == colour_of("mine")
    True
    """
    return COLOURS.get(name) or ROW_COLOURS.get(name) or PALETTE[sum(name.encode()) % len(PALETTE)]


def label_of(stream: str) -> str:
    """Return a stream's name as short as it has to be above a panel or below a bar.

    Examples
    --------
    >>> label_of("SMD/1-4"), label_of("NAB/realKnownCause/ambient_temperature_system_failure")
    ('SMD/1-4', 'ambient temperature system…')
    """
    known = ("NAB/realKnownCause/", "synthetic/")
    for folder in known:
        if stream.startswith(folder):
            stream = stream.removeprefix(folder).replace("_", " ")
    return stream if len(stream) <= 28 else f"{stream[:27].rsplit(' ', 1)[0]}…"


def keep(figure: Figure, folder: Path, name: str) -> list[Path]:
    """Write a figure as SVG and PNG; the same figure gives the same files.

    The PNG has 256 colours, which is a third of the bytes and looks the same.
    """
    from matplotlib import rc_context
    from PIL import Image  # Matplotlib brings it

    folder.mkdir(parents=True, exist_ok=True)
    with rc_context({"svg.hashsalt": name}):
        paths = [plots.save(figure, folder / f"{name}{ending}") for ending in (".svg", ".png")]
    with Image.open(paths[1]) as picture:
        # Maximum coverage: the usual way merges colours that few pixels have, such as a line's.
        small = picture.convert("RGB").quantize(256, Image.Quantize.MAXCOVERAGE)
    small.save(paths[1], optimize=True)
    return paths


def figure_of(name: str, caption: str) -> str:
    """Return the Markdown that shows a picture written by `keep`.

    Examples
    --------
    >>> figure_of("shift-kl", "How far test is from train.")
    '![How far test is from train.](shift-kl.svg)'
    """
    return f"![{' '.join(caption.split())}]({name}.svg)"
