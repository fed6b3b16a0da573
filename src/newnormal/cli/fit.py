"""`newnormal fit`: history in, a detector out."""

import sys
import warnings
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from newnormal.cli.bars import compile_first, fit_progress, stream_progress
from newnormal.cli.console import FAILED, announce_compiling, broken, say
from newnormal.cli.help import MORE
from newnormal.cli.options import (
    InputOptions,
    argument,
    importable,
    option,
    samples_or_time,
    stream_text,
    with_shared,
)
from newnormal.cli.reading import read_streams, read_table
from newnormal.errors import InputError, ParameterError
from newnormal.texts import counted, number_text

if TYPE_CHECKING:
    from newnormal.base import BaseDetector
    from newnormal.fleet import Fleet
    from newnormal.tabular import StreamTables

# Options of the paper's method, and those that set the anomalous score; the last is a fleet's.
_PAPER = (
    *("window", "stride", "fit_stride", "latent", "decay", "half_life", "lr", "detrend", "adapt"),
    "model",
)
_LIMITS = ("threshold", "fixed_threshold", "alarms_per_day", "risk", "fleet_alarms_per_day")
_LITTLE_LEARNED = 0.9  # standardised channels have a variance of 1: the loss of a constant guess
_more = partial(option, panel=f"{MORE}threshold and training")
_paper = partial(option, panel=f"{MORE}--method m2n2")
_fleet = partial(option, panel=f"{MORE}many streams")


@with_shared
def fit(
    history: str = argument(
        "CSV, JSON lines, Excel, ...; - is stdin. A folder has a file for each stream.",
        metavar="HISTORY",
        default=...,
    ),
    output: Path = option(
        "Where the detector goes; a fleet is a folder.",
        "--output",
        "-o",
        metavar="MODEL",
        default=...,
    ),
    method: Literal["detector", "m2n2"] = option(
        "detector chooses its settings from history; m2n2 is the paper's method.",
        default="detector",
    ),
    alarms_per_day: float | None = option(
        "The most false alarms a day that normal operation may cost.", shown="1; m2n2: none"
    ),
    risk: float | None = _more("Instead: the highest chance of a false alarm at any one sample."),
    threshold: str | None = _more(
        "Instead: the quantile of history's scores that is anomalous, or a rule of your "
        "own, package.module:Class.",
        metavar="QUANTILE",
        shown="none; m2n2: 0.99",
    ),
    fixed_threshold: float | None = _more("Instead: the score that is anomalous."),
    accept_after: str | None = option(
        "A change that lasts this long may become normal: samples, 1d, or never.",
        metavar="TIME",
        shown="1d, or 1440 samples",
    ),
    epochs: int | None = _more("Passes over history in training.", shown="chosen; m2n2: 10"),
    batch: int | None = _more("Windows in a training step.", shown="64"),
    period: str | None = _more("Time between samples, such as 30s.", shown="from the times"),
    seed: int = _more("The same seed gives the same detector.", default=0),
    units: list[str] | None = _more(
        "The unit of a channel, for words; once for each, or a row of units in the file.",
        metavar="CHANNEL=UNIT",
    ),
    window: int | None = _paper("Samples judged together.", shown="12"),
    stride: int | None = _paper("Samples a verdict waits for; divides the window.", shown="window"),
    fit_stride: int | None = _paper("Step between training windows.", shown="window"),
    latent: int | None = _paper("Width of the bottleneck.", shown="16"),
    decay: float | None = _paper("Share of the trend that a window keeps.", shown="0.99"),
    half_life: str | None = _paper("The same as a half-life, in samples (500) or time (6h)."),
    lr: float | None = _paper("Size of the learning step.", shown="0.001"),
    detrend: bool | None = _paper(
        "Track the trend and subtract it.", "--detrend/--no-detrend", shown="detrend"
    ),
    adapt: bool | None = _paper("Keep learning.", "--adapt/--no-adapt", shown="adapt"),
    model: str | None = _paper("The model: a name, or package.module:Class.", shown="mlp"),
    fleet_alarms_per_day: float | None = _fleet(
        "The most false alarms a day of all streams together."
    ),
    workers: int | None = _fleet("Processes that fit.", shown="as many as processors", min=1),
    *,
    options: InputOptions,
) -> None:
    """Learn what normal is from history, and write the detector to a file.

    newnormal fit history.csv -o plant.nn --alarms-per-day 1

    newnormal fit history.csv -o plant.nn --method m2n2 --window 12

    newnormal fit metrics.csv --by host -o plant.fleet
    """
    given = dict(locals())
    from newnormal import state as state_file
    from newnormal.checks import check_table
    from newnormal.detector import M2N2, Detector
    from newnormal.thresholds import Fixed

    streams = options.streams
    many = bool(streams.by) or (history != "-" and Path(history).is_dir())
    if many:
        from newnormal.fleet.folder.names import MANIFEST
        from newnormal.state.targets import check_folder_of

        check_folder_of(output, "a fleet", lambda folder: (folder / MANIFEST).exists())
    else:
        _check_many(given)
        state_file.check_target(output, [history])
    settings = _chosen(given, _PAPER)
    if "half_life" in settings:
        settings["half_life"] = samples_or_time(half_life)
    if model is not None:
        settings["model"] = importable(model)
    if method == "detector" and settings:
        _refuse(*next(iter(settings.items())))
    _check_one(given, _LIMITS if many else _LIMITS[:-1])
    _check_savable(settings.get("model", "mlp"))
    if method == "detector":
        compile_first("fit")
    else:
        announce_compiling()
    kind: Any = M2N2 if method == "m2n2" else Detector
    detector = kind(
        **settings,
        **_chosen(given, ("epochs", "batch", "alarms_per_day", "risk", "period")),
        threshold=_rule(threshold) if fixed_threshold is None else Fixed(fixed_threshold),
        seed=seed,
        units=dict(unit.rpartition("=")[::2] for unit in units) if units else None,
        accept_after=samples_or_time(accept_after),
    )
    if many:
        tables = read_streams(history, options)
        _fit_fleet(detector, tables, output, fleet_alarms_per_day, workers)
        return
    state_file.remove_stale(output)
    table = read_table(history, options)
    for line in check_table(table, name=history, detector=detector).lines():
        say(line)
    samples, channels = table.values.shape
    say(f"fitting on {counted(samples, 'sample')} of {counted(channels, 'channel')} ...")
    with fit_progress() as callbacks:
        detector.fit(table, **callbacks)
    detector.save(output)
    loss = min(detector.losses_, default=None)  # a model need not have any
    if method == "detector":
        say(broken(detector.explain(), sys.stderr) + "\n")
    elif loss is not None and loss > _LITTLE_LEARNED:
        say(
            f"the model learned little more than the mean (loss {number_text(loss)} of 1): "
            "try --fit-stride 1, more --epochs or a smaller --batch, or no --method at all"
        )
    say(
        f"wrote {output}: threshold {number_text(detector.alarm_threshold_)}"
        f"{'' if loss is None else f', loss {number_text(loss)}'}\n"
        f"next: newnormal watch {output} LIVE.csv"
    )


def _chosen(given: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    return {name: given[name] for name in names if given[name] is not None}


def _spelled(name: str) -> str:
    return "--" + name.replace("_", "-")


def _refuse(name: str, value: object) -> None:
    """Raise a ParameterError for an option of the paper's method without that method."""
    option = f"--no-{name}" if value is False else _spelled(name)
    raise ParameterError(
        f"{option}: expected only with --method m2n2, found --method detector",
        hint=f"add --method m2n2, or leave {option} out: the detector chooses it from history",
    )


def _check_many(given: dict[str, Any]) -> None:
    """Raise a ParameterError for an option of many streams where there is one."""
    for name in _chosen(given, ("fleet_alarms_per_day", "workers")):
        raise ParameterError(
            f"{_spelled(name)}: expected only with many streams, found one",
            hint="add --by COLUMN, or give a folder with a file for each stream",
        )


def _check_savable(model: str) -> None:
    """Raise a ParameterError if the detector could not be written: before it is trained."""
    from newnormal.models.registry import find

    if find(model).holds_objects:
        raise ParameterError(
            f"--model {model}: expected a model that can be saved, "
            "found one that holds objects of its own",
            hint=f"use it in Python: newnormal.M2N2(model={model!r}, adapt=False)",
        )


def _rule(text: str | None) -> float | str | None:
    """Return a quantile, or the import path of a rule."""
    rule = samples_or_time(text)
    return importable(rule) if isinstance(rule, str) else rule


def _check_one(given: dict[str, Any], names: Sequence[str]) -> None:
    """Raise a ParameterError if the anomalous score is set in two ways."""
    spelled = [_spelled(name) for name in _chosen(given, names)]
    if len(spelled) > 1:
        every = ", ".join(map(_spelled, names))
        raise ParameterError(
            f"expected one of {every}, found {' and '.join(spelled)}",
            hint="a threshold stays where it is put; a limit on alarms moves it",
        )


def _fit_fleet(
    detector: "BaseDetector",
    tables: "StreamTables",
    output: Path,
    fleet_alarms_per_day: float | None,
    workers: int | None,
) -> None:
    """Fit a fleet and write it; exit with a failure at the end if a stream could not be fitted."""
    from newnormal.checks import check_streams, summary_of
    from newnormal.fleet import Fleet

    count = len(tables.tables) + len(tables.errors)
    samples = sum(len(table.values) for table in tables.tables.values())
    for line in summary_of(check_streams(tables, detector=detector)).lines():
        say(line)
    say(f"fitting {count:,} streams on {samples:,} samples ...")
    fleet = Fleet(detector, fleet_alarms_per_day=fleet_alarms_per_day, workers=workers)
    with warnings.catch_warnings(), stream_progress() as on_progress:
        # Every stream that failed is named below.
        warnings.filterwarnings("ignore", message=r"\d+ of \d+ streams could not be fitted")
        try:
            fleet.fit(tables, on_progress=on_progress)
        except InputError:
            _report_failures(fleet)
            raise
    fleet.save(output)
    _report_failures(fleet)
    failed = len(fleet.failures_)
    say(
        f"wrote {output}: {len(fleet):,} of {count:,} streams"
        f"{f'; {failed:,} could not be fitted' if failed else ''}\n"
        f"next: newnormal watch {output} LIVE.csv"
    )
    if failed:
        sys.exit(FAILED)


def _report_failures(fleet: "Fleet") -> None:
    for name, error in fleet.failures_.items():
        say(f"error: {stream_text(name)}: {error.message}")
