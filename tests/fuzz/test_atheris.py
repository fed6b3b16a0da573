"""Whatever bytes others send are read, or refused in a sentence, soon and in little memory."""

import gzip
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.fuzz import decoding
from tests.fuzz.requests import SAMPLES

_RUNS = 200  # bodies of a case, for each reader
_MESSAGES = (b"21.5", b'{"ts": 1, "motor": {"rpm": 9, "on": true}}', b'[{"id": 7, "v": "2"}, {}]')
_TABLES = (
    b"time;load\n31.12.2026 00:00;0,5\n31.12.2026 00:01;NA\n01.01.2027 00:02;7\n",
    b"# Plant 7\ntime\tstream\tx\n2026-01-01T00:00:00Z\ta\t1e3\n2026-01-01 00:01\tb\t-2\n",
    b'{"time": 1767225600, "a": 1}\n{"time": 1767225660, "a": null, "b": "2"}\n',
    b"time,tag,value\n1767225600,x,1\n1767225600,y,2\n1767225660,x,3\n",
)


def _corpus(folder: Path) -> Path:
    """Return the folder with bodies that are kept, with good ones of each reader."""
    for name in decoding.OPTIONS:
        (folder / name).mkdir(parents=True, exist_ok=True)
        for body in _good(name):
            for choice in range(len(decoding.OPTIONS[name])):
                data = bytes([choice]) + body
                (folder / name / f"good-{sha256(data).hexdigest()[:16]}").write_bytes(data)
    return folder


def _good(name: str) -> Iterator[bytes]:
    if name == "samples":
        yield from SAMPLES
    elif name == "influx":
        from tests.connectors.test_influx import random_line

        for draw in map(random.Random, range(9)):
            yield "\n".join(random_line(draw) for _ in range(3)).encode()
    elif name == "otlp":
        from tests.connectors.test_otlp import BY_HAND
        from tests.connectors.test_otlp import Sender as Metrics

        yield BY_HAND.encode()
        yield from (Metrics(seed).request().body() for seed in range(4))
    elif name == "remote_write":
        from tests.connectors.test_remote_write import Sender, packed

        for seed in range(4):
            yield (made := Sender(seed).request())
            yield packed(made)
    elif name == "gzip":
        yield from (gzip.compress(b"abc" * size, mtime=0) for size in (0, 1, 9_999, 99_999))
        yield gzip.compress(b"a", mtime=0) * 2 + bytes(9)
    else:
        yield from _MESSAGES if name == "messages" else _TABLES


@pytest.mark.skipif(find_spec("atheris") is None, reason="needs atheris")
@pytest.mark.cases(1, 10_000)
def test_any_bytes_are_read_or_refused_in_a_sentence(tmp_path: Path, cases: range) -> None:
    kept = Path(os.environ.get("NEWNORMAL_FUZZ") or Path.home() / ".cache/newnormal/fuzz")
    folder = _corpus(kept if "NEWNORMAL_SLICE" in os.environ else tmp_path)
    given = [str(folder), str(cases.start + 1), str(_RUNS * len(cases)), *decoding.OPTIONS]
    command = [sys.executable, "-m", "tests.fuzz.decoding", *given]
    done = subprocess.run(
        command, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    lines = [line for line in done.stdout.splitlines() if not line.startswith(("#", "INFO"))]
    assert done.returncode == 0, "\n".join(lines)[-6000:]
    assert done.stdout.count("\tDONE ") == len(decoding.OPTIONS), done.stdout[-2000:]
