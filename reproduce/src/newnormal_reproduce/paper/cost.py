"""The cost of each model: table:Appendix:CC, with and without adaptation.

One window at the paper's size: 12 samples of 55 channels, latent width 128, batch 1.
"""

import math
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from importlib import import_module
from os import PathLike
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import numpy as np

from newnormal import M2N2, Fixed
from newnormal.errors import ParameterError
from newnormal.models import find
from newnormal_reproduce.engine.competitors import PAPER_MODELS, Competitor
from newnormal_reproduce.engine.files import csv_text, write_texts
from newnormal_reproduce.engine.plan import command
from newnormal_reproduce.engine.published import DEFAULT, printed_values, title
from newnormal_reproduce.engine.sweep import Progress
from newnormal_reproduce.report import pages

WINDOW, CHANNELS, LATENT = 12, 55, 128
_TRIALS = 100
_BYTES = 4  # float32

_TEXT = pages.texts("cost")


@dataclass(frozen=True)
class Cost:
    """The cost of one model for one window: median times, and the distance of their quartiles."""

    name: str
    model: str
    forward_ms: float  # of the network
    forward_spread: float
    window_ms: float  # of the detector
    window_spread: float
    learning_ms: float  # of the detector with a learning step
    learning_spread: float
    linear: int  # multiply-adds of linear layers
    forward: int  # of all products
    learning: int  # with the learning step
    parameters: int
    outputs: int  # numbers in the outputs of layers with parameters

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


def printed_cost(model: str) -> dict[str, float] | None:
    """Return the paper's figures for one of its models, or None.

    >>> printed_cost("USAD")["multiply_adds"], printed_cost("mine")
    (880110.0, None)
    """
    return printed_values("cost", "model", model)


def cost_of(name: str, trials: int = _TRIALS) -> Cost:
    """Measure one model by name or import path.

    >>> measured = cost_of("mlp", trials=3)
    >>> measured.linear, round(measured.parameters_mb, 2)
    (586740, 2.35)
    """
    kind = None if name == DEFAULT else find(name)
    if kind is not None and kind is find("mlp"):
        counted = _count_mlp(kind(WINDOW, CHANNELS, LATENT))
        window, learning = (_window_time(name, trials, adapt, 100) for adapt in (False, True))
        return _cost(name, window, window, learning, counted)
    # By name, so that nothing here depends on PyTorch if it is not installed.
    counting = import_module("newnormal_reproduce.engine.counting")
    base = import_module("newnormal.models.deep.base").DeepModel
    if kind is None or not issubclass(kind, base):
        raise ParameterError(
            f"expected a model whose operations can be counted, found {name!r}",
            hint="the compiled MLP and the PyTorch models, subclasses of DeepModel, are",
        )
    with counting.one_thread():
        model: Any = kind(WINDOW, CHANNELS, LATENT)
        linear, products, learned, output_bytes = counting.count(model)
        counted = (linear, products, learned, model.parameters, output_bytes // _BYTES)
        forward = _timed(counting.judging(model), trials)
        window, learning = (_window_time(name, trials, adapt, 1) for adapt in (False, True))
    return _cost(name, forward, window, learning, counted)


def _cost(
    name: str,
    forward: tuple[float, float],
    window: tuple[float, float],
    learning: tuple[float, float],
    counted: tuple[int, int, int, int, int],
) -> Cost:
    return Cost(Competitor.of(name).name, name, *forward, *window, *learning, *counted)


@dataclass(frozen=True, eq=False)
class Costs:
    """The costs that were measured, and why others were not."""

    measured: list[Cost]
    failed: dict[str, str]
    command: str

    def write(self, folder: str | PathLike[str]) -> tuple[Path, ...]:
        """Write ``cost.md`` and ``cost.csv`` into a folder, and return their paths."""
        texts = {"cost.md": _page(self), "cost.csv": _csv(self.measured, self.failed)}
        return write_texts(Path(folder), texts)


def cost(models: Sequence[str] | None = None, *, progress: Progress | None = None) -> Costs:
    """Measure each model.

    `models`: names or import paths; None: the paper's, the MLP compiled and in PyTorch. `progress`:
    called with how many are done, how many there are, and which was done last.
    """
    chosen = list(models) if models else ["mlp", "torch-mlp", *PAPER_MODELS[1:]]
    costs = Costs([], {}, command("cost", models=models).replace(" --data DIR", ""))
    for done, name in enumerate(chosen, start=1):
        try:
            costs.measured.append(cost_of(name))
        except Exception as error:  # noqa: BLE001 - a line that states the error, never a number
            costs.failed[name] = f"failed: {type(error).__name__}: {error}"
        if progress is not None:
            progress(done, len(chosen), name)
    return costs


def _count_mlp(model: Any) -> tuple[int, int, int, int, int]:
    """Count as `counting.count` does: forward once, two products a layer backward.

    The first layer needs no gradient of its input.
    """
    products = (model.widths[:-1] * model.widths[1:]).tolist()
    forward, outputs = sum(products), int(model.widths[1:].sum())
    return forward, forward, 3 * forward - products[0], model.parameters, outputs


def _window_time(name: str, trials: int, adapt: bool, windows: int) -> tuple[float, float]:
    """Return the time of `M2N2.run` a window, over so many windows in one call."""
    history = np.random.default_rng(0).normal(size=(20 * WINDOW, CHANNELS))
    detector = M2N2(
        window=WINDOW,
        latent=LATENT,
        decay=0.99,
        lr=1e-4,
        adapt=adapt,
        model=name,
        threshold=Fixed(math.inf),  # learns from every window
        epochs=1,
    ).fit(history)
    samples = np.tile(history[:WINDOW], (windows, 1))
    middle, spread = _timed(lambda: detector.run(samples, flush=False), trials)
    return middle / windows, spread / windows


def _timed(call: Callable[[], object], trials: int) -> tuple[float, float]:
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
    measured = costs.measured
    sizes = {"window": WINDOW, "channels": CHANNELS, "latent": LATENT}
    memory = ["model", "parameters", "MB", "paper", "difference", "activations, judging"]
    parts = [
        _TEXT["introduction"].format(command=costs.command, **sizes),
        _TEXT["times"].format(trials=_TRIALS, machine=f"{_processor()} ({platform.system()})"),
        pages.table(
            ("model", "forward", "paper", "window", "learning", "learning / window"),
            map(_times, measured),
        ),
        _TEXT["work"],
        pages.table(
            ("model", "linear layers", "paper", "difference", "all products", "with learning"),
            map(_work, measured),
        ),
        _TEXT["memory"],
        pages.table((*memory, "learning", "paper", "difference"), map(_memory, measured)),
    ]
    if any(cost.model == "thoc" for cost in measured):
        parts.append(_TEXT["thoc"])
    if costs.failed:
        parts += ["## Not run\n", pages.table(("model", "why"), costs.failed.items())]
    return "\n".join(parts)


def _times(cost: Cost) -> list[str]:
    paper = _printed(cost)
    printed = f"{paper['time_ms']:.3f} ± {paper['time_ms_std']:.3f}" if paper else "-"
    forward, window, learning = (
        f"{getattr(cost, f'{part}_ms'):.3f} (± {getattr(cost, f'{part}_spread') / 2:.3f})"
        for part in ("forward", "window", "learning")
    )
    ratio = f"{cost.learning_ms / cost.window_ms:.1f}"
    return [cost.name, forward, printed, window, learning, ratio]


def _work(cost: Cost) -> list[str]:
    paper = _beside(cost, "multiply_adds", cost.linear, ",.0f", "+,.0f")
    return [cost.name, f"{cost.linear:,}", *paper, f"{cost.forward:,}", f"{cost.learning:,}"]


def _memory(cost: Cost) -> list[str]:
    return [
        cost.name,
        f"{cost.parameters:,}",
        f"{cost.parameters_mb:.2f}",
        *_beside(cost, "parameters_mb", cost.parameters_mb, ".2f", "+.2f"),
        f"{cost.judging_mb:.3f}",
        f"{cost.learning_mb:.3f}",
        *_beside(cost, "activations_mb", cost.learning_mb, ".2f", "+.3f"),
    ]


def _beside(cost: Cost, name: str, ours: float, form: str, signed: str) -> list[str]:
    """Return the paper's figure and the difference of ours."""
    if (paper := _printed(cost)) is None:
        return ["-", ""]
    return [format(paper[name], form), format(ours - paper[name], signed)]


def _printed(cost: Cost) -> dict[str, float] | None:
    name = title(cost.model)
    return None if name is None else printed_cost(name)


def _csv(measured: Sequence[Cost], failed: dict[str, str]) -> str:
    columns = ["status", *(field.name for field in fields(Cost)), "note"]
    done = [{"status": "ok", **asdict(cost)} for cost in measured]
    missing = [{"status": "failed", "model": name, "note": why} for name, why in failed.items()]
    return csv_text(columns, [*done, *missing])


def _processor() -> str:
    """Return the name of the processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, "") or platform.processor() or platform.machine()
