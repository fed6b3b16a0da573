"""`newnormal watch`: judge an input as it comes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from newnormal.cli.compiling import compile_first
from newnormal.cli.console import BAD_LINE, announce_compiling, fail, say
from newnormal.cli.options import Classes, Input, Loading, Model, Rule, importable
from newnormal.cli.reading import summary
from newnormal.cli.reading_options import Given, reads_input
from newnormal.cli.streams import Streams, check_one_stream, check_streams, is_fleet
from newnormal.errors import NewnormalError, ParameterError, StateError

if TYPE_CHECKING:
    from newnormal.detector import BaseDetector
    from newnormal.io import Source, SourceOptions
    from newnormal.runtime.lock import Lock
    from newnormal.runtime.watch import Watch

__all__ = ["watch"]


@reads_input
def watch(
    model: Model,
    input: Input,  # noqa: A002
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
    loading: Loading = None,
    rule: Rule = None,
    *,
    given: Given,
) -> None:
    """Judge an input line by line as it comes: JSON lines out, one per verdict.

    tail -f live.csv | newnormal watch plant.nn - --state plant.state --alarms-only

    tail -f metrics.csv | newnormal watch plant.fleet - --by host --alarms-only

    A fleet keeps its state in its own folder.
    """
    from newnormal import state as state_file
    from newnormal.detector import Detector
    from newnormal.io import SinkOptions, SourceOptions, find_sink
    from newnormal.io.sinks.jsonl import check_output
    from newnormal.io.sources.arriving import ArrivingSource
    from newnormal.runtime.checkpoint import resume
    from newnormal.runtime.watch import BadRecordError, Watch

    many = is_fleet(model)

    def options(read: Given, channels: tuple[str, ...] = ()) -> SourceOptions:
        return SourceOptions(
            channels,
            read.reading,
            follow=follow,
            strict=strict,
            unfinished=input != "-" and (many or state is not None) and not flush,
            report=say,
        )

    if many:
        announce_compiling()
        from newnormal.cli.fleet_reading import remembered
        from newnormal.cli.fleet_watch import FleetOutput, check_fleet_options, watch_fleet
        from newnormal.io.sources.streams import StreamOptions

        found = given.after(remembered(model))
        check_streams(model, found.streams, input)
        check_fleet_options(model, state=state, source=source, sink=sink)
        watch_fleet(
            model,
            input,
            StreamOptions(found.streams.by, found.streams.long, options(found)),
            FleetOutput(output, SinkOptions(alarms_only), every, flush, strict, quiet),
            Classes.of(loading, rule),
        )
        return
    check_one_stream(model, given.streams)

    def make_source(detector: BaseDetector) -> Source:
        found = given.after(detector.reading_)
        make = _source_of(source, input, found.streams)
        wrapped = make(input, options(found, detector.channels_))
        keep = state is not None and not flush
        return ArrivingSource(wrapped, keep, detector.period_)

    if sink == "jsonl":
        check_output(output, [input, model, *([] if state is None else [state])])
    if state is not None:
        state_file.check_target(state, [input], new=False)
        state_file.remove_stale(state)
    with (
        _held(state) as lock,
        closing(find_sink(importable(sink))(output, SinkOptions(alarms_only))) as out,
    ):
        resumed = resume(model, state, make_source, say, Classes.of(loading, rule))
        with closing(resumed.source):
            if isinstance(resumed.detector, Detector):
                compile_first("watch")
            else:
                announce_compiling()
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
