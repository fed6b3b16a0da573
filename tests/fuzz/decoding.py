"""What is written in Python and reads what others send, fed by atheris, which follows its branches.

``python -m tests.fuzz.decoding FOLDER SEED RUNS NAME...`` feeds bodies to readers, whose folders
keep them; ``python -m tests.fuzz.decoding NAME BASE64`` feeds one body to one reader. The first
byte of a body chooses the options; a large one has the rest repeated.
"""

import base64
import os
import resource
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

_SECONDS, _MEGABYTES = 2.0, 500  # that a body may take
_REPEATED, _TIMES = 250, 200
_NOW = 1_767_225_600_000_000_000
_INSTRUMENTED = ["newnormal.io", "newnormal.tabular", "newnormal.service.api.bodies"]
_JSON, _PROTOBUF = "application/json", "application/x-protobuf"
_QUERIES = ("", "precision=s", "rates=*", "by=host,region&without=cpu", "accept_partial=false")
_PLAIN = {"content-type": _PROTOBUF, "content-encoding": "identity"}
OPTIONS: dict[str, list[Mapping[str, Any]]] = {
    "samples": [
        *({"content-type": kind} for kind in ("", _JSON, "application/x-ndjson", "text/csv")),
        {":query": "stream=a"},
    ],
    "influx": [{":query": query} for query in _QUERIES],
    "otlp": [
        {"content-type": _JSON},
        {"content-type": _PROTOBUF},
        {"content-type": _JSON, ":query": "rates=no&by=host.name"},
    ],
    "remote_write": [
        _PLAIN,
        {**_PLAIN, ":query": "buckets=yes&counters=*"},
        {"content-type": _PROTOBUF, "content-encoding": "snappy"},
    ],
    "messages": [
        {},
        {"stream": "id", "time": "ts"},
        {"channel": "c.d", "value": "v"},
        {"fields": ["a", "b.c"]},
    ],
    "gzip": [{"size": 10**9}, {"size": 7}],
    "tables": [{}, {"format": "csv"}, {"format": "jsonl"}, {"by": "stream"}, {"long": True}],
    "lines": [{}, {"format": "csv"}, {"format": "jsonl"}],
}

_WORDS = (
    *("stream", "time", "times", "ts", "values", "channels", "channel", "value", "resourceMetrics"),
    *("scopeMetrics", "metrics", "gauge", "sum", "dataPoints", "timeUnixNano", "asDouble", "name"),
    *("attributes", "aggregationTemporality", "isMonotonic", "2026-01-01T00:00:00Z", "31.12.2026"),
    *("1767225600", "null", "NaN", "1e999", "true", "[[1,2],[3,4]]", "{}", ",", ";", "host=a"),
)


def _decoder(name: str) -> Callable[[bytes, Mapping[str, Any]], None]:
    from newnormal.io.decoders.base import DecoderLimits
    from newnormal.io.registry import find_decoder

    kind, limits = find_decoder(name), DecoderLimits(10_000, 50, 1 << 20)

    def read(body: bytes, headers: Mapping[str, Any]) -> None:
        decoder = kind(limits, lambda: _NOW)
        arrivals = decoder.decode(body, headers)
        _check(arrivals)
        decoder.response(arrivals, 1)

    return read


def _check(arrivals: Any) -> None:
    import numpy as np

    for each in arrivals:
        assert each.times.dtype == np.int64 and each.values.dtype == np.float64
        assert each.values.shape == (len(each.times), len(each.channels))
        assert not np.isinf(each.values).any()
        for name in (each.stream, *each.channels):
            assert name.isprintable() and 0 < len(name) <= 200, name


def _message(body: bytes, options: Mapping[str, Any]) -> None:
    from newnormal.io.options import Options
    from newnormal.io.payloads import Payloads, together

    payloads = Payloads(Options("source bus", dict(options)))
    values = payloads.read(body, stream="press", received=_NOW, channel="c")
    _check(together(values, 10_000))
    if not values:
        assert isinstance(payloads.lacking(body), str)


def _gzip(body: bytes, options: Mapping[str, Any]) -> None:
    from newnormal.service.api.bodies import Gunzip

    gunzip = Gunzip(100_000)
    for at in range(0, len(body), options["size"]):
        assert sum(map(len, gunzip.pieces(body[at : at + options["size"]]))) <= 100_000
    gunzip.end()


def _table(body: bytes, options: Mapping[str, Any]) -> None:
    from newnormal.tabular import read, read_tables

    path = Path(tempfile.gettempdir()) / f"newnormal-fuzz-{os.getpid()}"
    path.write_bytes(body)
    try:
        (read_tables if {"by", "long"} & set(options) else read)(path, **options)
    finally:
        path.unlink()


def _lines(body: bytes, options: Mapping[str, Any]) -> None:
    from newnormal.tabular import LineParser, Reading

    parser = LineParser(Reading(**options))
    lines = body.decode(errors="replace").split("\n")
    for at in range(0, len(lines), 3):
        parser.parse_many(lines[at : at + 3])


def _reader(name: str) -> Callable[[bytes, Mapping[str, Any]], None]:
    others = {"messages": _message, "gzip": _gzip, "tables": _table, "lines": _lines}
    return others.get(name) or _decoder(name)


def _most() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def fed(name: str, read: Callable[[bytes, Mapping[str, Any]], None], data: bytes) -> None:
    """Feed a body to a reader; whatever it does but reading or refusing it, is an error."""
    from newnormal.errors import NewnormalError
    from newnormal.service.api.problems import HttpProblem

    choice, body = (data[0], data[1:]) if data else (0, b"")
    if choice >= _REPEATED:
        body *= _TIMES
    began, before = time.process_time(), _most()
    try:
        try:
            read(body, OPTIONS[name][choice % len(OPTIONS[name])])
        except (NewnormalError, HttpProblem) as error:
            text = error.message if isinstance(error, NewnormalError) else error.error
            assert len(text.split()) > 3 and len(text) < 2_000, text
        took, grown = time.process_time() - began, _most() - before
        assert took < _SECONDS, f"it took {took:.1f} s"
        assert grown < _MEGABYTES, f"it took {grown} MB"
    except BaseException:
        text = base64.b64encode(data).decode()
        print(f"\nrepeat: .venv/bin/python -m tests.fuzz.decoding {name} {text}", flush=True)
        raise


def _fuzz(name: str, folder: Path, seed: int, runs: int) -> None:
    """Run bodies; it ends the process. What fails is kept, and is first the next time."""
    import atheris

    read = _reader(name)
    for options in OPTIONS[name]:
        with suppress(Exception):  # what is made at first use is no body's
            read(b"1", options)
    runs += sum(1 for _ in folder.iterdir())
    flags = [f"-runs={runs}", f"-seed={seed}", f"-artifact_prefix={folder}/", "-max_len=4096"]
    flags += ["-timeout=60", "-rss_limit_mb=3000", f"-dict={folder}.words"]
    words = "".join(f'"{word}"\n"\\"{word}\\":"\n' for word in _WORDS)
    Path(f"{folder}.words").write_text(words, encoding="utf-8")
    atheris.Setup([sys.argv[0], *flags, str(folder)], lambda data: fed(name, read, data))
    atheris.Fuzz()


def main() -> int:
    """Run what the command line says; 1 if anything was found."""
    warnings.simplefilter("error", RuntimeWarning)
    if len(sys.argv) == 3:
        fed(sys.argv[1], _reader(sys.argv[1]), base64.b64decode(sys.argv[2]))
        return 0
    import atheris

    with atheris.instrument_imports(include=_INSTRUMENTED):
        import newnormal.io.decoders.influx
        import newnormal.io.decoders.otlp
        import newnormal.io.decoders.remote_write
        import newnormal.io.decoders.samples
        import newnormal.io.payloads
        import newnormal.service.api.bodies
        import newnormal.tabular  # noqa: F401
    ends = []
    for name in sys.argv[4:]:
        sys.stdout.flush()
        if (child := os.fork()) == 0:
            _fuzz(name, Path(sys.argv[1]) / name, int(sys.argv[2]), int(sys.argv[3]))
        ends.append(os.waitpid(child, 0)[1])
    return int(any(ends))


if __name__ == "__main__":
    sys.exit(main())
