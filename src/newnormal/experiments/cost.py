"""What each model costs: table:Appendix:CC, with adaptation and without.

One window at the paper's size: 12 samples of 55 channels, latent width 128, batch 1.
"""

from __future__ import annotations

import csv
import io
import math
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cache
from importlib import import_module
from importlib.resources import files
from os import PathLike
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import numpy as np

from newnormal.core import live
from newnormal.errors import ParameterError
from newnormal.experiments import page
from newnormal.experiments.admission import admit
from newnormal.experiments.entrants import PAPER_MODELS, Entrant
from newnormal.experiments.experiment import write_texts
from newnormal.experiments.paper import title
from newnormal.experiments.plan import command
from newnormal.experiments.sweep import Progress
from newnormal.kernels.step import Rules
from newnormal.models.base import Model, Training
from newnormal.models.mlp import MLP
from newnormal.types import Floats

__all__ = ["Cost", "Costs", "cost", "cost_of", "printed_cost"]

WINDOW, CHANNELS, LATENT = 12, 55, 128
_TRIALS = 100
_BYTES = 4  # float32

_INTRODUCTION = """\
# What each model costs

`table:Appendix:CC`. Made by `{command}`.

One window of {window} samples of {channels} channels, latent width {latent}, batch 1, as the paper
has it. *Forward* is the network's pass that gives the scores; *window* is all the detector does for
a window (scaling, trend, scores, verdicts); *learning* is that and the step of adaptation. For the
compiled MLP, which does all in one loop, forward is the window.
"""

_TIMES = """\
## Time

Milliseconds, median of {trials} trials (± half the distance between their quartiles), one thread of
{machine}. The paper's are means of 30 trials on a Titan Xp, the forward pass alone. Where the
spread is large, the machine was busy with other work.
"""

_WORK = """\
## Multiply-adds

What the paper calls flops are multiply-adds of the linear layers: the first column. It leaves out
an LSTM's and a GRU's recurrent products (all but 1 % of the LSTM), attention's products and
convolutions, which the second column has. Both leave out biases, activations, norms, softmax and
the score. The paper counts each of USAD's three parts once; a score needs the encoder twice and a
decoder twice, which is what we count. PyTorch models go forward once more to learn; the compiled
MLP keeps its first pass.
"""

_MEMORY = """\
## Memory

Megabytes (10⁶ bytes) of 32-bit numbers. Activations are what layers with parameters give out:
once to judge, and once more for their gradients to learn, which is the paper's count.
"""

_THOC = """\
THOC's hidden width is 64 here, as in the experiments, and does not follow the latent width; at 128
it would have 457,509 parameters, 1.83 MB, which is near what the paper prints.
"""


@dataclass(frozen=True)
class Cost:
    """What one model costs for one window; NaN where it cannot be told apart.

    Attributes
    ----------
    forward_ms, window_ms, learning_ms
        Median times: of the network, of the detector's window, of that with a learning step.
    forward_spread, window_spread, learning_spread
        Half of the trials lie within this range of the medians, in all.
    linear, forward, learning
        Multiply-adds: of linear layers, of all products, with the learning step.
    parameters
        How many.
    outputs
        Numbers that layers with parameters give out.
    """

    name: str
    model: str
    forward_ms: float
    forward_spread: float
    window_ms: float
    window_spread: float
    learning_ms: float
    learning_spread: float
    linear: int
    forward: int
    learning: int
    parameters: int
    outputs: int

    @property
    def parameters_mb(self) -> float:
        """Size of the parameters."""
        return self.parameters * _BYTES / 1e6

    @property
    def judging_mb(self) -> float:
        """Size of the activations."""
        return self.outputs * _BYTES / 1e6

    @property
    def learning_mb(self) -> float:
        """Size of the activations and their gradients."""
        return 2 * self.judging_mb


@cache
def printed_cost(model: str) -> dict[str, float] | None:
    """Return the paper's figures for one of its models, or None.

    Examples
    --------
    >>> printed_cost("USAD")["multiply_adds"], printed_cost("mine")
    (880110.0, None)
    """
    text = files("newnormal.experiments").joinpath("data", "cost.csv").read_text("utf-8")
    for row in csv.DictReader(io.StringIO(text)):
        if row.pop("model") == model:
            return {name: float(cell) for name, cell in row.items()}
    return None


def cost_of(name: str, trials: int = _TRIALS) -> Cost:
    """Measure one model by name or import path.

    Examples
    --------
    >>> measured = cost_of("mlp", trials=3)
    >>> measured.linear, round(measured.parameters_mb, 2)
    (586740, 2.35)
    """
    kind = admit(name)
    if kind is MLP:
        return _measured(name, MLP(WINDOW, CHANNELS, LATENT), trials)
    # By name, so that nothing here depends on PyTorch where it is not installed.
    counting = import_module("newnormal.models.deep.counting")
    if not issubclass(kind, import_module("newnormal.models.deep.base").DeepModel):
        raise ParameterError(
            f"expected a model whose operations can be counted, found {name!r}",
            hint="the compiled MLP and the PyTorch models, subclasses of DeepModel, are",
        )
    with counting.one_thread():
        return _measured(name, kind(WINDOW, CHANNELS, LATENT), trials, counting)


def _measured(name: str, model: Model, trials: int, counting: Any = None) -> Cost:
    history = np.random.default_rng(0).normal(size=(20 * WINDOW, CHANNELS))
    scaler = model.scaler(history)
    weights, _ = model.fit(scaler.apply(history), Training(WINDOW, 1, 64, 0))
    held = Rules(scaler.mean, scaler.scale, weights, WINDOW, math.inf, 0.99, np.float32(0))
    window = _timed(_window(model, held, history), trials)
    learning = _timed(_window(model, held._replace(lr=np.float32(1e-4)), history), trials)
    if isinstance(model, MLP):
        forward, counted = window, _counted_mlp(model)
    else:
        found = counting.count(model)
        forward = _timed(counting.judging(model), trials)
        counted = (found.linear, found.forward, found.adapting, found.outputs // _BYTES)
    return Cost(
        Entrant.of(name).name,
        name,
        *forward,
        *window,
        *learning,
        *counted[:3],
        model.parameters,
        counted[3],
    )


@dataclass(frozen=True, eq=False)
class Costs:
    """What was measured, and why a model could not be."""

    measured: list[Cost]
    failed: dict[str, str]
    command: str

    def write(self, folder: str | PathLike[str]) -> tuple[Path, ...]:
        """Write ``cost.md`` and ``cost.csv`` into a folder, and return their paths."""
        texts = {"cost.md": _page(self), "cost.csv": _csv(self.measured, self.failed)}
        return write_texts(Path(folder), texts)


def cost(models: Sequence[str] | None = None, *, progress: Progress | None = None) -> Costs:
    """Measure each model.

    Parameters
    ----------
    models
        Names or import paths; None: the paper's, the MLP compiled and in PyTorch.
    progress
        Called with how many are done, how many there are, and which came last.
    """
    chosen = list(models) if models else ["mlp", "torch-mlp", *PAPER_MODELS[1:]]
    again = command("cost", models=models).replace(" --data DIR", "")
    costs = Costs([], {}, again)
    for done, name in enumerate(chosen, start=1):
        try:
            costs.measured.append(cost_of(name))
        except Exception as error:  # noqa: BLE001 - a row that says so, never a number
            costs.failed[name] = f"failed: {type(error).__name__}: {error}"
        if progress is not None:
            progress(done, len(chosen), name)
    return costs


def _counted_mlp(model: MLP) -> tuple[int, int, int, int]:
    """Return what `counting.count` would: forward once, two products a layer backward.

    The first layer needs no gradient of its input.
    """
    products = (model.widths[:-1] * model.widths[1:]).tolist()
    forward = sum(products)
    return forward, forward, 3 * forward - products[0], int(model.widths[1:].sum())


def _window(model: Model, rules: Rules, history: Floats) -> Callable[[], None]:
    """Return a call that hands the model one more window."""
    stream = model.fresh(rules.fitted)
    sheet = live.blank_sheet(WINDOW, CHANNELS)
    samples = history[:WINDOW]

    def advance() -> None:
        model.advance(samples, False, stream, rules, sheet)

    return advance


def _timed(call: Callable[[], None], trials: int) -> tuple[float, float]:
    """Return the median time in milliseconds, and how far apart the quartiles are."""
    for _ in range(3):
        call()
    times = []
    for _ in range(trials):
        began = time.perf_counter()
        call()
        times.append((time.perf_counter() - began) * 1e3)
    lower, _, upper = quantiles(times, n=4)
    return median(times), upper - lower


def _page(costs: Costs) -> str:
    measured, failed = costs.measured, costs.failed
    machine = f"{_processor()} ({platform.system()})"
    parts = [
        _INTRODUCTION.format(
            command=costs.command,
            window=WINDOW,
            channels=CHANNELS,
            latent=LATENT,
        ),
        _TIMES.format(trials=_TRIALS, machine=machine),
        page.table(
            ("model", "forward", "paper", "window", "learning", "learning / window"),
            [_times(each) for each in measured],
        ),
        _WORK,
        page.table(
            ("model", "linear layers", "paper", "difference", "all products", "with learning"),
            [_work(each) for each in measured],
        ),
        _MEMORY,
        page.table(
            (
                "model",
                "parameters",
                "MB",
                "paper",
                "difference",
                "activations, judging",
                "learning",
                "paper",
                "difference",
            ),
            [_memory(each) for each in measured],
        ),
    ]
    if any(each.model == "thoc" for each in measured):
        parts.append(_THOC)
    if failed:
        parts += ["## Not run\n", page.table(("model", "why"), failed.items())]
    return "\n".join(parts)


def _times(each: Cost) -> list[str]:
    theirs = _printed(each)
    paper = "-" if theirs is None else f"{theirs['time_ms']:.3f} ± {theirs['time_ms_std']:.3f}"
    return [
        each.name,
        _span(each.forward_ms, each.forward_spread),
        paper,
        _span(each.window_ms, each.window_spread),
        _span(each.learning_ms, each.learning_spread),
        f"{each.learning_ms / each.window_ms:.1f}",
    ]


def _span(middle: float, spread: float) -> str:
    return f"{middle:.3f} (± {spread / 2:.3f})"


def _work(each: Cost) -> list[str]:
    theirs = _printed(each)
    paper = ["-", ""]
    if theirs is not None:
        paper = [
            f"{theirs['multiply_adds']:,.0f}",
            f"{each.linear - theirs['multiply_adds']:+,.0f}",
        ]
    return [each.name, f"{each.linear:,}", *paper, f"{each.forward:,}", f"{each.learning:,}"]


def _memory(each: Cost) -> list[str]:
    theirs = _printed(each)
    size, room = ["-", ""], ["-", ""]
    if theirs is not None:
        size = [
            f"{theirs['parameters_mb']:.2f}",
            f"{each.parameters_mb - theirs['parameters_mb']:+.2f}",
        ]
        room = [
            f"{theirs['activations_mb']:.2f}",
            f"{each.learning_mb - theirs['activations_mb']:+.3f}",
        ]
    return [
        each.name,
        f"{each.parameters:,}",
        f"{each.parameters_mb:.2f}",
        *size,
        f"{each.judging_mb:.3f}",
        f"{each.learning_mb:.3f}",
        *room,
    ]


def _printed(each: Cost) -> dict[str, float] | None:
    known = title(each.model)
    return None if known is None else printed_cost(known)


def _csv(measured: Sequence[Cost], failed: dict[str, str]) -> str:
    text = io.StringIO()
    names = [field.name for field in fields(Cost)]
    table = csv.DictWriter(text, ["status", *names, "note"], lineterminator="\n")
    table.writeheader()
    for each in measured:
        cells = {
            name: f"{value:.6g}" if isinstance(value, float) else value
            for name, value in asdict(each).items()
        }
        table.writerow({"status": "ok", **cells})
    for name, why in failed.items():
        table.writerow({"status": "failed", "model": name, "note": why})
    return text.getvalue()


def _processor() -> str:
    """Return what the machine calls its processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, "") or platform.processor() or platform.machine()
