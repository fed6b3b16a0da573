"""`newnormal watch`: judge an input as it comes.

One module because it is one verb: its options, for one stream and for many, and its status line.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from newnormal.cli.bars import prepare
from newnormal.cli.console import (
    BAD_LINE,
    accept_after_text,
    announce_compiling,
    before_messages,
    fail,
    say,
)
from newnormal.cli.help import MORE
from newnormal.cli.options import (
    OWN_CLASSES,
    Classes,
    Input,
    InputOptions,
    Model,
    StreamNaming,
    check_one_stream,
    check_streams,
    importable,
    is_fleet,
    option,
    with_shared,
)
from newnormal.errors import InputError, NewnormalError, ParameterError, StateError
from newnormal.texts import counted, number_text, shown

if TYPE_CHECKING:
    import numpy as np
    from rich.console import Console

    from newnormal.base import BaseDetector
    from newnormal.fleet import Fleet
    from newnormal.io import SinkOptions, Source, SourceOptions
    from newnormal.io.sinks.text import TextSink
    from newnormal.io.sources.streams import StreamOptions
    from newnormal.runtime.fleet_resume import ResumedFleet
    from newnormal.runtime.fleet_watch import FleetWatch
    from newnormal.runtime.lock import Lock
    from newnormal.runtime.watch import Watch
    from newnormal.types import Alarm, Change, Event

_more = partial(option, panel=f"{MORE}output and checkpoints")
_ROOM = 3  # columns at the right: ^C is echoed there, and must not begin a line
_ERASE = "\r\x1b[K"  # back to the first column, and erase from there


@with_shared
def watch(
    model: Model,
    input: Input,  # noqa: A002
    state: Path | None = option(
        "Save what was learned here, and resume from it; may be MODEL itself.", metavar="FILE"
    ),
    follow: bool = option("Keep reading a growing file.", "--follow", "-f", default=False),
    form: Literal["text", "json"] | None = option(
        "text: alarms and changes in words; json: a line for each verdict.",
        "--format",
        shown="text on a terminal, else json",
    ),
    output: str | None = option(
        "A file to append to.", "--output", "-o", metavar="TARGET", shown="standard output"
    ),
    alarms_only: bool = _more(
        "JSON lines of alarms and changes instead of verdicts.", "--alarms-only", default=False
    ),
    flush: bool = _more(
        "The input is finished when it ends: judge its tail, close its alarms.",
        "--flush",
        default=False,
    ),
    strict: bool = _more("Stop at a bad line.", "--strict", default=False),
    quiet: bool = _more("Print only problems.", "--quiet", "-q", default=False),
    every: int = _more(
        "Write the state every N samples; of each stream, in a fleet.",
        metavar="N",
        min=1,
        default=1000,
    ),
    source: str | None = option(
        "What reads INPUT: file, pipe, or package.module:Class.",
        metavar="CLASS",
        shown="file; pipe for -",
        panel=OWN_CLASSES,
    ),
    sink: str | None = option(
        "What writes the output: jsonl, or package.module:Class.",
        metavar="CLASS",
        shown="jsonl",
        panel=OWN_CLASSES,
    ),
    *,
    classes: Classes,
    options: InputOptions,
) -> None:
    """Judge an input line by line as it comes: alarms and changes in words, or JSON lines.

    newnormal watch plant.nn live.csv --state plant.state

    tail -f live.csv | newnormal watch plant.nn - --alarms-only > alarms.jsonl

    tail -f metrics.csv | newnormal watch plant.fleet - --by host

    On a terminal it prints what happens to alarms and changes, and what can be done about it;
    elsewhere a JSON line for each verdict. A fleet keeps its state in its own folder.
    """
    from newnormal import state as state_file
    from newnormal.io import SinkOptions, SourceOptions, find_sink
    from newnormal.io.sinks.lines import check_output
    from newnormal.io.sinks.text import TextSink
    from newnormal.io.sources.arriving import ArrivingSource
    from newnormal.runtime.checkpoint import resume
    from newnormal.runtime.watch import BadRecordError, Watch

    in_words = _in_words(form, sink, output)
    sink, output = sink or "jsonl", output or "-"
    many = is_fleet(model)

    def source_options(read: InputOptions, channels: tuple[str, ...] = ()) -> SourceOptions:
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
        from newnormal.cli.reading import remembered
        from newnormal.io.sources.streams import StreamOptions

        options = options.after(remembered(model))
        check_streams(model, options.streams, input)
        _check_fleet_options(model, state=state, source=source, sink=sink)
        _watch_fleet(
            model,
            input,
            StreamOptions(options.streams.by, options.streams.long, source_options(options)),
            classes,
            SinkOptions(alarms_only),
            target=output,
            in_words=in_words,
            every=every,
            flush=flush,
            quiet=quiet,
        )
        return
    check_one_stream(model, options.streams)

    def make_source(detector: BaseDetector) -> Source:
        chosen = options.after(detector.reading_)
        make = _source_of(source, input, chosen.streams)
        wrapped = make(input, source_options(chosen, detector.channels_))
        keep = state is not None and not flush
        return ArrivingSource(wrapped, keep, detector.period_)

    make_sink = TextSink if in_words else find_sink(importable(sink))
    if sink == "jsonl":
        check_output(output, [input, model, *([] if state is None else [state])])
    if state is not None:
        state_file.check_target(state, [input], new=False)
        state_file.remove_stale(state)
    with _held(state) as lock, closing(make_sink(output, SinkOptions(alarms_only))) as out:
        resumed = resume(model, state, make_source, say, classes)
        detector = resumed.detector
        with closing(resumed.source), _shown(out, detector, state, quiet):
            prepare(detector)
            if state is not None:
                _check_savable(detector, state)
            watching = Watch(
                resumed,
                out,
                state=None if state is None or lock is None else (state, lock),
                every=every,
                track_alarms=alarms_only or in_words,
                flush=flush,
                strict=strict,
                report=say,
            )
            if not quiet:
                say(
                    f"watching {resumed.source.name}: {len(detector.channels_)} channels, "
                    f"threshold {number_text(detector.alarm_threshold_)}"
                )
            try:
                watching.run()
            except BadRecordError as error:
                fail(error, BAD_LINE)
    if not quiet:
        pending = detector.counters["pending"]
        waiting = f"{pending} wait for a full window" if pending else ""
        say(_summary(watching, alarms_only or in_words, waiting))


def _in_words(form: str | None, sink: str | None, output: str | None) -> bool:
    """Whether the output is in words."""
    if form is None:
        return sink is None and output is None and sys.stdout.isatty()
    if form == "text" and sink is not None:
        raise ParameterError(
            f"--format text: expected no --sink, found {sink}", hint="leave one of them out"
        )
    return form == "text"


@contextmanager
def _shown(
    sink: object, judge: BaseDetector | Fleet, state: Path | None, quiet: bool
) -> Iterator[None]:
    """Give a sink for people what it needs, and the line that says how far it is."""
    from newnormal.alarms.words import Deciding
    from newnormal.base import BaseDetector
    from newnormal.io.sinks.text import TextSink
    from newnormal.runtime.fleet_watch import FleetTextSink

    if not isinstance(sink, TextSink):
        yield
        return
    both: tuple[Mapping[str, Sequence[Alarm | Change]], ...]
    if isinstance(judge, BaseDetector):
        detector, both = judge, ({"": judge.alarms_}, {"": judge.changes_})
    else:
        detector, both = judge.detector, (judge.alarms_, judge.changes_)
        if isinstance(sink, FleetTextSink):
            sink.align(judge.streams_)
    opened = [(name, item) for streams in both for name, items in streams.items() for item in items]
    after = accept_after_text(detector, judge.period_)
    sink.deciding = Deciding(None if state is None else str(state), accept_after=after)
    with status_line(sink, opened, quiet):
        yield


def _source_of(
    source: str | None, path: str, streams: StreamNaming
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
                f"{state} is in use by another `newnormal watch`", hint="give each its own --state"
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


def _check_fleet_options(fleet: Path, *, state: Path | None, source: str | None, sink: str) -> None:
    """Raise a ParameterError for options that a fleet does without."""
    if state is not None:
        raise ParameterError(
            f"--state: expected none with a fleet, found {state}",
            hint=f"leave it out: {fleet} has its own state and its place in the input",
        )
    if source not in (None, "file", "pipe"):
        raise ParameterError(f"--source: expected file or pipe with a fleet, found {source}")
    if sink != "jsonl":
        raise ParameterError(f"--sink: expected jsonl with a fleet, found {sink}")


def _watch_fleet(
    folder: Path,
    path: str,
    options: StreamOptions,
    classes: Classes,
    sink_options: SinkOptions,
    *,
    target: str,
    in_words: bool,
    every: int,
    flush: bool,
    quiet: bool,
) -> None:
    """Watch an input of many streams."""
    from newnormal.io.sinks.lines import check_output
    from newnormal.runtime.fleet_feedback import FleetQueue
    from newnormal.runtime.fleet_watch import FleetJsonSink, FleetTextSink, FleetWatch
    from newnormal.runtime.watch import BadRecordError

    make_sink = FleetTextSink if in_words else FleetJsonSink
    check_output(target, [path])
    try:
        with (
            closing(make_sink(target, sink_options)) as sink,
            _opened(folder, path, options, every, classes) as resumed,
            _shown(sink, resumed.fleet, folder, quiet),
        ):
            watching = FleetWatch(
                resumed.fleet,
                resumed.source,
                sink,
                resumed.position,
                continues=resumed.continues,
                feedback=FleetQueue(folder, say),
                every=every,
                flush=flush,
                strict=options.lines.strict,
                report=say,
            )
            if not quiet:
                streams = counted(len(resumed.fleet), "stream")
                say(f"watching {resumed.source.source.name}: {streams}")
            for verdicts in resumed.again:
                watching.emit(verdicts)
            watching.emit_events(resumed.events)
            watching.run()
            held = resumed.source.waiting
    except BadRecordError as error:
        fail(error, BAD_LINE)
    if not quiet:
        waiting = f"{counted(held, 'sample')} not complete yet" if held else ""
        say(_summary(watching, sink_options.alarms_only or in_words, waiting))


@contextmanager
def _opened(
    folder: Path, path: str, options: StreamOptions, every: int, classes: Classes
) -> Iterator[ResumedFleet]:
    """Open a fleet and its input; save the fleet at the end of the input.

    Where output could not be written the fleet is left as it is: that output comes again.
    """
    from newnormal.io.sources.streams import StreamInput
    from newnormal.runtime.fleet_resume import resume_fleet

    resumed = resume_fleet(folder, lambda: StreamInput(path, options), say, every, classes)
    with closing(resumed.source):
        try:
            yield resumed
        except InputError:
            resumed.fleet.close()
            raise
        except BaseException:
            resumed.fleet.close(save=False)
            raise
        resumed.fleet.close()


def _summary(watching: Watch | FleetWatch, track_alarms: bool, waiting: str) -> str:
    """Return in a line what a watch has seen; `waiting` are samples, in words, or empty."""
    from newnormal.runtime.fleet_watch import FleetWatch

    incidents, unknown = 0, dict[str, int]()
    if isinstance(watching, FleetWatch):
        incidents, unknown = watching.incidents, watching.unknown
    text = f"judged {counted(watching.judged, 'sample')}, {watching.anomalous:,} anomalous"
    if track_alarms or watching.alarms:
        text += f", {counted(watching.alarms, 'alarm')}"
    if watching.changes:
        text += f", {counted(watching.changes, 'change')}"
    text += f", {counted(incidents, 'incident')}" if incidents else ""
    text += f"; {counted(watching.bad, 'bad line')} skipped" if watching.bad else ""
    text += f"; {watching.skipped:,} judged before" if watching.skipped else ""
    if unknown:
        lines = counted(sum(unknown.values()), "sample")
        text += f"; {lines} of {counted(len(unknown), 'unknown stream')} skipped"
    return text + (f"; {waiting}" if waiting else "")


class StatusLine:
    """One line, drawn over itself; it is erased before anything else is written.

    `opened` are the alarms and changes that are open, each with its stream.
    """

    def __init__(
        self, terminal: Console, opened: Sequence[tuple[str, Alarm | Change]] = ()
    ) -> None:
        from newnormal.types import Alarm, Change

        self._terminal = terminal
        self._alarms = {(name, item.number) for name, item in opened if isinstance(item, Alarm)}
        self._changes = {(name, item.number) for name, item in opened if isinstance(item, Change)}
        self._samples = 0
        self._when = ""
        self._newest: np.datetime64 | None = None
        self._drawn = False

    def count(self, samples: int, newest: np.datetime64 | None, zone: str | None) -> None:
        """Take note of so many more samples that were judged, and of the newest time."""
        from newnormal.alarms.words import moment_text

        self._samples += samples
        if newest is not None and (self._newest is None or newest >= self._newest):
            self._newest, self._when = newest, moment_text(newest, 0, zone)

    def note(self, stream: str, event: Event) -> None:
        """Take note of what is open now."""
        from newnormal.types import ACCEPTED, CHANGED, CLOSED, OPENED, REVERTED

        if event.alarm is not None and event.kind in (OPENED, CLOSED):
            mark = self._alarms.add if event.kind == OPENED else self._alarms.discard
            mark((stream, event.alarm.number))
        if event.change is not None and event.kind in (CHANGED, ACCEPTED, REVERTED):
            mark = self._changes.add if event.kind == CHANGED else self._changes.discard
            mark((stream, event.change.number))

    def clear(self) -> None:
        """Erase it: something else is about to be written."""
        if self._drawn:
            self._drawn = False
            self._write(_ERASE)

    def text(self) -> str:
        """Return what it says."""
        opened = ((len(self._alarms), "alarm"), (len(self._changes), "change"))
        texts = [counted(count, what) for count, what in opened if count]
        # What is open comes first: the end is cut on a narrow terminal.
        parts = [f"watching: {' and '.join(texts) or 'nothing'} open", f"{self._samples:,} samples"]
        if self._when:
            parts.append(f"last {self._when}")
        return ", ".join(parts)

    def draw(self) -> None:
        """Draw it over itself."""
        from rich.text import Text

        line = Text(shown(self.text()), style="dim", end="")
        line.truncate(max(self._terminal.width - _ROOM, 1), overflow="ellipsis")
        with self._terminal.capture() as captured:
            self._terminal.print(line, soft_wrap=True, end="")
        self._drawn = True
        self._write(_ERASE + captured.get())

    def _write(self, text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()


@contextmanager
def status_line(
    sink: TextSink, opened: Iterable[tuple[str, Alarm | Change]], quiet: bool
) -> Iterator[None]:
    """Show how far a watch is while it runs, where standard output is a terminal; not if quiet."""
    if quiet or sink.target != "-" or not sys.stdout.isatty() or os.environ.get("TERM") == "dumb":
        yield
        return
    from newnormal.io.sinks.text import text_console

    line = StatusLine(text_console(terminal=True), list(opened))
    sink.screen = line

    def clear() -> None:
        with suppress(NewnormalError, OSError, ValueError):  # a terminal that is gone
            line.clear()

    # Messages are on the same terminal unless they were sent elsewhere.
    with before_messages(clear if sys.stderr.isatty() else None):
        try:
            yield
        finally:
            clear()
