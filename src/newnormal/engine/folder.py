"""The folder of an engine, in the hands of one process."""

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self

from newnormal.engine.applying import STEPS, Applier, Outcome
from newnormal.engine.checkpoints import read_state, recover, save_checkpoint
from newnormal.engine.database import Mark, database_errors, open_to_read
from newnormal.engine.hub import Hub
from newnormal.engine.items import ALARM, CHANGE, UNDO, Key
from newnormal.engine.log.entries import (
    Entry,
    FeedbackGiven,
    Started,
    StepsTaken,
    pack,
    unpack,
)
from newnormal.engine.log.sqlite_log import SqliteLog
from newnormal.engine.modelling import adopt, begin_generations
from newnormal.engine.reporting import Reporter
from newnormal.engine.running import Applied
from newnormal.engine.store import Store
from newnormal.engine.store.checking import FLEET, LOG, STORE
from newnormal.engine.streams import StreamRecords
from newnormal.errors import NewnormalError, StateError
from newnormal.fleet import Fleet, FleetEvent, FleetVerdicts
from newnormal.fleet.folder.listing import events_of_facts, fleet_event_facts
from newnormal.fleet.folder.lock import FolderLock
from newnormal.fleet.folder.manifest import read_manifest
from newnormal.fleet.folder.names import LOCK, MANIFEST
from newnormal.locks import is_held
from newnormal.packing.events import EventReader
from newnormal.types import IncidentEvent

_OUTPUT = "output"  # names the mark of what was written
_LEFT = "left"  # the space of settings with output that was left, by position
_EVERY_S = 10.0  # between two checkpoints
_SHARE = 20  # times as long as a checkpoint took, between it and the next one after an event


def is_engine_folder(path: Path) -> bool:
    """Whether a path is the folder of an engine."""
    return (path / LOG).is_file()


class FolderLook(NamedTuple):
    """What can be seen of a folder, also while a process uses it."""

    saved: float  # when its last checkpoint was made, in seconds since 1970
    is_used: bool  # whether a process uses it
    behind: int  # samples that were taken since
    waiting: int  # decisions that are not applied yet
    input_position: Mapping[str, Any] | None  # of a watch, at the checkpoint


def look(folder: Path) -> FolderLook:
    """Look at a folder; nothing in it changes."""
    files, position, behind = folder / FLEET, None, 0
    manifest = read_manifest(files)
    with closing(open_to_read(folder / STORE)) as store, database_errors(folder / STORE):
        rows = store.execute(
            "SELECT state FROM checkpoints WHERE position = ?", (manifest.position,)
        ).fetchall()
    for (state,) in rows:
        position = read_state(state, folder, manifest.position)["input_positions"].get(STEPS)
    with closing(open_to_read(folder / LOG)) as log, database_errors(folder / LOG):
        newer = "SELECT record FROM records WHERE position > ?"
        for (record,) in log.execute(newer, (manifest.position,)):
            entries = [entry for entry in unpack(record) if isinstance(entry, StepsTaken)]
            behind += sum(len(arrival.times) for entry in entries for arrival in entry.arrivals)
        (waiting,) = log.execute("SELECT count(*) FROM inbox").fetchone()
    saved = (files / MANIFEST).stat().st_mtime
    return FolderLook(saved, is_held(folder / LOCK) is True, behind, waiting, position)


@dataclass(frozen=True)
class Output:
    """What a record gave that is not kept: verdicts, and events of decisions."""

    verdicts: tuple[FleetVerdicts, ...] = ()
    decided: tuple[FleetEvent, ...] = ()
    # Verdicts, and events of incidents, as lines of JSON, where there was a checkpoint since.
    lines: tuple[str, ...] = ()
    event_lines: tuple[str, ...] = ()


class LeftOutput:
    """What the next `watch` is to write first: nobody has said that it was written.

    Of records applied again it is the output of the last one with steps and of those behind it:
    what came before was written. Who is no `watch` keeps it as lines. Decisions without steps
    before them are another's where a service has used the folder.
    """

    def __init__(self, folder: Path, store: Store, *, served: bool = False) -> None:
        self._store, self._written = store, Mark.read(folder / _OUTPUT)
        self._kept = store.settings.all(_LEFT)  # by the position of the newest record
        self._known = max([self._written, *map(int, self._kept)])
        self._fresh: list[Output] = []  # of records applied again
        self._position = 0  # of the newest of them
        self._is_served = served  # and no steps so far

    def outputs(self, fleet: Fleet) -> list[Output]:
        """Return what is to be written of these streams, in order."""
        kept = [parts for name, parts in sorted(self._kept.items()) if int(name) > self._written]
        readers: dict[str, EventReader] = {}
        if kept:
            fits = {stream.name: stream.fitted for stream in fleet.blocks()}
            readers = {
                name: EventReader(fitted.channels, fitted.model.vote_count)
                for name, fitted in fits.items()
            }
        outputs = []
        for parts in kept:
            events = tuple(events_of_facts(parts["events"], readers))
            outputs.append(Output((), events, tuple(parts["lines"]), tuple(parts["incidents"])))
        return [*outputs, *self._fresh]

    def note(self, applier: Applier, entries: Sequence[Entry]) -> None:
        """Take note of a record that was applied again."""
        if applier.position <= self._known:
            return
        if any(isinstance(entry, StepsTaken) for entry in entries):
            self._fresh, self._is_served = [], False
        if not self._is_served and (applier.verdicts or applier.decided):
            self.add(_output(applier), applier.position)

    def add(self, output: Output, position: int) -> None:
        """Add the output of a record."""
        self._fresh.append(output)
        self._position = position

    def keep(self) -> None:
        """Keep it as lines for the next `watch`, because a checkpoint follows."""
        lines: list[str] = []
        events: list[FleetEvent] = []
        incidents: list[str] = []
        for output in self._fresh:
            for verdicts in output.verdicts:
                lines += verdicts[""].json_lines() if "" in verdicts else verdicts.json_lines()
                events += verdicts.events
                incidents += [incident_line(event) for event in verdicts.incidents]
            events += output.decided
        if lines or events:
            facts = [fleet_event_facts(event) for event in events]
            kept = {"lines": lines, "events": facts, "incidents": incidents}
            self._store.settings.put(_LEFT, f"{self._position:020d}", kept)

    def written(self, position: int) -> None:
        """Take note that the output of all records up to a position was written."""
        self._fresh, self._written = [], position

    def forget(self) -> None:
        """Delete the lines that were written."""
        for name in [name for name in self._kept if int(name) <= self._written]:
            self._store.settings.delete(_LEFT, name)
            del self._kept[name]


class EngineFolder:
    """Opens the parts of an engine in their order: lock, log, store, and the applier.

    Parameters
    ----------
    folder
        Made if it is not there, readable for its owner alone.
    sync
        Whether a record is on the disk once it is logged: a loss of power loses nothing either.
    hub, sinks, url
        Who follows events, the names of the sinks that alerts are for, the address of the page.
    classes
        Of a model and of a threshold that are not built in.
    kind
        The class of the fleet.
    """

    def __init__(
        self,
        folder: Path,
        *,
        kind: type[Fleet] = Fleet,
        sync: bool = True,
        hub: Hub | None = None,
        sinks: Callable[[], Iterable[str]] = tuple,
        url: Callable[[], str | None] = lambda: None,
        classes: tuple[object, object] = (None, None),
    ) -> None:
        self.folder, self._classes, self._kind = folder, classes, kind
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._lock = FolderLock(folder).acquire()
        try:
            self.log = SqliteLog(folder / LOG, sync=sync)
            self.store = Store(folder / STORE)
        except BaseException:
            self._lock.release()
            raise
        self.reporter = Reporter(self.store, Hub() if hub is None else hub, sinks, url)

    def recover(self, applied: Applied) -> Applier:
        """Return the applier at the end of the log."""
        store, reporter = self.store, self.reporter
        return recover(self.folder, self.log, store, reporter, applied, self._classes, self._kind)

    def release(self) -> None:
        """Let go of the folder."""
        try:
            self.store.close()
            self.log.close()
        finally:
            self._lock.release()


class SingleEngine:
    """An engine in the thread of its caller: what is handed in is logged and applied at once.

    `left` has the output that its caller is to write first: `LeftOutput`.

    Parameters
    ----------
    folder
        Made if it is not there.
    kind, sync, classes
        As for `EngineFolder`.

    Examples
    --------
    >>> from tempfile import mkdtemp
    >>> import numpy as np
    >>> from newnormal import Detector
    >>> detector = Detector(epochs=1).fit(np.random.default_rng(0).normal(size=(300, 1)))
    >>> engine = SingleEngine(Path(mkdtemp()))
    >>> engine.begin(Fleet().add("", detector))
    >>> engine.fleet.streams_
    ('',)
    >>> engine.close()
    """

    def __init__(
        self,
        folder: Path,
        *,
        kind: type[Fleet] = Fleet,
        sync: bool = False,
        classes: tuple[object, object] = (None, None),
    ) -> None:
        self.folder = folder
        self._opened = opened = EngineFolder(folder, kind=kind, sync=sync, classes=classes)
        self._log, self._store, self._reporter = opened.log, opened.store, opened.reporter
        try:
            self._left = left = LeftOutput(folder, opened.store)
            self._applier = opened.recover(lambda applier, taken, _: left.note(applier, taken))
        except BaseException:
            opened.release()
            raise
        self._saved = self._applier.fleet.position
        self._output = Mark(folder / _OUTPUT)
        self._begun = self._ended = time.monotonic()  # of the last checkpoint
        self._is_due = False  # whether something happened that a checkpoint is to have

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *error: object) -> None:
        self.close(save=kind is None)

    @property
    def fleet(self) -> Fleet:
        """The detectors of all streams; only to look at."""
        return self._applier.fleet

    @property
    def left(self) -> list[Output]:
        """What was not written yet."""
        return self._left.outputs(self._applier.fleet)

    @property
    def applier(self) -> Applier:
        """Applies the entries."""
        return self._applier

    @property
    def input_position(self) -> Mapping[str, Any] | None:
        """Where the input is that steps came of."""
        return self._applier.input_positions.get(STEPS)

    def begin(self, fleet: Fleet) -> None:
        """Give a folder that has no streams those of a fleet."""
        if others := len(self._applier.streams):
            raise StateError(
                f"{self.folder}: expected streams with models, found {others} without",
                hint="`newnormal serve` fits them; or name a folder that is not there yet",
            )
        self._applier.fleet.adopt(fleet)
        self.take_streams()

    def take_streams(self) -> None:
        """Take over which streams the fleet has now, and their fits; save everything."""
        applier, now = self._applier, time.time_ns()
        self.record(Started(now))
        for stream in applier.streams:
            if stream.is_live and stream.name not in applier.fleet:
                applier.streams.remove(stream)
                self._store.forget(stream.id)
        for name in applier.fleet:
            known = applier.streams.named(name)
            if known is None:
                adopt(applier, name, now)
            elif known.unkept and not applier.fleet.block(name).progress[0]:  # fitted anew
                begin_generations(applier, known, known.generation)
                known.unkept = 0
        self.checkpoint()

    def record(self, entry: Entry, request: int | None = None) -> tuple[Outcome, Output]:
        """Log an entry and apply it; return its outcome and its output."""
        position = self._log.append(pack([entry]), () if request is None else (request,))
        (outcome,) = self._applier.apply(position, [entry])
        self._store.commit()
        self._reporter.publish()
        output = _output(self._applier)
        happened = output.decided or any(part.events for part in output.verdicts)
        self._is_due = self._is_due or bool(happened)
        return outcome, output

    def take(self, entry: StepsTaken) -> Output:
        """Log and judge samples."""
        outcome, output = self.record(entry)
        if isinstance(outcome, NewnormalError):
            raise outcome
        return output

    def written(self) -> None:
        """Take note that all output so far was written: it does not come again after a kill."""
        self._output.write(self._log.last)
        self._left.written(self._log.last)

    def requests(self) -> list[tuple[int, dict[str, Any]]]:
        """Return the decisions that other processes left here, each with its number."""
        return [(number, request_of(text)) for number, text in self._log.requests()]

    def decide(
        self,
        stream: str,
        verb: str,
        *,
        alarm: int | None = None,
        change: int | None = None,
        request: int | None = None,
    ) -> Output:
        """Accept or reject an alarm or a change, by its number, or undo the newest acceptance."""
        entry = decision_entry(self._applier.streams, stream, verb, alarm, change)
        outcome, output = self.record(entry, request)
        if isinstance(outcome, NewnormalError):
            raise outcome
        return output

    def checkpoint_if_due(self) -> None:
        """Save everything if it is time to, or if something happened; output must be written."""
        now = time.monotonic()
        if self._saved == self._log.last:
            return
        pause = _SHARE * (self._ended - self._begun) if self._is_due else _EVERY_S
        if now >= self._ended + pause:
            self.checkpoint()

    def checkpoint(self) -> None:
        """Save everything; the output so far must be written."""
        self._begun = time.monotonic()
        with database_errors(self.folder):
            self._log.sync()  # the checkpoint must not be ahead of it
            self._saved = save_checkpoint(self._applier)
            self._log.trim(self._saved)
            self._left.forget()
        self._is_due = False
        self._ended = time.monotonic()

    def leave(self, output: Output) -> None:
        """Save everything and let go of the folder; the next `watch` writes this output, too."""
        self._left.add(output, self._log.last)
        self._left.keep()
        self.close()

    def close(self, *, save: bool = True) -> None:
        """Save everything, and let go of the folder; without `save` as a kill would."""
        try:
            if save and self._saved != self._log.last:
                self.checkpoint()
        finally:
            self._output.close()
            self._applier.fleet.detach()
            self._opened.release()


def request_of(text: str) -> dict[str, Any]:
    """Return a request of the inbox, as `decision_entry` takes it; refused where it is none."""
    try:
        request = json.loads(text)
        stream, verb, numbers = request.pop("stream"), request.pop("verb"), dict(request)
        if {*numbers} <= {"alarm", "change"} and all(type(n) is int for n in numbers.values()):
            return {"stream": str(stream), "verb": str(verb), **numbers}
    except (AttributeError, LookupError, TypeError, ValueError):
        pass
    return {"stream": "", "verb": "unreadable"}


def decision_entry(
    streams: StreamRecords,
    stream: str,
    verb: str,
    alarm: int | None = None,
    change: int | None = None,
) -> FeedbackGiven:
    """Return the entry of what a person decides about a stream by its name."""
    record = streams.named(stream)
    kind, number = (CHANGE, change) if alarm is None else (ALARM, alarm)
    item = None
    if record is not None and number is not None:
        item = Key(kind, record.id, record.generation, number).text
    verb = UNDO if verb == "undo" else verb
    return FeedbackGiven(0 if record is None else record.id, verb, item)


def _output(applier: Applier) -> Output:
    return Output(tuple(applier.verdicts), tuple(applier.decided))


def incident_line(event: IncidentEvent) -> str:
    """Return an event of an incident as a line of JSON."""
    return '{"stream": null, ' + event.to_json()[1:]
