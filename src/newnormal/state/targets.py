"""Whether a file or a folder can be written: found out before long work, not after it."""

import errno
import os
import secrets
import stat
from collections.abc import Callable, Iterable
from pathlib import Path

from newnormal.errors import NewnormalError, StateError
from newnormal.state.files import remove_file

_PathLike = str | os.PathLike[str]
_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)
LOOP = "a link that leads to itself"
_ELSEWHERE = "choose a file in a folder that exists and can be written to"


def check_file(
    path: _PathLike, others: Iterable[_PathLike] = (), *, error: type[NewnormalError] = StateError
) -> None:
    """Raise an error unless a file can be written here that is none of `others`.

    `path`: where the file is to be; a link to a file counts as that. `others`: what is read
    meanwhile, or written too: ``"-"`` and what is not there are no files. `error`: the class of the
    error.
    """
    for other in others:
        if same_file(path, other):
            raise error(
                f"cannot write {path}: expected another file than {other}, found the same",
                hint="choose another name",
            )
    target = resolved(path, error)
    folder = target.parent
    if (obstacle := what_is(target)) is not None:
        raise error(f"cannot write {path}: expected a file, found {obstacle}", hint=_ELSEWHERE)
    if not folder.is_dir():
        named = Path(path).parent
        obstacle = f"a file called {named}" if folder.exists() else f"no folder {named}"
        raise error(f"cannot write {path}: found {obstacle}", hint=_ELSEWHERE)
    _try(path, folder, target.name, error)


def check_folder(path: _PathLike, *, error: type[NewnormalError] = StateError) -> None:
    """Raise an error unless files can be written into this folder, which may not be there yet."""
    target = resolved(path, error)
    while not target.exists() and target != target.parent:
        target = target.parent
    if not target.is_dir():
        raise error(
            f"cannot write {path}: expected a folder, found a file called {target}",
            hint="choose another name",
        )
    _try(path, target, "newnormal", error)


def check_folder_of(path: _PathLike, kind: str, is_one: Callable[[Path], bool]) -> None:
    """Raise a StateError unless this is a new folder, or one that `is_one` says is of a `kind`.

    The folder around a new one must be there: its name may be a slip.
    """
    check_folder(path)
    folder = Path(path)
    if folder.is_dir() and any(folder.iterdir()) and not is_one(folder):
        raise StateError(
            f"cannot write {path}: expected a new folder or that of {kind}, "
            "found a folder with other files",
            hint="choose another name",
        )
    if not folder.parent.is_dir():
        raise StateError(
            f"cannot write {path}: found no folder {folder.parent}",
            hint="choose a folder that exists",
        )


def same_file(path: _PathLike, other: _PathLike) -> bool:
    """Whether two paths lead to one file that is there, by any name or link.

    >>> same_file(__file__, Path(__file__).parent / "." / Path(__file__).name)
    True
    """
    if str(other) == "-" or str(path) == "-":
        return False
    try:
        return os.path.samefile(path, other)
    except OSError:  # one of them is not there
        return False


def what_is(path: _PathLike) -> str | None:
    """Return what a path leads to that is no ordinary file; None for such a file, or nothing.

    >>> what_is(os.devnull), what_is(os.curdir), what_is(__file__)
    ('a device', 'a folder', None)
    """
    try:
        mode = os.stat(path).st_mode
    except OSError as error:
        return LOOP if error.errno == errno.ELOOP else None
    return next((name for test, name in _KINDS if test(mode)), None)


def resolved(path: _PathLike, error: type[NewnormalError] = StateError) -> Path:
    """Return where a path leads; an error for a link that leads to itself."""
    try:
        target = Path(path).resolve()
        os.lstat(path)
        looped = what_is(path) == LOOP
    except (FileNotFoundError, NotADirectoryError):
        return Path(path).resolve()
    except (OSError, RuntimeError):  # Python up to 3.12 raises a RuntimeError for a loop
        looped = True
    if looped:
        raise error(
            f"cannot use {path}: expected a file, found {LOOP}",
            hint="choose another name, or mend the link",
        )
    return target


def _try(path: _PathLike, folder: Path, name: str, error: type[NewnormalError]) -> None:
    """Raise an error if no file can be made in a folder: permissions alone do not tell."""
    trial = folder / f".{name[:100]}.{os.getpid()}-{secrets.token_hex(4)}.tmp"
    try:
        os.close(os.open(trial, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except OSError as found:
        raise error(f"cannot write {path}: {found.strerror}", hint=_ELSEWHERE) from found
    remove_file(trial)
