"""Processes that are fed cases and may crash or hang: they are started again, and it is told."""

import json
import os
import queue
import select
import signal
import subprocess
import sys
import tempfile
import traceback
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
# Kernels that check every index: compiled so, they have a cache of their own.
CHECKED = {
    "NUMBA_BOUNDSCHECK": "1",
    "NUMBA_CACHE_DIR": f"{os.environ.get('NUMBA_CACHE_DIR', ROOT / '.numba_cache')}-checked",
}
START = 600.0  # seconds, compiling included
HANG = 60.0  # seconds without an answer
_FEW = 200  # cases


@dataclass
class Found:
    """What became of all cases."""

    outcomes: Counter[str] = field(default_factory=Counter)
    bad: list[str] = field(default_factory=list)  # one text a case, with how to repeat it


def told(found: Found) -> str:
    """Return what became of all cases as a text, for a failure."""
    shown = "\n".join(found.bad[:12])
    return f"{len(found.bad)} of {found.outcomes.total()}: {dict(found.outcomes)}\n{shown}"


class _Child:
    """One process, and what it was last asked."""

    def __init__(self, module: str, environment: Mapping[str, str]) -> None:
        self.errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed by `end`
        self.process = subprocess.Popen(
            [sys.executable, "-m", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
            cwd=ROOT,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1", **environment},
        )
        self.asked: deque[int] = deque(maxlen=4)
        if (ready := self._line(START)) != "ready\n":
            raise AssertionError(f"the child did not start: {ready!r}\n{self.end()}")

    def ask(self, seed: int, index: int) -> dict[str, Any]:
        """Return the answer; of a process that died or hangs, how it ended."""
        self.asked.append(index)
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(f"{seed} {index}\n")
            self.process.stdin.flush()
            line = self._line(HANG)
        except BrokenPipeError:
            line = ""
        if line:
            answer: dict[str, Any] = json.loads(line)
            return answer
        hangs = line is None
        said = self.end()
        code = self.process.returncode
        how = f"hangs for {HANG:g} s" if hangs else f"exit code {code}"
        if not hangs and code < 0:
            how = f"signal {signal.Signals(-code).name}"
        before = list(self.asked)[:-1]
        return {"outcome": how, "message": f"cases before it in that process: {before}; {said}"}

    def _line(self, seconds: float) -> str | None:
        """Return the next line, "" at the end of the output, None after so many seconds."""
        assert self.process.stdout is not None
        if not select.select([self.process.stdout], [], [], seconds)[0]:
            return None
        return self.process.stdout.readline()

    def end(self) -> str:
        """End the process, and return the end of what it wrote to standard error."""
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()
        try:
            self.process.wait(timeout=1.0)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.errors.seek(0)
        said = self.errors.read()[-500:]
        self.errors.close()
        return said


def tried(
    module: str,
    seed: int,
    indices: Sequence[int],
    *,
    processes: int | None = None,
    environment: Mapping[str, str] | None = None,
    good: tuple[str, ...] = ("loaded", "refused"),
    describe: Callable[[int, int], str] | None = None,
) -> Found:
    """Feed cases to processes of a module, and return what became of them.

    `describe` tells what a case is whose process did not live to tell it. A process compiles for
    seconds before its first case: without `processes`, a few cases have one.
    """
    processes = processes or (1 if len(indices) <= _FEW else 2)
    waiting: queue.SimpleQueue[int] = queue.SimpleQueue()
    for index in indices:
        waiting.put(index)
    found = Found()

    def work(_: int) -> None:
        child = _Child(module, environment or {})
        while True:
            try:
                index = waiting.get_nowait()
            except queue.Empty:
                break
            answer = child.ask(seed, index)
            outcome = str(answer["outcome"])
            found.outcomes[outcome] += 1
            if outcome not in good:
                about = answer.get("told") or (describe(seed, index) if describe else "")
                set_ = " ".join(f"{key}={value}" for key, value in (environment or {}).items())
                found.bad.append(
                    f"case {index}: {outcome}: {about}\n"
                    f"  {answer.get('message', '')}\n"
                    f"  repeat: {set_}{' ' if set_ else ''}python -m {module} {seed} {index}"
                )
            if child.process.poll() is not None:
                child = _Child(module, environment or {})
        child.end()

    with ThreadPoolExecutor(processes) as pool:
        list(pool.map(work, range(processes)))
    return found


def in_process(act: Callable[[], str]) -> str:
    """Return what a function returns in a forked process, or how that ended."""
    reader, writer = os.pipe()
    process = os.fork()
    if process == 0:
        os.close(reader)
        try:
            found = act()
        except BaseException:  # noqa: BLE001 - the process must end here
            found = f"FAILED {traceback.format_exc()}"
        os.write(writer, found.encode()[:60_000])
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as file:
        found = file.read().decode()
    _, status = os.waitpid(process, 0)
    return f"FAILED signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else found
