"""`newnormal watch`: judge an input as it comes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from newnormal.cli.console import BAD_LINE, announce_compiling, fail, say
from newnormal.cli.options import (
    Classes,
    Columns,
    Drop,
    FileFormat,
    Format,
    Lines,
    Loading,
    Model,
    Rule,
    Time,
    format_name,
    importable,
    names,
)
from newnormal.cli.reading import summary
from newnormal.cli.streams import (
    By,
    LongLines,
    Streams,
    Tag,
    Value,
    check_one_stream,
    check_streams,
    is_fleet,
)
from newnormal.errors import InputError, NewnormalError, ParameterError, StateError

if TYPE_CHECKING:
    from newnormal.detector import BaseDetector
    from newnormal.io import Source, SourceOptions
    from newnormal.runtime.lock import Lock
    from newnormal.runtime.watch import Watch

__all__ = ["watch"]


def watch(
    model: Model,
    input: Lines,  # noqa: A002
    state: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(
            metavar="FILE",
            help="Save what was learned here, and resume from it; may be MODEL itself.",
        ),
    ] = None,
    every: Annotated[
        int,
        typer.Option(
            min=1, metavar="N", help="Write the state every N samples; of each stream, in a fleet."
        ),
    ] = 1000,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Keep reading a growing file.")] = (
        False
    ),
    alarms_only: Annotated[
        bool,
        typer.Option("--alarms-only", help="Print what happens to alarms and changes instead."),
    ] = False,
    flush: Annotated[
        bool,
        typer.Option(
            "--flush", help="The input is finished when it ends: judge its tail, close its alarms."
        ),
    ] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Stop at a bad line.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only problems.")] = False,
    source: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            metavar="CLASS",
            help="What reads INPUT: file, pipe, or package.module:Class.",
            show_default="file; pipe for -",
        ),
    ] = None,
    sink: Annotated[
        str,
        typer.Option(
            metavar="CLASS", help="What writes the output: jsonl, or package.module:Class."
        ),
    ] = "jsonl",
    output: Annotated[
        str,
        typer.Option(
            "--output", "-o", metavar="TARGET", help="A file to append to; - is standard output."
        ),
    ] = "-",
    by: By = None,
    long: LongLines = False,
    tag: Tag = None,
    value: Value = None,
    loading: Loading = None,
    rule: Rule = None,
    time: Time = None,
    columns: Columns = None,
    drop: Drop = None,
    format: Format = None,  # noqa: A002
) -> None:
    """Judge an input line by line as it comes: JSON lines out, one per verdict.

    tail -f live.csv | newnormal watch plant.nn - --state plant.state --alarms-only

    tail -f metrics.csv | newnormal watch plant.fleet - --by host --alarms-only

    A fleet keeps its state in its own folder.
    """
    from newnormal import state as state_file
    from newnormal.io import SinkOptions, SourceOptions, find_sink
    from newnormal.io.sources.arriving import ArrivingSource
    from newnormal.runtime.checkpoint import resume
    from newnormal.runtime.watch import BadRecordError, Watch
    from newnormal.tabular import Reading

    announce_compiling()
    streams = Streams.of(by, long, tag, value)
    lines = _format(model, input, format) if source in (None, "file", "pipe") else None
    many = is_fleet(model)

    def options(channels: tuple[str, ...]) -> SourceOptions:
        return SourceOptions(
            channels,
            Reading.of(
                format=lines or (None if format is FileFormat.parquet else format_name(format)),
                time=time,
                columns=names(columns),
                drop=names(drop),
            ),
            follow=follow,
            strict=strict,
            unfinished=input != "-" and (many or state is not None) and not flush,
            report=say,
        )

    if many:
        from newnormal.cli.fleet_watch import FleetOutput, check_fleet_options, watch_fleet
        from newnormal.io.sources.streams import StreamOptions

        check_streams(model, streams, input)
        check_fleet_options(model, state=state, source=source, sink=sink)
        watch_fleet(
            model,
            input,
            StreamOptions(streams.by, streams.long, options(())),
            FleetOutput(output, SinkOptions(alarms_only), every, flush, strict, quiet),
            Classes.of(loading, rule),
        )
        return
    check_one_stream(model, streams)
    make = _source_of(source, input, streams)

    def make_source(channels: tuple[str, ...]) -> Source:
        wrapped = make(input, options(channels))
        return ArrivingSource(wrapped, keep=state is not None and not flush)

    if state is not None:
        state_file.remove_stale(state)
    with (
        _held(state) as lock,
        closing(find_sink(importable(sink))(output, SinkOptions(alarms_only))) as out,
    ):
        resumed = resume(model, state, make_source, say, Classes.of(loading, rule))
        with closing(resumed.source):
            if isinstance(resumed.source, ArrivingSource):
                resumed.source.expect(resumed.detector.period_)
            if state is not None:
                _check_savable(resumed.detector, state)
            watching = Watch(
                resumed,
                out,
                state=None if state is None or lock is None else (state, lock),
                every=every,
                track_alarms=alarms_only,
                flush=flush,
                strict=strict,
                report=say,
            )
            detector = watching.detector
            if not quiet:
                say(
                    f"watching {resumed.source.name}: {len(detector.channels_)} channels, "
                    f"threshold {detector.alarm_threshold_:.6g}"
                )
            try:
                watching.run()
            except BadRecordError as error:
                fail(error, BAD_LINE)
    if not quiet:
        say(_summary(watching, alarms_only))


def _source_of(
    source: str | None, path: str, streams: Streams
) -> Callable[[str, SourceOptions], Source]:
    """Return what makes the source of an input of one stream."""
    from newnormal.io import find_source

    if streams.long is None:
        return find_source(importable(source or ("pipe" if path == "-" else "file")))
    if source is not None:
        raise ParameterError(
            f"--long: expected a file or standard input, found --source {source}",
            hint="leave --source out",
        )
    from newnormal.io.sources.streams import LongFileSource, LongPipeSource

    return partial(LongPipeSource if path == "-" else LongFileSource, long=streams.long)


def _format(model: Path, path: str, given: FileFormat | None) -> Any:
    """Return the format of the lines, and refuse Parquet, which has none."""
    from newnormal.tabular import format_of

    found = format_of(path, format_name(given))
    if found == "parquet":
        raise InputError(
            f"{path}: expected lines of CSV or JSON, found Parquet",
            hint=f"judge a finished file with `newnormal score {model} {path}`",
        )
    return found


@contextmanager
def _held(state: Path | None) -> Iterator[Lock | None]:
    """Hold the state file for as long as it is in use."""
    from newnormal.runtime.lock import Lock

    if state is None:
        yield None
        return
    with Lock(state) as lock:
        if not lock.held:
            raise StateError(
                f"{state} is in use by another `newnormal watch`",
                hint="give each its own --state",
            )
        yield lock


def _check_savable(detector: BaseDetector, state: Path) -> None:
    """Raise a StateError at the start if a checkpoint of this detector cannot be written."""
    try:
        detector.to_state()
    except NewnormalError as error:
        raise StateError(
            f"--state {state}: expected a detector that can be saved, found: {error.message}",
            hint=error.hint or "leave --state out",
        ) from error


def _summary(watching: Watch, alarms_only: bool) -> str:
    text = summary(watching, alarms_only)
    pending = watching.detector.counters["pending"]
    return text + (f"; {pending} wait for a full window" if pending else "")
