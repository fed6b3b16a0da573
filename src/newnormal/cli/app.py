"""The commands. Each imports what it needs when it runs, so that `--help` answers at once."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from newnormal import __version__
from newnormal.cli.console import BAD_LINE, INTERRUPTED, announce_compiling, fail, listen, say
from newnormal.cli.options import (
    Act,
    Columns,
    Drop,
    FileFormat,
    Format,
    Frozen,
    Input,
    Lines,
    Model,
    Time,
    names,
)
from newnormal.cli.reproduce import reproduce_app
from newnormal.errors import InputError, NewnormalError, ParameterError, StateError

if TYPE_CHECKING:
    from newnormal.alarms import Alarm
    from newnormal.detector import BaseDetector
    from newnormal.tabular import Table

__all__ = ["app", "run"]

_EPILOG = """Start here:

newnormal demo

newnormal fit history.csv -o plant.nn

tail -f live.csv | newnormal watch plant.nn - --alarms-only

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 a bad line with --strict, 130 interrupted.
"""

_CHOSEN = "chosen, or "
_LITTLE_LEARNED = 0.9  # standardised channels have a variance of 1: the loss of a constant guess

app = typer.Typer(
    name="newnormal",
    help="Detect anomalies in live metrics, and keep learning what normal is.",
    epilog=_EPILOG,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
data_app = typer.Typer(
    help="Benchmark data: what there is, and where to get it.", no_args_is_help=True
)
app.add_typer(data_app, name="data")
app.add_typer(reproduce_app, name="reproduce")


def run() -> None:
    """Run the command line, and turn errors into a line on standard error and an exit code."""
    listen()
    if isinstance(sys.stdout, TextIOWrapper):  # verdicts are JSON, whatever the terminal's encoding
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    try:
        app()
    except NewnormalError as error:
        fail(error)
    except KeyboardInterrupt:
        say("interrupted")
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        # Whoever read our output has gone. Python would complain again when it flushes at exit.
        sys.stdout = None
        sys.exit(1)


def _version(show: bool) -> None:
    if show:
        typer.echo(f"newnormal {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say the version.")
    ] = False,
) -> None:
    pass


@app.command()
def fit(
    history: Annotated[
        str, typer.Argument(metavar="HISTORY", help="CSV, JSON lines or Parquet; - is stdin.")
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="MODEL", help="Where the detector goes.")
    ],
    window: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(help="Samples judged together.", show_default=_CHOSEN + "12"),
    ] = None,
    stride: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(
            help="Samples a verdict waits for; divides the window.",
            show_default=_CHOSEN + "window",
        ),
    ] = None,
    fit_stride: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(help="Step between training windows.", show_default=_CHOSEN + "window"),
    ] = None,
    latent: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(help="Width of the bottleneck.", show_default=_CHOSEN + "16"),
    ] = None,
    decay: Annotated[
        Optional[float],  # noqa: UP045
        typer.Option(help="Share of the trend a window keeps.", show_default=_CHOSEN + "0.99"),
    ] = None,
    half_life: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help="The same as a half-life, in samples (500) or time (6h)."),
    ] = None,
    lr: Annotated[
        Optional[float],  # noqa: UP045
        typer.Option(help="Size of the learning step.", show_default=_CHOSEN + "0.001"),
    ] = None,
    threshold: Annotated[
        Optional[float],  # noqa: UP045
        typer.Option(help="Quantile of history's scores from which on a sample is anomalous."),
    ] = None,
    alarms_per_day: Annotated[
        Optional[float],  # noqa: UP045
        typer.Option(help="Instead: how many alarms a day normal operation may raise."),
    ] = None,
    risk: Annotated[
        Optional[float],  # noqa: UP045
        typer.Option(help="Instead: the chance that an alarm opens at any one sample."),
    ] = None,
    fixed_threshold: Annotated[
        Optional[float],  # noqa: UP045
        typer.Option(help="That score itself, instead of a quantile."),
    ] = None,
    detrend: Annotated[
        Optional[bool],  # noqa: UP045
        typer.Option(
            "--detrend/--no-detrend",
            help="Follow and subtract the trend.",
            show_default=_CHOSEN + "detrend",
        ),
    ] = None,
    adapt: Annotated[
        Optional[bool],  # noqa: UP045
        typer.Option("--adapt/--no-adapt", help="Keep learning.", show_default=_CHOSEN + "adapt"),
    ] = None,
    model: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help="The model.", show_default=_CHOSEN + "mlp"),
    ] = None,
    epochs: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(help="How often training sees the history.", show_default=_CHOSEN + "10"),
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
    accept_after: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            metavar="TIME",
            help="What lasts this long may become normal: samples, a time (1d), or never.",
            show_default="1d, or 1440 samples",
        ),
    ] = None,
    time: Time = None,
    columns: Columns = None,
    drop: Drop = None,
    format: Format = None,  # noqa: A002
) -> None:
    """Learn what normal is from history, and write the detector to a file.

    newnormal fit history.csv -o plant.nn

    Given none of window, stride, fit-stride, latent, decay, half-life, lr, detrend, adapt and
    model, the detector chooses for itself; given any, it is the paper's, with the defaults shown
    for the rest.
    """
    from newnormal import state as state_file
    from newnormal.detector import M2N2, Detector
    from newnormal.thresholds import Fixed

    state_file.check_target(output)
    announce_compiling()
    options = {
        "window": window,
        "stride": stride,
        "fit_stride": fit_stride,
        "latent": latent,
        "decay": decay,
        "half_life": _samples_or_time(half_life),
        "lr": lr,
        "detrend": detrend,
        "adapt": adapt,
        "model": model,
    }
    given = {name: value for name, value in options.items() if value is not None}
    training = {
        name: value for name, value in (("epochs", epochs), ("batch", batch)) if value is not None
    }
    kind: Any = M2N2 if given else Detector
    detector = kind(
        **given,
        **training,
        threshold=threshold if fixed_threshold is None else Fixed(fixed_threshold),
        alarms_per_day=alarms_per_day,
        risk=risk,
        period=period,
        seed=seed,
        accept_after=_samples_or_time(accept_after),
    )
    table = _read(history, time, columns, drop, format)
    say(f"fitting on {len(table.values):,} samples of {table.values.shape[1]} channels ...")
    if table.times is None and period is None and alarms_per_day is not None:
        say("there are no times: a day is taken to have 1,440 samples; --period says otherwise")
    detector.fit(table)
    detector.save(output)
    loss = min(detector.losses_)
    if not given:
        say(f"{detector.explain()}\n")
    elif loss > _LITTLE_LEARNED:
        say(
            f"the model learned little more than the mean (loss {loss:.3g} of 1): "
            "try --fit-stride 1, more --epochs or a smaller --batch, or no options at all"
        )
    say(
        f"wrote {output}: threshold {detector.threshold_:.6g}, loss {loss:.4g}\n"
        f"next: newnormal watch {output} LIVE.csv"
    )


@app.command()
def watch(
    model: Model,
    input: Lines,  # noqa: A002
    state: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(
            metavar="FILE",
            help="Keep what was learned here, and resume from it; may be MODEL itself.",
        ),
    ] = None,
    every: Annotated[
        int, typer.Option(min=1, metavar="N", help="Write the state every N samples.")
    ] = 1000,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Keep reading a growing file.")] = (
        False
    ),
    alarms_only: Annotated[
        bool,
        typer.Option("--alarms-only", help="Print alarms as events: opened, updated, closed."),
    ] = False,
    flush: Annotated[
        bool, typer.Option("--flush", help="Judge the tail too when the input ends.")
    ] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Stop at a bad line.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say only what is wrong.")] = False,
    time: Time = None,
    columns: Columns = None,
    drop: Drop = None,
    format: Format = None,  # noqa: A002
) -> None:
    """Judge an input line by line as it comes: JSON lines out, one per verdict.

    tail -f live.csv | newnormal watch plant.nn - --state plant.state --alarms-only
    """
    from newnormal.cli.watch import BadLineError, FileSource, PipeSource, Watch, resume
    from newnormal.tabular import format_of

    announce_compiling()
    if format_of(input, _format(format)) == "parquet":
        raise InputError(
            f"{input}: expected lines of CSV or JSON, found Parquet",
            hint=f"judge a finished file with `newnormal score {model} {input}`",
        )
    layout = {
        "format": format_of(input, _format(format)),
        "time": time,
        "columns": names(columns),
        "drop": names(drop) or (),
    }
    with (
        closing(PipeSource() if input == "-" else FileSource(Path(input), follow)) as source,
        _holding(state),
    ):
        detector, place = resume(model, state, source)
        watching = Watch(detector, source, place, layout, state, every, alarms_only, flush, strict)
        if not quiet:
            say(
                f"watching {source.name}: {len(detector.channels_)} channels, "
                f"threshold {detector.alarm_threshold_:.6g}"
            )
        try:
            watching.run()
        except BadLineError as error:
            fail(error, BAD_LINE)
    if not quiet:
        said = f"judged {watching.judged:,} samples, {watching.anomalous:,} anomalous"
        if alarms_only or watching.alarms:
            said += f", {watching.alarms:,} alarm{'' if watching.alarms == 1 else 's'}"
        said += f"; {watching.bad:,} bad lines skipped" if watching.bad else ""
        said += f"; {watching.skipped:,} judged before" if watching.skipped else ""
        pending = detector.counters["pending"]
        said += f"; {pending} wait for a full window" if pending else ""
        say(said)


@app.command()
def feedback(
    state: Annotated[
        Path,
        typer.Argument(metavar="STATE", help="What `watch --state` keeps, or a detector's file."),
    ],
    act: Annotated[Act, typer.Argument(metavar="ACT", help="accept, reject or rollback.")],
    alarm: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(metavar="NUMBER", help="Only if this is the open alarm.", min=1),
    ] = None,
) -> None:
    """Say what an alarm was: accept a new normal, reject a fault, or roll back an acceptance.

    A `watch` that runs with this state acts on it with its next samples.
    """
    from newnormal import state as state_file
    from newnormal.cli.feedback import Word, act_on, follow, hold, leave, take
    from newnormal.detector import from_state
    from newnormal.state import State

    if act is Act.rollback and alarm is not None:
        raise ParameterError(
            f"--alarm: expected none with rollback, found {alarm}",
            hint="rollback undoes the newest acceptance",
        )
    word = Word.of(act, alarm)
    with hold(state) as held:
        if not held:
            leave(state, word)
            say(f"{state} is in use by `newnormal watch`, which acts on this with its next samples")
            return
        found = state_file.read(state)
        detector = from_state(found, str(state))
        place = found.facts.get("place") or {}
        heard = list(place.get("feedback", ()))
        with take(state) as words:  # what was left for a watch that ended comes first
            follow(detector, words, heard)
            say(act_on(detector, word))
            data = detector.to_state()
            kept = {"place": {**place, "feedback": heard}} if place else {}
            state_file.write(state, State({**data.facts, **kept}, data.tensors))


@app.command()
def score(
    model: Model,
    input: Input,  # noqa: A002
    frozen: Frozen = False,
    time: Time = None,
    columns: Columns = None,
    drop: Drop = None,
    format: Format = None,  # noqa: A002
) -> None:
    """Judge a finished file: JSON lines out, one per sample. Nothing is written to MODEL."""
    detector, verdicts, _ = _judge(model, input, frozen, None, time, columns, drop, format)
    del detector
    for start in range(0, len(verdicts), 4096):
        lines = verdicts.json_lines(start, min(start + 4096, len(verdicts)))
        sys.stdout.writelines(line + "\n" for line in lines)
    sys.stdout.flush()
    say(f"judged {len(verdicts):,} samples, {int(verdicts.anomalous.sum()):,} anomalous")


@app.command()
def evaluate(
    model: Model,
    input: Input,  # noqa: A002
    label: Annotated[str, typer.Option(metavar="COLUMN", help="The column of 0/1 truth.")],
    frozen: Frozen = False,
    plot: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(metavar="FILE", help="Draw it: .png, .svg or .pdf."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    time: Time = None,
    columns: Columns = None,
    drop: Drop = None,
    format: Format = None,  # noqa: A002
) -> None:
    """Judge a labelled file and print every metric."""
    from newnormal import plots
    from newnormal.metrics import report

    if plot is not None:
        plots.check_target(plot)
    detector, verdicts, table = _judge(model, input, frozen, label, time, columns, drop, format)
    if table.labels is None:
        raise InputError(f"{input}: no labels")
    result = report(
        table.labels,
        verdicts.scores,
        detector.threshold_,
        period=detector.period_,
    )
    if as_json:
        typer.echo(json.dumps(result.as_dict(), indent=2))
    else:
        _print_facts(f"{input} judged by {model}", result.as_dict())
    if plot is not None:
        plots.save(plots.evaluation_figure(table, verdicts, table.labels), plot)
        say(f"wrote {plot}")


@app.command()
def inspect(
    model: Model,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Say what a detector is and what it has been through."""
    from newnormal import state as state_file
    from newnormal.cli.feedback import waiting
    from newnormal.config import duration_text
    from newnormal.detector import Detector, from_state
    from newnormal.types import time_text

    state = state_file.read(model)
    detector = from_state(state, str(model))
    period = None if detector.period_ is None else duration_text(detector.period_)
    last, alarm = detector.last_time_, detector.alarm_
    place = state.facts.get("place") or {}
    facts: dict[str, Any] = {
        "version": state.version,
        "channels": len(detector.channels_),
        "channel names": ", ".join(detector.channels_),
        **{name: value for name, value in detector.get_params().items() if value is not None},
        "window": detector.window_,
        "latent": detector.latent_,
        "decay": detector.decay_,
        "threshold": _threshold(detector),
        "alarms": str(detector.alarm_rate_),
        "status": detector.status_,
        "open alarm": None if alarm is None else _since(alarm),
        "feedback": "waits for `newnormal watch`" if waiting(model) else None,
        "distance from normal": f"{detector.distance_:.3g} of the limit"
        if not math.isnan(detector.distance_)
        else None,
        "period": period,
        "parameters": detector.parameters_,
        "training loss": min(detector.losses_),
        "samples seen": detector.counters["seen"],
        "samples pending": detector.counters["pending"],
        "learning steps": detector.counters["learned"],
        "times restored": detector.counters["restored"],
        "last time": None if last is None else time_text(last),
        "distance from fit": _distance(state.tensors),
        "input": place.get("path", place.get("kind")),
        "line": place.get("line"),
    }
    if as_json:
        facts["choice"] = state.facts["choice"]
        typer.echo(json.dumps(facts, indent=2, default=str))
    else:
        _print_facts(str(model), facts)
        if isinstance(detector, Detector):
            typer.echo(f"\n{detector.explain()}")


@app.command()
def demo(
    seed: Annotated[int, typer.Option(help="Another plant.")] = 0,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="Where the picture goes.")
    ] = Path("newnormal-demo.png"),
) -> None:
    """Show on a synthetic plant why adapting matters: one table, one picture."""
    from rich.console import Console

    from newnormal import plots
    from newnormal.experiments.ours.demo import picture, run_demo, table

    announce_compiling()
    plots.check_target(output)
    result = run_demo(seed=seed, say=say)
    Console().print(table(result))
    plots.save(picture(result), output)
    say(f"wrote {output}: open it to see why\nnext: newnormal fit HISTORY.csv -o plant.nn")


@data_app.command("list")
def data_list(
    root: Annotated[
        Optional[list[Path]],  # noqa: UP045
        typer.Option("--data", metavar="DIR", help="Look for data here; may be repeated."),
    ] = None,
) -> None:
    """List the data sets newnormal can load, and where to get them."""
    from rich.console import Console
    from rich.text import Text

    from newnormal.datasets import catalogue

    for folder in root or ():
        if not folder.is_dir():
            raise InputError(f"--data: expected a folder, found none at {folder}")
    console = Console(highlight=False, soft_wrap=True)
    for entry in catalogue():
        console.print(Text.assemble((entry.name, "bold cyan"), f"  {entry.title}"))
        console.print(f"    sampled   {entry.period}\n    licence   {entry.licence}", markup=False)
        console.print(f"    from      {entry.source}", markup=False)
        if root:
            found = [stream for folder in root for stream in entry.streams(folder)]
            shown = ", ".join(found[:8]) + (", ..." if len(found) > 8 else "")
            console.print(f"    found     {len(found)}{': ' if found else ''}{shown}", markup=False)
    if not root:
        say("next: newnormal data list --data DIR shows what of it is in a folder")


# ---------------------------------------------------------------------- shared


@contextmanager
def _holding(state: Path | None) -> Iterator[None]:
    """Hold the state file for as long as it is watched with."""
    from newnormal.cli.feedback import hold

    if state is None:
        yield
        return
    with hold(state) as held:
        if not held:
            raise StateError(
                f"{state} is in use by another `newnormal watch`",
                hint="give each its own --state",
            )
        yield


def _format(value: FileFormat | None) -> Any:
    return None if value is None else value.value


def _samples_or_time(value: str | None) -> float | str | None:
    """Return a number of samples if it is a plain number, else the duration's text."""
    try:
        return None if value is None else float(value)
    except ValueError:
        return value


def _read(
    source: str,
    time: str | None,
    columns: list[str] | None,
    drop: list[str] | None,
    format: FileFormat | None,  # noqa: A002
    label: str | None = None,
    channels: tuple[str, ...] | None = None,
) -> Table:
    from newnormal.tabular import read

    return read(
        source,
        format=_format(format),
        time=time,
        columns=names(columns),
        drop=names(drop) or (),
        label=label,
        channels=channels,
    )


def _judge(
    model: Path,
    source: str,
    frozen: bool,
    label: str | None,
    time: str | None,
    columns: list[str] | None,
    drop: list[str] | None,
    format: FileFormat | None,  # noqa: A002
) -> tuple[BaseDetector, Any, Table]:
    """Load a detector, read a file and judge it."""
    from newnormal.detector import load

    announce_compiling()
    detector = load(model)
    table = _read(source, time, columns, drop, format, label, detector.channels_)
    say(f"judging {len(table.values):,} samples ...")
    verdicts = detector.score(table) if frozen else detector.run(table)
    return detector, verdicts, table


def _threshold(detector: BaseDetector) -> str:
    """Return the threshold, and where it comes from."""
    if detector.alarms_per_day is not None or detector.risk is not None:
        return f"{detector.alarm_threshold_:.6g} now, held to the budget of alarms"
    if detector.threshold is None or isinstance(detector.threshold, float):
        quantile = 0.99 if detector.threshold is None else detector.threshold
        return f"{detector.threshold_:.6g} ({quantile!r} of history's scores)"
    return repr(detector.threshold)


def _since(alarm: Alarm) -> str:
    """Return an open alarm's number, and since when it is open."""
    from newnormal.types import time_text

    when = f"sample {alarm.start}" if alarm.start_time is None else time_text(alarm.start_time)
    return f"{alarm.number}, since {when}"


def _distance(tensors: Any) -> float:
    """Return how far the weights have moved since `fit`, relative to their size."""
    import numpy as np

    fitted = tensors["fitted"].astype(np.float64)
    return float(np.linalg.norm(tensors["weights"] - fitted) / np.linalg.norm(fitted))


def _print_facts(title: str, facts: dict[str, Any]) -> None:
    """Print names and values as a table on standard output."""
    from rich.console import Console
    from rich.table import Table as Grid

    grid = Grid(title=title, show_header=False, title_justify="left", box=None, pad_edge=False)
    grid.add_column(style="cyan", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in facts.items():
        if value is not None:
            shown = f"{value:.4g}" if isinstance(value, float) else str(value)
            grid.add_row(name.replace("_", " "), shown)
    Console().print(grid)
