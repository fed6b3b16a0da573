"""Figures of an experiment: the colour of each model, and the files they are saved to."""

import io
from pathlib import Path
from typing import TYPE_CHECKING

from newnormal import plots

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INK, LINE, PALE = "#1f2933", "#8a97a6", "#c9d1d9"
TRUE, FALSE = "#0072B2", "#D55E00"  # labels and alarms that meet them; alarms for nothing
SMALL, NORMAL = 8.5, 10.5  # points
# Okabe and Ito's, in an order in which neighbours differ; vermillion is kept for the method.
PALETTE = (TRUE, "#009E73", "#CC79A7", "#56B4E9", "#E69F00", LINE, "#B8A600", INK)

MOST_BYTES = 150_000  # of a PNG: figures are kept in version control

# The paper's models and the variants of its ablation. Its own method is red, as in the paper.
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
# The rows of drift: the paper's method at three settings has one colour in three strengths.
ROW_COLOURS = {
    "frozen MLP": TRUE,
    "γ 0.8, η 0.1": "#F5C9A8",
    "γ 0.99, η 0.05": "#EB9A62",
    "γ 0.999, η 0.005": FALSE,
    "PCA": "#009E73",
    "default": INK,
}


def colour_of(name: str) -> str:
    """Return a colour for the name of a model or row, the same one each time.

    >>> colour_of("MLP") == COLOURS["MLP"]
    True
    >>> colour_of("mine") == colour_of("mine")
    True
    """
    return COLOURS.get(name) or ROW_COLOURS.get(name) or PALETTE[sum(name.encode()) % len(PALETTE)]


def label_of(stream: str) -> str:
    """Return a stream's name, short enough for the title of a panel or the label of a bar.

    >>> label_of("SMD/1-4"), label_of("NAB/realKnownCause/ambient_temperature_system_failure")
    ('SMD/1-4', 'ambient temperature system…')
    """
    for prefix in ("NAB/realKnownCause/", "synthetic/"):
        if stream.startswith(prefix):
            stream = stream.removeprefix(prefix).replace("_", " ")
    return stream if len(stream) <= 28 else f"{stream[:27].rsplit(' ', 1)[0]}…"


def blank(width: float, height: float) -> "Figure":
    """Return an empty figure of this many inches."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), facecolor="white")


def save_figure(figure: "Figure", folder: Path, name: str) -> list[Path]:
    """Write a figure as SVG and PNG; the same figure gives the same files.

    The PNG has at most 256 colours and `MOST_BYTES`.
    """
    from matplotlib import rc_context

    folder.mkdir(parents=True, exist_ok=True)
    with rc_context({"svg.hashsalt": name}):
        paths = [plots.save(figure, folder / f"{name}{ending}") for ending in (".svg", ".png")]
    compress(paths[1])
    return paths


def compress(path: Path) -> None:
    """Write a PNG anew with a palette: 256 colours, or fewer if it is larger than `MOST_BYTES`.

    A palette of 256 colours takes a third of the bytes and looks the same.
    """
    from PIL import Image  # Matplotlib depends on it

    with Image.open(path) as picture:
        full = picture.convert("RGB")
    data = b""
    for colours in (256, 128, 64, 32, 16):
        # Maximum coverage: the default merges colours that few pixels have, such as a line's.
        small = full.quantize(colours, Image.Quantize.MAXCOVERAGE)
        buffer = io.BytesIO()
        small.save(buffer, "PNG", optimize=True)
        data = buffer.getvalue()
        if len(data) <= MOST_BYTES:
            break
    path.write_bytes(data)


def figure_link(name: str, caption: str) -> str:
    """Return the Markdown that shows a figure written by `save_figure`.

    >>> figure_link("shift-kl", "How far test is from train.")
    '![How far test is from train.](shift-kl.png)'
    """
    return f"![{' '.join(caption.split())}]({name}.png)"
