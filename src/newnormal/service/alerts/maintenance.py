"""Maintenance windows: times in which alerts of some streams are not sent."""

import re
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase

from newnormal.engine.store.settings import SettingsTable
from newnormal.errors import ParameterError

SPACE = "maintenance"  # of the store's settings

_LONGEST_TEXT = 500
_ID = re.compile(r"[0-9a-f]{12}")


@dataclass(frozen=True)
class Window:
    """A maintenance window.

    An alert whose item opened in it is not sent, and neither is the one that resolves it.
    """

    id: str  # its name
    # In ns; `end` is not part of it. Items are compared by the times of their samples.
    begin: int
    end: int
    # Which streams, as a pattern of the shell such as ``"press-*"``; ``"*"`` is all.
    streams: str = "*"
    # Why, and who made it.
    reason: str = ""
    who: str = ""

    def __str__(self) -> str:
        reason = f": {self.reason}" if self.reason else ""
        return f"maintenance window {self.id}{reason}"

    def covers(self, streams: Sequence[str], opened: int, updated: int) -> bool:
        """Return whether an item of these streams, all of them, opened or was reported in it."""
        if not (self.begin <= updated and opened < self.end):
            return False
        return all(fnmatchcase(name, self.streams) for name in streams or [""])


def add_window(
    settings: SettingsTable,
    begin: int,
    end: int,
    streams: str = "*",
    *,
    reason: str = "",
    who: str = "",
) -> Window:
    """Make a window and keep it in the settings.

    If it ends before it begins, or a text is empty or too long, it is a ParameterError.
    """
    if end <= begin:
        raise ParameterError(
            "maintenance window: expected an end after the beginning, found an earlier one",
            hint="give begin and end in the same zone",
        )
    for name, text, least in (("streams", streams, 1), ("reason", reason, 0), ("who", who, 0)):
        if not least <= len(text) <= _LONGEST_TEXT:
            raise ParameterError(
                f"maintenance window: {name}: expected {least} to {_LONGEST_TEXT} characters, "
                f"found {len(text)}",
                hint='"*" is all streams' if name == "streams" else None,
            )
    window = Window(secrets.token_hex(6), begin, end, streams, reason, who)
    settings.put(SPACE, window.id, {k: v for k, v in asdict(window).items() if k != "id"})
    return window


def end_window(settings: SettingsTable, id: str) -> bool:  # noqa: A002
    """Remove a window; return False if there is none of that name."""
    if _ID.fullmatch(id) is None or id not in settings.all(SPACE):
        return False
    settings.delete(SPACE, id)
    return True


def windows(settings: SettingsTable) -> list[Window]:
    """Return all windows, the one that begins last first."""
    kept = [Window(id=name, **value) for name, value in settings.all(SPACE).items()]
    return sorted(kept, key=lambda window: (-window.begin, window.id))


def covering(
    several: Iterable[Window], streams: Sequence[str], opened: int, updated: int
) -> Window | None:
    """Return the window that an item is in, the one that ends last of several; None: in none."""
    covers = (window for window in several if window.covers(streams, opened, updated))
    return max(covers, key=lambda window: window.end, default=None)
