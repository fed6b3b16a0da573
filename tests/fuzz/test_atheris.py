"""Whatever bytes others send are read, or refused in a sentence, soon and in little memory."""

import gzip
import os
import random
import subprocess
import sys
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.fuzz.decoding import OPTIONS
from tests.fuzz.requests import SAMPLES

_RUNS = 200  # bodies of a case, for each reader


def _good() -> dict[str, list[bytes]]:
    """Return bodies to begin with."""
    from tests.connectors import test_influx, test_otlp, test_remote_write
    from tests.connectors.naive_series import odd

    draw = random.Random(1)
    series = [test_remote_write.Sender(seed).request() for seed in range(4)]
    metrics = [test_otlp.Sender(seed).request().body() for seed in range(4)]
    series, metrics = (
        [*good, *(odd(draw, each) for each in good * 5)] for good in (series, metrics)
    )
    return {
        "samples": [*SAMPLES],
        "influx": [test_influx.random_line(draw).encode() for _ in range(20)],
        "otlp": [test_otlp.BY_HAND.encode(), *metrics],
        "remote_write": [*series, *map(test_remote_write.packed, series)],
        "messages": [b"21.5", b'{"ts": 1, "a": {"b": true}}', b'[{"id": 7, "v": "2"}, {}]'],
        "gzip": [gzip.compress(b"abc" * size, mtime=0) * 2 for size in (0, 1, 9_999)],
        "tables": [
            b"time;load\n31.12.2026 00:00;0,5\n31.12.2026 00:01;NA\n01.01.2027 00:02;7\n",
            b"# A\ntime\tstream\tx\n2026-01-01T00:00:00Z\ta\t1e3\n2026-01-01 00:01\tb\t-2\n",
            b'{"time": 1767225600, "a": 1}\n{"time": 1767225660, "a": null, "b": "2"}\n',
            b"time,tag,value\n1767225600,x,1\n1767225600,y,2\n1767225660,x,3\n",
        ],
    }


@pytest.mark.skipif(find_spec("atheris") is None, reason="needs atheris")
@pytest.mark.cases(1, 5_000)
def test_any_bytes_are_read_or_refused_in_a_sentence(tmp_path: Path, cases: range) -> None:
    kept = Path(os.environ.get("NEWNORMAL_FUZZ") or Path.home() / ".cache/newnormal/fuzz")
    folder = kept if "NEWNORMAL_SLICE" in os.environ else tmp_path
    for name, bodies in _good().items():
        (folder / name).mkdir(parents=True, exist_ok=True)
        for data in (bytes([at]) + body for body in bodies for at in range(len(OPTIONS[name]))):
            (folder / name / f"good-{sha256(data).hexdigest()[:16]}").write_bytes(data)
    given = [f"{folder}", f"{cases.start + 1}", f"{_RUNS * len(cases)}", *OPTIONS]
    command = [sys.executable, "-m", "tests.fuzz.decoding", *given]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, f"{done.stdout[-4000:]}\n{done.stderr[-2000:]}"
    assert done.stderr.count("\tDONE ") == len(OPTIONS), done.stderr[-2000:]
