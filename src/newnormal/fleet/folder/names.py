"""Names of the files in a fleet's folder."""

import re
import secrets
import stat
from pathlib import Path

from newnormal.errors import StateError
from newnormal.state.targets import what_is

MANIFEST = "manifest.json"
COPY = "manifest.copy.json"  # the same, for a manifest that is damaged
LOCK = "lock"
DAMAGED = "damaged"  # a folder: what a repair took away
AGAIN = "`newnormal fleet check FOLDER` says what is damaged and what can be repaired"

_HEX = "[0-9a-f]{12}"
_OURS = re.compile(
    rf"(live|fits)-{_HEX}\.bin|(events|streams)-{_HEX}\.json"
    r"|\.manifest(\.copy)?\.json\.\d+-[0-9a-f]+\.tmp"
)


def new_name(kind: str, suffix: str = "bin") -> str:
    """Return a name for a file that no other has."""
    return f"{kind}-{secrets.token_hex(6)}.{suffix}"


def files_of(path: Path) -> Path:
    """Return the folder with a fleet's files: of an engine's folder the one inside it."""
    inside = path / "fleet"
    return inside if not (path / MANIFEST).exists() and (inside / MANIFEST).exists() else path


def is_ours(name: str) -> bool:
    """Whether a fleet writes files of such a name, besides the manifest."""
    return _OURS.fullmatch(name) is not None


def ordinary(path: Path) -> Path:
    """Return the path of a file of the folder; a StateError for a link, a pipe or a device.

    A link could lead to a file of somebody else, which would be written to.
    """
    mode = path.lstat().st_mode
    if not stat.S_ISREG(mode):
        kind = "a link" if stat.S_ISLNK(mode) else what_is(path)
        raise StateError(f"{path}: expected an ordinary file, found {kind}", hint=AGAIN)
    return path
