"""`newnormal serve --check`: whether the service can start, and whether its connections work."""

import errno
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from newnormal.cli.console import FAILED, put
from newnormal.cli.serving import PortInUseError, listening
from newnormal.errors import NewnormalError, StateError
from newnormal.fleet.folder.lock import process_using
from newnormal.texts import number_text, number_texts, shown

if TYPE_CHECKING:
    from newnormal.service.config import ServiceConfig

_LEAST = 50_000_000  # bytes that must be free: the log and the store grow by some of it at a start
_LISTENS = "0A"  # the state of a socket that listens, in /proc


def check(config: "ServiceConfig", reachable: "Callable[[ServiceConfig], None]") -> None:
    """Print a line for each thing that was tried; exit with 1 if one failed.

    `reachable` raises an error if others can reach the service and nothing holds them off.
    """
    from newnormal.service.connectors import make_any_sink, make_source

    name = "the configuration" if config.path is None else str(config.path)
    put(f"ok      {shown(name)}")
    tried: list[tuple[str, Callable[[], str]]] = [
        ("host", lambda: _host(config, reachable)),
        ("data", lambda: _data(config.data)),
    ]
    tried += [
        (f"sink {each.name}", lambda each=each: _tried(make_any_sink(each)))  # type: ignore[misc]
        for each in config.sinks
    ]
    tried += [
        (f"source {each.name}", lambda each=each: _tried(make_source(each)))  # type: ignore[misc]
        for each in config.sources
    ]
    if not all([_is_well(name, attempt) for name, attempt in tried]):  # noqa: C419 (each is tried)
        sys.exit(FAILED)


def _is_well(name: str, attempt: Callable[[], str]) -> bool:
    """Try one thing, and print what was found."""
    try:
        problem = attempt()
    except Exception as error:  # noqa: BLE001  (a connector of somebody else may raise any)
        message = error.message if isinstance(error, NewnormalError) else repr(error)
        if not message.startswith((f"{name}: ", f"{name}, ")):
            message = f"{name}: {message}"
        put(f"failed  {shown(message)}")
        if isinstance(error, NewnormalError) and error.hint is not None:
            put(f"        hint: {shown(error.hint)}")
        return False
    put(f"{'warning' if 'warning: ' in problem else 'ok':<8}{shown(f'{name}: {problem}')}")
    return True


def _tried(connection: Any) -> str:
    try:
        return str(connection.check())
    finally:
        connection.close()


def _host(config: "ServiceConfig", reachable: "Callable[[ServiceConfig], None]") -> str:
    """Return where the service would listen; raise an error if it could not."""
    reachable(config)
    where = f"{config.host}, {f'port {config.port}' if config.port else 'any free port'}"
    try:
        with listening(config):
            return where
    except PortInUseError:
        process = process_using(config.data)
        listens = None if process is None else _listens(process, config.port)
        if process is None or listens is False:
            raise
        by = "by" if listens else "perhaps by"
        return f"{where}, in use {by} the service of {config.data}, process {process}"


def _listens(process: int, port: int) -> bool | None:
    """Return whether a process listens on a port; None where the system does not tell."""
    proc = Path("/proc", str(process))
    sockets = set()
    lines = []
    try:
        for handle in (proc / "fd").iterdir():
            with suppress(FileNotFoundError):  # closed meanwhile
                sockets.add(os.readlink(handle))
        for name in ("tcp", "tcp6"):
            with suppress(FileNotFoundError):  # a system without IPv6
                lines += (proc / "net" / name).read_text().splitlines()[1:]
    except OSError:
        return None
    for line in lines:
        _, local, _, state, _, _, _, _, _, inode, *_ = line.split()
        its_port = int(local.rpartition(":")[2], 16)
        if state == _LISTENS and its_port == port and f"socket:[{inode}]" in sockets:
            return True
    return False


def _data(folder: Path) -> str:
    """Return what a data folder is; raise an error if nothing can be written there."""
    there = folder if folder.exists() else folder.absolute().parent
    try:
        with tempfile.TemporaryFile(dir=there):
            pass
        free = shutil.disk_usage(there).free
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise _full(there, 0) from None
        raise StateError(
            f"expected a folder that can be written, found {there}: {error.strerror}",
            hint="make it, or give it to the user that the service runs as",
        ) from None
    if free < _LEAST:
        raise _full(there, free)
    process = process_using(folder)
    used = "" if process is None else f"; in use by a service that runs, process {process}"
    return f"{folder}, {number_text(free, 'B')} free{used}"


def _full(folder: Path, free: int) -> StateError:
    least, rest = number_texts(_LEAST, free, unit="B")
    return StateError(
        f"expected at least {least} free in {folder}, found {rest}",
        hint="make room on that disk, or give another folder with --data",
    )
