"""Where in its input a fleet's watch is: what a marker in the fleet's log says."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

from newnormal.errors import StateError

KEYS = 100  # of applied feedback, that a marker remembers


@dataclass(frozen=True)
class Place:
    """A place in an input.

    Attributes
    ----------
    kind
        The kind of the input, as in a one-stream checkpoint.
    snapshot
        The place behind the samples of the record that the marker belongs to.
    feedback
        Keys of the newest feedback applied, that record's included.
    stream
        The stream, if that record is feedback.
    clean
        Whether all output before it was written, as it is when a watch has ended.
    zone
        The zone of the samples' times, or None.
    """

    kind: str
    snapshot: dict[str, Any] = field(default_factory=dict)
    feedback: tuple[str, ...] = ()
    stream: str | None = None
    clean: bool = False
    zone: str | None = None

    def to_bytes(self) -> bytes:
        """Return the marker."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def parse(cls, marker: bytes) -> Place:
        """Return what a marker says; a StateError for anything else."""
        try:
            found = json.loads(marker)
            found["feedback"] = tuple(found["feedback"])
            place = cls(**found)
            if not isinstance(place.snapshot, dict):
                raise TypeError("a place that is no object")
            if not all(isinstance(each, str) for each in (place.kind, *place.feedback)):
                raise TypeError("a key that is no text")
        except (TypeError, ValueError, KeyError, RecursionError) as error:
            raise StateError(
                f"expected a note of `newnormal watch` in the fleet's log, found {marker[:60]!r}",
                hint="this folder was used by another program: save the fleet to a new one",
            ) from error
        return place
