"""The command on a terminal: a pseudo-terminal of its own, with a size."""

import fcntl
import os
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from tests.cli.conftest import Done

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def on_terminal(
    *arguments: object,
    width: int = 80,
    environment: Mapping[str, str] | None = None,
    stderr: int | None = None,
    cwd: Path | None = None,
    program: Sequence[str | Path] = (sys.executable, "-m", "newnormal"),
    inherited: Mapping[str, str] | None = None,
) -> Done:
    """Run the command with output and messages on a terminal; `stderr` sends these elsewhere.

    `inherited` stands for the environment of this process, which `environment` adds to.
    """
    master, slave = _opened(width)
    inherited = os.environ if inherited is None else inherited
    variables = {**inherited, "TERM": "xterm-256color", **(environment or {})}
    process = subprocess.Popen(
        list(map(str, [*program, *arguments])),
        stdin=subprocess.DEVNULL,
        stdout=slave,
        stderr=slave if stderr is None else stderr,
        env=variables,
        cwd=cwd,
    )
    os.close(slave)
    found = b""
    with suppress(OSError):  # the end, on Linux
        while part := os.read(master, 1 << 16):
            found += part
    os.close(master)
    messages = b"" if process.stderr is None else process.stderr.read()
    if process.stderr is not None:
        process.stderr.close()
    code = process.wait(timeout=120)
    return Done(code, found.decode().replace("\r\n", "\n"), messages.decode())


def on_terminal_that_closes(*arguments: object, ignore_hangup: bool) -> Done:
    """Run the command on a terminal that is gone before it writes; messages go elsewhere."""
    master, slave = _opened(80)
    os.close(master)
    command = "trap '' HUP; exec \"$@\"" if ignore_hangup else 'exec "$@"'
    process = subprocess.run(
        ["sh", "-c", command, "sh", sys.executable, "-m", "newnormal", *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        stdout=slave,
        stderr=subprocess.PIPE,
        timeout=120,
        check=False,
    )
    os.close(slave)
    return Done(process.returncode, "", process.stderr.decode())


def plain(text: str) -> str:
    """Return a text without colours, and without what was erased."""
    return _ESCAPES.sub("", re.sub(r"[^\n]*\r\x1b\[K", "", text))


def _opened(width: int) -> tuple[int, int]:
    master, slave = os.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, width, 0, 0))
    return master, slave
