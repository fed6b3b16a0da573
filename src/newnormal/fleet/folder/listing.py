"""JSON files of a folder that carry a digest: the names of all streams, events not yet taken."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from newnormal.errors import StateError
from newnormal.fleet.folder.manifest import read_manifest
from newnormal.fleet.folder.names import AGAIN, files_of, new_name, ordinary
from newnormal.fleet.results import FleetEvent
from newnormal.packing.events import EventReader, event_facts
from newnormal.state.facts import MALFORMED, Facts
from newnormal.state.files import write_new
from newnormal.types import Event


def write_listing(folder: Path, kind: str, text: str) -> str:
    """Write a JSON text after its digest, under a new name, which is returned."""
    name = new_name(kind, "json")
    digest = hashlib.sha256(text.encode()).hexdigest()
    write_new(folder / name, [f'"{digest}"\n{text}\n'.encode()])
    return name


def read_listing(folder: Path, name: str) -> Any:
    """Return the values of such a file."""
    try:
        content = ordinary(folder / name).read_bytes()
        digest, text = content[:67], content[67:-1]
        if digest == f'"{hashlib.sha256(text).hexdigest()}"\n'.encode():
            return json.loads(text)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise StateError(f"cannot read {folder / name}: {error.strerror}", hint=AGAIN) from error
    except (ValueError, RecursionError):
        pass
    raise StateError(f"{name} is truncated or corrupted", hint=AGAIN)


def stream_names(path: Path) -> tuple[str, ...]:
    """Return the names of the streams of a fleet's folder, or of an engine's."""
    folder = files_of(path)
    return tuple(read_listing(folder, read_manifest(folder).streams)["name"])


class EventWriter:
    """Writes the events that nobody has taken, if they are others than before."""

    def __init__(self) -> None:
        self.name: str | None = None
        self._texts: dict[int, tuple[FleetEvent, str]] = {}  # each is made to JSON once

    def write(self, folder: Path, events: Iterable[FleetEvent]) -> str | None:
        """Return the name of the file; None without events."""
        texts = {id(event): self._texts.get(id(event)) or (event, _text(event)) for event in events}
        if texts.keys() != self._texts.keys() or (texts and self.name is None):
            self.name = None
            if texts:
                text = f"[{','.join(text for _, text in texts.values())}]"
                self.name = write_listing(folder, "events", text)
        self._texts = texts
        return self.name


def _text(event: FleetEvent) -> str:
    return json.dumps(fleet_event_facts(event), allow_nan=False)


def fleet_event_facts(event: FleetEvent) -> dict[str, Any]:
    """Return an event as JSON values that `events_of_facts` reads."""
    return {"stream": event.stream, **event_facts(event.event)}


def read_events(
    folder: Path, name: str, readers: Mapping[str, EventReader], most: int
) -> list[FleetEvent]:
    """Return the events of a file; those of streams that are gone are left out."""
    try:
        return events_of_facts(read_listing(folder, name), readers, most)
    except StateError as error:
        raise StateError(f"{name}: {error.message}", hint=AGAIN) from None
    except MALFORMED as error:
        raise StateError(f"{name}: {error}", hint=AGAIN) from error


def events_of_facts(
    values: Any, readers: Mapping[str, EventReader], most: int = 10_000
) -> list[FleetEvent]:
    """Return the events of JSON values; those of streams that are gone are left out."""
    events = []
    for part in Facts({"events": values}).parts("events", most):
        stream = part.text("stream")
        if stream in readers:
            event: Event = readers[stream].event(part)
            events.append(FleetEvent(stream, event))
    return events
