"""The JSON of Prometheus' `query_range`, and of servers that answer as it does."""

import json
from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np

from newnormal.arrivals.cells import numbers
from newnormal.arrivals.naming import Naming, series_name
from newnormal.errors import InputError
from newnormal.tabular.exports.wide import LabelledSeries, decoded, shown, wide_csv

_LATEST = 9.2e9  # seconds: what fits into datetime64[ns]
_HINT = "save the answer of /api/v1/query_range as it is"


def translate(file: BinaryIO, naming: Naming) -> Iterator[bytes]:
    r"""Return the series of one or several answers as wide CSV text.

    >>> from io import BytesIO
    >>> text = b'[{"metric": {"__name__": "up", "job": "a"}, "values": [[1.5, "1"], [3, "NaN"]]}]'
    >>> print(b"".join(translate(BytesIO(text), Naming([]))).decode(), end="")
    time,"up{job=""a""}"
    1970-01-01T00:00:01.500Z,1.0
    1970-01-01T00:00:03.000Z,
    """
    text = decoded(file)
    try:
        series = [one for document in _documents(text) for one in _all(document)]
    except RecursionError:
        raise InputError("expected Prometheus' JSON, found too many brackets", hint=_HINT) from None
    if not series:
        raise InputError(
            "expected series, found an answer without any",
            hint="check the query and the span of time it was asked for",
        )
    return wide_csv(series, naming)


def _documents(text: str) -> Iterator[Any]:
    decoder = json.JSONDecoder(object_hook=_read)
    position = 0
    while True:
        while position < len(text) and text[position] in " \t\r\n,\x1e":
            position += 1
        if position == len(text):
            return
        try:
            document, position = decoder.raw_decode(text, position)
        except json.JSONDecodeError as error:
            raise InputError(
                f"line {error.lineno}: expected Prometheus' JSON, found: {error.msg}",
                hint="the file may be cut off: " + _HINT if error.pos >= len(text) - 1 else _HINT,
            ) from None
        except InputError:
            raise
        except ValueError as error:  # a number of thousands of digits
            raise InputError(f"expected Prometheus' JSON, found: {error}", hint=_HINT) from None
        yield document


def _read(record: dict[str, Any]) -> dict[str, Any] | LabelledSeries:
    """Read a series as soon as it is parsed, so that its pairs are held one series at a time."""
    metric = record.get("metric")
    if not isinstance(metric, dict):
        return record
    labels = {str(key): str(value) for key, value in metric.items() if key != "__name__"}
    name = str(metric.get("__name__", ""))
    what = f"{series_name(name, labels)}"
    if "values" in record:
        return _series(name, labels, what, record["values"])
    if "value" in record:
        return _series(name, labels, what, [record["value"]])
    if "histogram" in record or "histograms" in record:
        raise InputError(
            f"series {what}: expected numbers, found native histograms",
            hint="ask for numbers, such as histogram_quantile(0.99, rate(NAME[5m]))",
        )
    return record


def _series(name: str, labels: dict[str, str], what: str, points: Any) -> LabelledSeries:
    try:
        times = np.array([_nanoseconds(time) for time, _ in points], dtype=np.int64)
        texts = [value for _, value in points]
    except (TypeError, ValueError, OverflowError):
        raise InputError(
            f'series {what}: expected pairs such as [1767225600, "0.5"], found {shown(points)}',
            hint=_HINT,
        ) from None
    return LabelledSeries(name, labels, times, numbers(texts)[0])


def _nanoseconds(time: Any) -> int:
    seconds = float(time)
    if not abs(seconds) < _LATEST:
        raise ValueError
    return round(seconds * 1e6) * 1000  # the precision of Prometheus is a millisecond


def _all(document: Any) -> Iterator[LabelledSeries]:
    if isinstance(document, LabelledSeries):
        yield document
    elif isinstance(document, list):
        for item in document:
            yield from _all(item)
    elif not isinstance(document, dict):
        raise _other(document)
    elif document.get("status") == "error":
        kind, text = document.get("errorType", "error"), document.get("error", "no reason given")
        raise InputError(
            f"expected series, found an error of Prometheus: {shown(kind)}: {shown(text)}",
            hint="ask again; the file holds no data",
        )
    elif "data" in document:
        yield from _all(document["data"])
    elif document.get("resultType") == "scalar":
        yield _series("", {}, "scalar", [document.get("result")])
    elif "result" in document and document.get("resultType") != "string":
        yield from _all(document["result"])
    else:
        raise _other(document)


def _other(document: object) -> InputError:
    return InputError(f"expected a result of Prometheus, found {shown(document)}", hint=_HINT)
