"""`newnormal fit`: history in, a detector out."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Optional

import typer

from newnormal.cli.bars import fit_progress
from newnormal.cli.compiling import compile_first
from newnormal.cli.console import announce_compiling, say
from newnormal.cli.fleet_fit import check_folder, fit_fleet
from newnormal.cli.options import importable, samples_or_time
from newnormal.cli.reading import read_streams, read_table
from newnormal.cli.reading_options import InputOptions, reads_input
from newnormal.errors import ParameterError
from newnormal.texts import counted

_LITTLE_LEARNED = 0.9  # standardised channels have a variance of 1: the loss of a constant guess
_PAPER = "Options of --method m2n2"


class Method(StrEnum):
    """The two detectors."""

    detector = "detector"
    m2n2 = "m2n2"


@reads_input
def fit(
    history: Annotated[
        str,
        typer.Argument(
            metavar="HISTORY",
            help="CSV, JSON lines, Excel, ...; - is stdin. A folder has a file for each stream.",
        ),
    ],
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", metavar="MODEL", help="Where the detector goes; a fleet is a folder."
        ),
    ],
    method: Annotated[
        Method,
        typer.Option(
            help="detector chooses its settings from history; m2n2 is the paper's method."
        ),
    ] = Method.detector,
    alarms_per_day: Annotated[
        Optional[float],  # noqa: UP045
        typer.Option(
            help="The most false alarms a day that normal operation may cost.",
            show_default="1; m2n2: none",
        ),
    ] = None,
    risk: Annotated[
        Optional[float],  # noqa: UP045
        typer.Option(help="Instead: the highest chance of a false alarm at any one sample."),
    ] = None,
    threshold: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            metavar="QUANTILE",
            help="Instead: the quantile of history's scores that is anomalous, or a rule of your "
            "own, package.module:Class.",
            show_default="none; m2n2: 0.99",
        ),
    ] = None,
    fixed_threshold: Annotated[
        Optional[float],  # noqa: UP045
        typer.Option(help="Instead: the score that is anomalous."),
    ] = None,
    accept_after: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            metavar="TIME",
            help="A change that lasts this long may become normal: samples, 1d, or never.",
            show_default="1d, or 1440 samples",
        ),
    ] = None,
    epochs: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(help="Passes over history in training.", show_default="chosen; m2n2: 10"),
    ] = None,
    batch: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(help="Windows in a training step.", show_default="64"),
    ] = None,
    period: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help="Time between samples, such as 30s.", show_default="from the times"),
    ] = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same detector.")] = 0,
    window: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(help="Samples judged together.", show_default="12", rich_help_panel=_PAPER),
    ] = None,
    stride: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(
            help="Samples a verdict waits for; divides the window.",
            show_default="window",
            rich_help_panel=_PAPER,
        ),
    ] = None,
    fit_stride: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(
            help="Step between training windows.", show_default="window", rich_help_panel=_PAPER
        ),
    ] = None,
    latent: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(help="Width of the bottleneck.", show_default="16", rich_help_panel=_PAPER),
    ] = None,
    decay: Annotated[
        Optional[float],  # noqa: UP045
        typer.Option(
            help="Share of the trend that a window keeps.",
            show_default="0.99",
            rich_help_panel=_PAPER,
        ),
    ] = None,
    half_life: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            help="The same as a half-life, in samples (500) or time (6h).", rich_help_panel=_PAPER
        ),
    ] = None,
    lr: Annotated[
        Optional[float],  # noqa: UP045
        typer.Option(
            help="Size of the learning step.", show_default="0.001", rich_help_panel=_PAPER
        ),
    ] = None,
    detrend: Annotated[
        Optional[bool],  # noqa: UP045
        typer.Option(
            "--detrend/--no-detrend",
            help="Track the trend and subtract it.",
            show_default="detrend",
            rich_help_panel=_PAPER,
        ),
    ] = None,
    adapt: Annotated[
        Optional[bool],  # noqa: UP045
        typer.Option(
            "--adapt/--no-adapt",
            help="Keep learning.",
            show_default="adapt",
            rich_help_panel=_PAPER,
        ),
    ] = None,
    model: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            help="The model: a name, or package.module:Class.",
            show_default="mlp",
            rich_help_panel=_PAPER,
        ),
    ] = None,
    fleet_alarms_per_day: Annotated[
        Optional[float],  # noqa: UP045
        typer.Option(
            help="The most false alarms a day of all streams together.",
            rich_help_panel="Many streams",
        ),
    ] = None,
    workers: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(
            min=1,
            help="Processes that fit.",
            show_default="as many as processors",
            rich_help_panel="Many streams",
        ),
    ] = None,
    *,
    options: InputOptions,
) -> None:
    """Learn what normal is from history, and write the detector to a file.

    newnormal fit history.csv -o plant.nn --alarms-per-day 1

    newnormal fit history.csv -o plant.nn --method m2n2 --window 12

    newnormal fit metrics.csv --by host -o plant.fleet
    """
    from newnormal import state as state_file
    from newnormal.checks import check_table
    from newnormal.detector import M2N2, Detector
    from newnormal.thresholds import Fixed

    streams = options.streams
    many = bool(streams.by) or (history != "-" and Path(history).is_dir())
    if many:
        check_folder(output)
    else:
        _check_many(fleet_alarms_per_day=fleet_alarms_per_day, workers=workers)
        state_file.check_target(output, [history])
    settings = _given(
        window=window,
        stride=stride,
        fit_stride=fit_stride,
        latent=latent,
        decay=decay,
        half_life=samples_or_time(half_life),
        lr=lr,
        detrend=detrend,
        adapt=adapt,
        model=None if model is None else importable(model),
    )
    if method is Method.detector and settings:
        _refuse(*next(iter(settings.items())))
    _check_one(
        threshold=threshold,
        fixed_threshold=fixed_threshold,
        alarms_per_day=alarms_per_day,
        risk=risk,
        **({"fleet_alarms_per_day": fleet_alarms_per_day} if many else {}),
    )
    _check_savable(settings.get("model", "mlp"))
    if method is Method.detector:
        compile_first("fit")
    else:
        announce_compiling()
    kind: Any = M2N2 if method is Method.m2n2 else Detector
    detector = kind(
        **settings,
        **_given(epochs=epochs, batch=batch),
        threshold=_rule(threshold) if fixed_threshold is None else Fixed(fixed_threshold),
        alarms_per_day=alarms_per_day,
        risk=risk,
        period=period,
        seed=seed,
        accept_after=samples_or_time(accept_after),
    )
    if many:
        tables = read_streams(history, options)
        fit_fleet(detector, tables, output, fleet_alarms_per_day, workers)
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
    if method is Method.detector:
        say(f"{detector.explain()}\n")
    elif loss is not None and loss > _LITTLE_LEARNED:
        say(
            f"the model learned little more than the mean (loss {loss:.3g} of 1): "
            "try --fit-stride 1, more --epochs or a smaller --batch, or no --method at all"
        )
    say(
        f"wrote {output}: threshold {detector.alarm_threshold_:.6g}"
        f"{'' if loss is None else f', loss {loss:.4g}'}\n"
        f"next: newnormal watch {output} LIVE.csv"
    )


def _given(**options: Any) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _spelled(name: str) -> str:
    return "--" + name.replace("_", "-")


def _refuse(name: str, value: object) -> None:
    """Raise a ParameterError for an option of the paper's method without that method."""
    option = f"--no-{name}" if value is False else _spelled(name)
    raise ParameterError(
        f"{option}: expected only with --method m2n2, found --method detector",
        hint=f"add --method m2n2, or leave {option} out: the detector chooses it from history",
    )


def _check_many(**options: object) -> None:
    """Raise a ParameterError for an option of many streams where there is one."""
    for name in _given(**options):
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
    try:
        return None if text is None else float(text)
    except ValueError:
        return importable(text or "")


def _check_one(**options: object) -> None:
    """Raise a ParameterError if the anomalous score is set in two ways."""
    spelled = [_spelled(name) for name in _given(**options)]
    if len(spelled) > 1:
        every = ", ".join(map(_spelled, options))
        raise ParameterError(
            f"expected one of {every}, found {' and '.join(spelled)}",
            hint="a threshold stays where it is put; a limit on alarms moves it",
        )
