"""What is written in Python and reads what others send, fed by atheris, which follows its branches.

``python -m tests.fuzz.decoding FOLDER SEED RUNS NAME...`` feeds bodies to readers, whose folders
keep them; ``python -m tests.fuzz.decoding NAME BASE64`` feeds one body to one reader. The first
byte of a body chooses the options; a large one has the rest repeated.
"""

import base64
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

_SECONDS = 2.0  # of a processor that a body may take
_FLAGS = ("-max_len=4096", "-timeout=60", "-rss_limit_mb=700")  # 200 MB without any body
_REPEATED, _TIMES = 250, 50
_SLOW = 10  # times as long as others a whole file takes
_INSTRUMENTED = ["newnormal.io", "newnormal.tabular", "newnormal.service.api.bodies"]
_WORDS = (
    *("stream", "time", "times", "ts", "values", "channels", "channel", "value", "resourceMetrics"),
    *("scopeMetrics", "metrics", "gauge", "sum", "dataPoints", "timeUnixNano", "asDouble", "name"),
    *("attributes", "aggregationTemporality", "isMonotonic", "2026-01-01T00:00:00Z", "31.12.2026"),
    *("1767225600", "null", "NaN", "1e999", "true", "[[1,2],[3,4]]", "{}", ",", ";", "host=a"),
)
_JSON, _FORM = "application/json", {"content-type": "application/x-protobuf"}
_FORMS = ("", _JSON, "application/x-ndjson", "text/csv")
_QUERIES = ("", "precision=s", "rates=*", "by=host,region&without=cpu", "accept_partial=false")
_PLAIN = {**_FORM, "content-encoding": "identity"}
OPTIONS: dict[str, list[Mapping[str, Any]]] = {
    "samples": [*({"content-type": form, ":query": "stream=a"} for form in _FORMS), {}],
    "influx": [{":query": query} for query in _QUERIES],
    "otlp": [{"content-type": _JSON}, _FORM, {"content-type": _JSON, ":query": "rates=no"}],
    "remote_write": [_PLAIN, {**_PLAIN, ":query": "buckets=yes&rates=*"}, _FORM],
    "messages": [{}, {"stream": "id", "time": "ts"}, {"channel": "c.d", "value": "v"}],
    "gzip": [{"size": 10**9}, {"size": 7}],
    "tables": [{}, {"format": "csv"}, {"format": "jsonl"}, {"by": "stream"}, {"long": True}],
}


def _feed(name: str, data: bytes) -> None:
    """Feed a body to a reader; whatever it does but reading or refusing it, is an error."""
    from newnormal.errors import NewnormalError
    from newnormal.service.api.problems import HttpProblem
    from newnormal.testing.decoders import _check_arrival

    choice, body = (data[0], data[1:]) if data else (0, b"")
    body *= _TIMES if choice >= _REPEATED else 1
    began = time.process_time()
    try:
        try:
            for arrival in _reader(name)(body, OPTIONS[name][choice % len(OPTIONS[name])]):
                _check_arrival(arrival)
        except (NewnormalError, HttpProblem) as error:
            text = error.message if isinstance(error, NewnormalError) else error.error
            assert len(text.split()) > 3 and len(text) < 2_000, text
        took = time.process_time() - began
        assert took < _SECONDS, f"it took {took:.1f} s"
    except BaseException:
        text = base64.b64encode(data).decode()
        print(f"\nrepeat: .venv/bin/python -m tests.fuzz.decoding {name} {text}", flush=True)
        raise


def _reader(name: str) -> Callable[[bytes, Mapping[str, Any]], Iterable[Any]]:
    """Return what reads a body with some options and gives its samples."""
    from newnormal.io.decoders.base import DecoderLimits
    from newnormal.io.options import Options
    from newnormal.io.payloads import Payloads, together
    from newnormal.io.registry import find_decoder
    from newnormal.service.api.bodies import Gunzip
    from newnormal.tabular import read, read_tables

    def decode(body: bytes, headers: Mapping[str, Any]) -> Iterable[Any]:
        decoder = find_decoder(name)(DecoderLimits(10_000, 50, 1 << 20), lambda: 10**18)
        arrivals = decoder.decode(body, headers)
        decoder.response(arrivals, 1)
        return arrivals

    def message(body: bytes, options: Mapping[str, Any]) -> Iterable[Any]:
        payloads = Payloads(Options("source bus", dict(options)))
        values = payloads.read(body, stream="press", received=10**18, channel="c")
        assert values or isinstance(payloads.lacking(body), str)
        return together(values, 10_000)

    def gzip(body: bytes, options: Mapping[str, Any]) -> Iterable[Any]:
        gunzip, size = Gunzip(100_000), options["size"]
        pieces = [gunzip.pieces(body[at : at + size]) for at in range(0, len(body), size)]
        assert sum(len(piece) for each in pieces for piece in each) <= 100_000
        gunzip.end()
        return ()

    def table(body: bytes, options: Mapping[str, Any]) -> Iterable[Any]:
        with open(os.memfd_create("table"), "w+b") as file:
            file.write(body)
            file.flush()
            path = f"/proc/self/fd/{file.fileno()}"
            (read_tables if {"by", "long"} & set(options) else read)(path, **options)
        return ()

    return {"messages": message, "gzip": gzip, "tables": table}.get(name, decode)


def _fuzz(name: str, folder: Path, seed: str, runs: int) -> None:
    """Run bodies; it ends the process. What fails is kept, and is first the next time."""
    import atheris

    words = "".join(f'"{word}"\n"\\"{word}\\":"\n' for word in _WORDS)
    Path(f"{folder}.words").write_text(words, encoding="utf-8")
    runs = sum(1 for _ in folder.iterdir()) + runs // (_SLOW if name == "tables" else 1)
    own = (f"-runs={runs}", f"-seed={seed}", f"-dict={folder}.words", f"-artifact_prefix={folder}/")
    atheris.Setup([sys.argv[0], *_FLAGS, *own, str(folder)], partial(_feed, name))
    atheris.Fuzz()


def main() -> int:
    """Run what the command line says; 1 if anything was found."""
    warnings.simplefilter("error", RuntimeWarning)
    if len(sys.argv) == 3:
        _feed(sys.argv[1], base64.b64decode(sys.argv[2]))
        return 0
    import atheris

    ends, (folder, seed, runs, *names) = [], sys.argv[1:]
    with atheris.instrument_imports(include=_INSTRUMENTED):
        for name in names:
            for options in OPTIONS[name]:
                with suppress(Exception):  # what is imported or made at first use is no body's
                    _reader(name)(b"1", options)
    for name in names:
        sys.stdout.flush()
        if (child := os.fork()) == 0:
            _fuzz(name, Path(folder) / name, seed, int(runs))
        ends.append(os.waitpid(child, 0)[1])
    return int(any(ends))


if __name__ == "__main__":
    sys.exit(main())
