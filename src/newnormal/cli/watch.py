"""`newnormal watch`: judge an input as it comes.

One module because it is one verb: its options, for one stream and for many, and its status line.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from newnormal.cli.bars import prepare
from newnormal.cli.console import (
    BAD_LINE,
    accept_after_text,
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
from newnormal.errors import InputError, NewnormalError, ParameterError
from newnormal.texts import counted, number_text, shown

if TYPE_CHECKING:
    import numpy as np
    from rich.console import Console

    from newnormal.fleet import Fleet
    from newnormal.io import Sink, SinkOptions
    from newnormal.io.sinks.text import TextSink
    from newnormal.io.sources.lines import LineInput, LineOptions
    from newnormal.runtime.inputs import SourceInput, WatchInput
    from newnormal.runtime.starting import WatchStart
    from newnormal.runtime.watch import Watch
    from newnormal.types import Alarm, Change, Event

_more = partial(option, panel=f"{MORE}output")
_ROOM = 3  # columns at the right: ^C is echoed there, and must not begin a line
_ERASE = "\r\x1b[K"  # back to the first column, and erase from there


@with_shared
def watch(
    model: Model,
    input: Input,  # noqa: A002
    state: Path | None = option(
        "Save what was learned here, and resume from it; may be MODEL itself.", metavar="FOLDER"
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
    source: str | None = option(
        "What reads INPUT instead of lines: package.module:Class.",
        metavar="CLASS",
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

    tail -f metrics.csv | newnormal watch plant.fleet - --by host --state fleet.state

    On a terminal it prints what happens to alarms and changes, and what can be done about it;
    elsewhere a JSON line for each verdict. `newnormal serve --data plant.state` goes on with the
    folder, and back.
    """
    from newnormal.io import SinkOptions
    from newnormal.io.sinks.lines import check_output
    from newnormal.io.sources.lines import LineOptions
    from newnormal.runtime.starting import start
    from newnormal.runtime.watch import (
        BadRecordError,
        FleetJsonSink,
        FleetTextSink,
        OneStreamSink,
        Watch,
    )

    in_words = _in_words(form, sink, output)
    sink, output = sink or "jsonl", output or "-"
    many = is_fleet(model)
    if many:
        from newnormal.cli.reading import remembered

        if source is None:
            check_streams(model, options.after(remembered(model)).streams, input)
        if sink != "jsonl":
            raise ParameterError(f"--sink: expected jsonl with a fleet, found {sink}")
    else:
        check_one_stream(model, options.streams)
    if sink == "jsonl":
        check_output(output, [input, model, *([] if state is None else [state])])
    keep = state is not None and not flush
    lines = LineOptions(follow=follow, strict=strict, unfinished=keep and input != "-", report=say)
    sink_options = SinkOptions(alarms_only)
    with closing(_sink_of(sink, output, sink_options, in_words, many)) as out:
        begun = start(
            lambda: _loaded(model, classes),
            model,
            state,
            lambda fleet: _input_of(
                fleet, input, options, lines, source, state or model, keep=keep
            ),
            say,
            classes,
        )
        with _closing(begun), _shown(out, begun.judge.fleet, state, quiet):
            watching = Watch(
                begun.judge,
                begun.source,
                out if isinstance(out, FleetJsonSink | FleetTextSink) else OneStreamSink(out),
                continues=begun.continues,
                elsewhere=begun.elsewhere,
                flush=flush,
                strict=strict,
                report=say,
            )
            if not quiet:
                say(f"watching {begun.source.name}: {_what(begun.judge.fleet)}")
            try:
                watching.run()
            except BadRecordError as error:
                fail(error, BAD_LINE)
            waiting = _waiting(watching)
    if not quiet:
        say(_summary(watching, waiting))


def _loaded(model: Path, classes: Classes) -> Fleet:
    """Return MODEL as a fleet; a detector of one stream is called ""."""
    from newnormal.cli.reading import load, load_fleet
    from newnormal.fleet import Fleet

    if is_fleet(model):
        return load_fleet(model, classes)
    detector = load(model, classes)
    prepare(detector)
    return Fleet(detector).add("", detector)


def _sink_of(name: str, target: str, options: SinkOptions, in_words: bool, many: bool) -> Sink:
    """Return what is written to."""
    from newnormal.io import find_sink
    from newnormal.io.sinks.text import TextSink
    from newnormal.runtime.watch import FleetJsonSink, FleetTextSink

    make: type[Sink]
    if many:
        make = FleetTextSink if in_words else FleetJsonSink
    else:
        make = TextSink if in_words else find_sink(importable(name))
    return make(target, options)


def _input_of(
    fleet: Fleet,
    path: str,
    options: InputOptions,
    lines: LineOptions,
    source: str | None,
    model: Path,
    *,
    keep: bool,
) -> WatchInput:
    """Return what is read; with `keep` what is held back at its end is left to the next start."""
    from newnormal.io import find_source
    from newnormal.io.sources.lines import line_input
    from newnormal.runtime.inputs import SourceInput, WatchInput

    is_one = fleet.streams_ == ("",)
    chosen = options.after(fleet[""].reading_ if is_one else fleet.reading_)
    reading, streams = chosen.reading, chosen.streams
    if is_one:
        check_one_stream(model, options.streams)
    if source is not None:
        _check_lines_of(source, options.streams)
        kind = find_source(importable(source))
        made: LineInput | SourceInput = SourceInput(
            kind(path, {"input": path}), is_one=is_one, report=say
        )
    elif is_one:
        channels = fleet.channels_[""]
        of_stream = replace(lines, reading=reading, channels=channels, long=streams.long)
        made = line_input(path, of_stream)
    else:
        check_streams(model, streams, path)
        of_streams = replace(lines, reading=reading, by=streams.by, long=streams.long)
        made = line_input(path, of_streams)
    return WatchInput(
        made, reading, fleet.channels_, fleet.period_, strict=lines.strict, keep=keep, report=say
    )


@contextmanager
def _closing(begun: WatchStart) -> Iterator[None]:
    """Save what was learned at the end; where output could not be written, it comes again."""
    try:
        yield
    except (InputError, SystemExit):
        begun.close(save=True)
        raise
    except BaseException:
        begun.close(save=False)
        raise
    begun.close(save=True)


def _what(fleet: Fleet) -> str:
    """Return what is watched in words."""
    if fleet.streams_ != ("",):
        return counted(len(fleet), "stream")
    detector = fleet[""]
    channels, threshold = len(detector.channels_), number_text(detector.alarm_threshold_)
    return f"{channels} channels, threshold {threshold}"


def _waiting(watching: Watch) -> str:
    """Return how many samples wait, in words."""
    fleet, held = watching.judge.fleet, watching.source.waiting
    if fleet.streams_ == ("",):
        pending = fleet[""].counters["pending"]
        return f"{pending} wait for a full window" if pending else ""
    return f"{counted(held, 'sample')} not complete yet" if held else ""


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
def _shown(sink: object, fleet: Fleet, state: Path | None, quiet: bool) -> Iterator[None]:
    """Give a sink for people what it needs, and the line that says how far it is."""
    from newnormal.alarms.words import Deciding
    from newnormal.io.sinks.text import TextSink
    from newnormal.runtime.watch import FleetTextSink

    if not isinstance(sink, TextSink):
        yield
        return
    if isinstance(sink, FleetTextSink):
        sink.align(fleet.streams_)
    both: tuple[Mapping[str, Sequence[Alarm | Change]], ...] = fleet.alarms_, fleet.changes_
    opened = [(name, item) for streams in both for name, items in streams.items() for item in items]
    after = accept_after_text(next(fleet[name] for name in fleet), fleet.period_)
    sink.deciding = Deciding(None if state is None else str(state), accept_after=after)
    with status_line(sink, opened, quiet):
        yield


def _check_lines_of(source: str, streams: StreamNaming) -> None:
    """Raise a ParameterError for options of lines with a source, which has none."""
    option = "--long" if streams.long is not None else "--by" if streams.by else None
    if option is not None:
        raise ParameterError(
            f"{option}: expected a file or standard input, found --source {source}",
            hint=f"leave {option} out: a source names the stream and the channels of each sample",
        )


def _summary(watching: Watch, waiting: str) -> str:
    """Return in a line what a watch has seen; `waiting` are samples, in words, or empty."""
    unknown = watching.source.unknown
    text = f"judged {counted(watching.judged, 'sample')}, {watching.anomalous:,} anomalous"
    text += f", {counted(watching.alarms, 'alarm')}"
    if watching.changes:
        text += f", {counted(watching.changes, 'change')}"
    text += f", {counted(watching.incidents, 'incident')}" if watching.incidents else ""
    text += f"; {counted(watching.bad, 'bad line')} skipped" if watching.bad else ""
    if repeated := watching.source.repeated:
        text += f"; {repeated:,} judged before"
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
