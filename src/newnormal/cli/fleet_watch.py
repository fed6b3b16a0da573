"""`newnormal watch` of a fleet."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from newnormal.cli.console import BAD_LINE, fail, say
from newnormal.cli.options import Classes
from newnormal.cli.reading import summary
from newnormal.errors import InputError, ParameterError
from newnormal.io.sinks.base import SinkOptions
from newnormal.io.sources.streams import StreamInput, StreamOptions
from newnormal.texts import counted

if TYPE_CHECKING:
    from newnormal.runtime.fleet_resume import ResumedFleet
    from newnormal.runtime.fleet_watch import FleetWatch


class FleetOutput(NamedTuple):
    """What the user asks of a watch besides its input."""

    target: str
    sink: SinkOptions
    in_words: bool
    every: int
    flush: bool
    strict: bool
    quiet: bool


def check_fleet_options(fleet: Path, *, state: Path | None, source: str | None, sink: str) -> None:
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


def watch_fleet(
    folder: Path, path: str, options: StreamOptions, output: FleetOutput, classes: Classes
) -> None:
    """Watch an input of many streams."""
    from newnormal.io.sinks.lines import check_output
    from newnormal.runtime.fleet_feedback import FleetQueue
    from newnormal.runtime.fleet_output import FleetJsonSink, FleetTextSink
    from newnormal.runtime.fleet_watch import FleetWatch
    from newnormal.runtime.watch import BadRecordError

    make_sink = FleetTextSink if output.in_words else FleetJsonSink
    check_output(output.target, [path])
    try:
        with (
            closing(make_sink(output.target, output.sink)) as sink,
            _opened(folder, path, options, output.every, classes) as resumed,
            _shown(sink, resumed, folder, output.quiet),
        ):
            watching = FleetWatch(
                resumed.fleet,
                resumed.source,
                sink,
                resumed.position,
                continues=resumed.continues,
                feedback=FleetQueue(folder, say),
                every=output.every,
                flush=output.flush,
                strict=output.strict,
                report=say,
            )
            if not output.quiet:
                streams = counted(len(resumed.fleet), "stream")
                say(f"watching {resumed.source.source.name}: {streams}")
            for verdicts in resumed.again:
                watching.emit(verdicts)
            watching.emit_events(resumed.events)
            watching.run()
            waiting = resumed.source.waiting
    except BadRecordError as error:
        fail(error, BAD_LINE)
    if not output.quiet:
        say(_summary(watching, output.sink.alarms_only or output.in_words, waiting))


@contextmanager
def _opened(
    folder: Path, path: str, options: StreamOptions, every: int, classes: Classes
) -> "Iterator[ResumedFleet]":
    """Open a fleet and its input; save the fleet at the end of the input.

    Where output could not be written the fleet is left as it is: that output comes again.
    """
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


@contextmanager
def _shown(sink: object, resumed: "ResumedFleet", folder: Path, quiet: bool) -> Iterator[None]:
    """Give a sink for people what it needs, and the line that says how far it is."""
    from newnormal.alarms.words import Deciding
    from newnormal.cli.screen import status_line
    from newnormal.cli.words import accept_after_text
    from newnormal.runtime.fleet_output import FleetTextSink

    if not isinstance(sink, FleetTextSink):
        yield
        return
    fleet = resumed.fleet
    sink.deciding = Deciding(
        str(folder), accept_after=accept_after_text(fleet.detector, fleet.period_)
    )
    sink.align(fleet.streams_)
    everything = (fleet.alarms_, fleet.changes_)
    opened = [(name, item) for some in everything for name, items in some.items() for item in items]
    with status_line(sink, opened, quiet):
        yield


def _summary(watching: "FleetWatch", alarms_only: bool, waiting: int) -> str:
    text = summary(watching, alarms_only, watching.incidents)
    if watching.unknown:
        lines = counted(sum(watching.unknown.values()), "sample")
        text += f"; {lines} of {counted(len(watching.unknown), 'unknown stream')} skipped"
    return text + (f"; {counted(waiting, 'sample')} not complete yet" if waiting else "")
