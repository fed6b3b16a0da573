"""The service's own form of samples: JSON, JSON lines and CSV."""

import csv
import io
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar
from urllib.parse import parse_qs

from newnormal.arrivals.arrival import Arrival
from newnormal.errors import InputError
from newnormal.io.decoders.base import QUERY, Decoder, UnknownFormError
from newnormal.io.decoders.rows import (
    SampleRows,
    check_channels,
    from_long,
    numbers_of,
    times_of,
    too_many_samples,
)

_JSON = ("application/json", "text/json")
_LINES = (
    "application/x-ndjson",
    "application/ndjson",
    "application/jsonl",
    "application/x-jsonlines",
    "application/jsonlines",
)
_CSV = ("text/csv", "application/csv", "text/tab-separated-values")
_ANY = ("", "text/plain", "application/octet-stream", "application/x-www-form-urlencoded")
_TIMES = ("time", "timestamp", "ts")
_DELIMITERS = ",;\t"
_EXAMPLE = '{"stream": "press-1", "time": "2026-01-31T12:00:00Z", "values": {"temperature": 21.5}}'


class SamplesDecoder(Decoder):
    r"""Reads samples as JSON, JSON lines or CSV, by Content-Type or as the body begins.

    JSON is an object, or an array of objects, or one a line, of either form:

    - ``{"stream": NAME, "time": TIME, "values": {CHANNEL: NUMBER, ...}}``, a sample;
    - ``{"stream": NAME, "times": [...], "channels": [...], "values": [[...], ...]}``, many, with a
      list for each time; or with ``"values": {CHANNEL: [...], ...}``, a list for each channel.

    CSV has a header of ``stream``, ``time`` and the channels, or of ``stream``, ``time``,
    ``channel`` and ``value``. ``?stream=NAME`` names the stream where the body does not.

    A time is ISO 8601 or Unix time; a single sample without one gets that at which it came. null,
    NaN and an empty cell are missing values.

    >>> decoder = SamplesDecoder()
    >>> body = b"stream,time,load\na,2026-01-01T00:00:00Z,0.5\na,2026-01-01T00:00:10Z,\n"
    >>> [(each.stream, each.channels, each.values.tolist()) for each in decoder.decode(body, {})]
    [('a', ('load',), [[0.5], [nan]])]
    """

    path: ClassVar[str] = "samples"

    def decode(self, body: bytes, headers: Mapping[str, str]) -> Sequence[Arrival]:
        """Return the samples of a body."""
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind not in (*_JSON, *_LINES, *_CSV, *_ANY):
            raise UnknownFormError(
                f"Content-Type: expected application/json, application/x-ndjson or text/csv, "
                f"found {kind[:60]!r}",
                hint="name the form of the body; JSON, JSON lines and CSV are read",
            )
        stream = parse_qs(headers.get(QUERY, "")).get("stream", [None])[-1]
        try:
            text = body.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise InputError(
                f"expected UTF-8 text, found the byte {body[error.start]:#04x} at {error.start}",
                hint="encode the body as UTF-8; compressed ones need Content-Encoding: gzip",
            ) from None
        start = re.search(r"\S", text)  # stripped, it would be there twice
        if start is None:
            raise InputError("expected samples, found an empty body", hint=f"such as {_EXAMPLE}")
        as_json = kind in (*_JSON, *_LINES) or (kind in _ANY and start[0] in "{[")
        if not as_json:
            arrivals = self._csv(text, stream)
        else:
            samples = _parsed(text, lines=kind in _LINES)
            try:
                arrivals = self._json(samples, stream)
            except RecursionError as error:  # to show it takes more depth than to read it
                raise _not_json("the body", error) from None
        if not any(len(arrival.times) for arrival in arrivals):
            raise InputError("expected samples, found none", hint=f"such as {_EXAMPLE}")
        return arrivals

    # --- JSON

    def _json(self, samples: list[Any], default: str | None) -> list[Arrival]:
        rows = SampleRows(self.limits, self.clock())
        blocks: list[Arrival] = []
        for row, sample in enumerate(samples):
            if type(sample) is not dict:
                raise _not_a_sample(rows.where(row), sample)
            values = sample.get("values")
            stream = sample.get("stream", default)
            if "times" in sample or "channels" in sample:
                blocks.append(self._block(sample, stream, rows.where(row)))
            elif type(values) is dict:
                rows.add(row, stream, sample.get("time"), tuple(values), tuple(values.values()))
            else:
                raise _not_a_sample(rows.where(row), sample)
        arrivals = rows.arrivals() + blocks
        if sum(len(arrival.times) for arrival in arrivals) > self.limits.samples:
            raise too_many_samples(self.limits)
        return arrivals

    def _block(self, sample: dict[str, Any], stream: Any, where: str) -> Arrival:
        """Return the samples of an object with many."""
        times, values = sample.get("times"), sample.get("values")
        names = sample.get("channels")
        if not isinstance(times, list) or not isinstance(values, list | dict):
            raise _not_a_sample(where, sample)
        if len(times) > self.limits.samples:
            raise too_many_samples(self.limits)
        if isinstance(values, dict):
            names = list(values) if names is None else names
            if not isinstance(names, list) or [*map(str, names)] != [*values]:
                raise InputError(
                    f"{where}: channels: expected those that values has, found others",
                    hint="leave channels out where values are by name",
                )
            columns = list(values.values())
            _check_lengths(columns, len(times), f"{where}: values", "each channel")
            width = len(columns)
            flat = [value for each in zip(*columns, strict=True) for value in each]
        else:
            if not isinstance(names, list):
                raise _not_a_sample(where, sample)
            width = len(names)
            if len(values) != len(times):
                raise InputError(
                    f"{where}: values: expected a list for each of {len(times):,} times, "
                    f"found {len(values):,}",
                    hint="values has a row for each time and a column for each channel",
                )
            _check_lengths(values, width, f"{where}: values", "each time")
            flat = [value for each in values for value in each]
        rows = SampleRows(self.limits, 0)
        # The names are checked as those of any sample.
        rows.add(0, stream, 0, tuple(map(_text, names)), ())
        numbers = numbers_of(
            flat,
            lambda at: f"{where}, time {at // width}: channel {names[at % width]!r} of {stream!r}",
        )
        return Arrival(
            stream,
            tuple(names),
            times_of(times, lambda at: f"{where}, time {at}"),
            numbers.reshape(len(times), width),
        )

    # --- CSV

    def _csv(self, text: str, given: str | None) -> list[Arrival]:
        lines = csv.reader(io.StringIO(text, newline=""), delimiter=_delimiter(text), strict=True)
        table = []
        try:
            header = [each.strip() for each in next(lines)]
            stream_at, time_at = _column(header, ("stream",)), _column(header, _TIMES)
            others = [at for at in range(len(header)) if at not in (stream_at, time_at)]
            names = tuple(header[at] for at in others)
            is_long = [name.lower() for name in names] in (
                ["channel", "value"],
                ["value", "channel"],
            )
            if not is_long:
                check_channels(names, self.limits, "line 1")
            for line in filter(None, lines):
                table.append(line)
                if len(table) > self.limits.samples:
                    raise too_many_samples(self.limits)
        except (csv.Error, StopIteration) as error:
            raise InputError(
                f"line {lines.line_num}: expected CSV, found something else: {error}",
                hint="the first line names the columns: stream, time and the channels",
            ) from None
        for row, line in enumerate(table):
            if len(line) != len(header):
                raise InputError(
                    f"line {row + 2}: expected {len(header)} cells, found {len(line)}",
                    hint="every line has the columns that the first one names",
                )
        streams: list[Any] = (
            [given] * len(table) if stream_at is None else [line[stream_at] for line in table]
        )
        times: list[Any] = [None if time_at is None else line[time_at] or None for line in table]
        if is_long:
            channel_at, value_at = _column(header, ("channel",)), _column(header, ("value",))
            assert channel_at is not None and value_at is not None
            return self._long(
                streams,
                times,
                [line[channel_at] for line in table],
                [line[value_at] for line in table],
            )
        rows = SampleRows(self.limits, self.clock(), "line", 2)
        for row, (stream, time, line) in enumerate(zip(streams, times, table, strict=True)):
            rows.add(row, stream, time, names, [line[at] for at in others])
        return rows.arrivals()

    def _long(
        self, streams: list[Any], times: list[Any], channels: list[str], values: list[str]
    ) -> list[Arrival]:
        def where(row: int) -> str:
            return f"line {row + 2}"

        now = self.clock()
        without = [row for row, time in enumerate(times) if time is None]
        if without and len(without) < len(times):
            raise InputError(
                f"{where(without[0])}: expected a time as on other lines, found none",
                hint="give every line a time, or none: then all get that at which they came",
            )
        if not all(streams):
            row = next(row for row, stream in enumerate(streams) if not stream)
            raise InputError(
                f"{where(row)}: expected the name of a stream, found none",
                hint="add a column stream, or ?stream=NAME to the address",
            )
        moments = times_of([0] * len(times) if without else times, where)
        numbers = numbers_of(values, lambda at: f"{where(at)}: channel {channels[at]!r}")
        if without:
            moments[:] = now
        return from_long(streams, channels, moments, numbers, self.limits, where)


def _parsed(text: str, *, lines: bool) -> list[Any]:
    """Return the samples of JSON: the elements of an array, an object, or objects of lines."""
    if not lines:
        try:
            content = json.loads(text)
        except (ValueError, RecursionError) as error:
            if not str(error).startswith("Extra data"):
                raise _not_json("the body", error) from None
        else:
            return content if isinstance(content, list) else [content]
    samples = []
    for number, line in enumerate(text.split("\n"), 1):  # others may be inside of texts
        if line and not line.isspace():
            try:
                samples.append(json.loads(line))
            except (ValueError, RecursionError) as error:
                raise _not_json(f"line {number}", error) from None
    return samples


def _not_json(where: str, error: Exception) -> InputError:
    return InputError(
        f"{where}: expected JSON, found something else: {str(error)[:100]}",
        hint=f"such as {_EXAMPLE}",
    )


def _not_a_sample(where: str, sample: object) -> InputError:
    if isinstance(sample, dict):
        shown = (
            f"an object of {', '.join(ascii(each)[:40] for each in list(sample)[:6]) or 'nothing'}"
        )
    else:
        shown = ascii(sample)[:60]
    return InputError(
        f"{where}: expected stream, time and values, or times, channels and values, found {shown}",
        hint=f"such as {_EXAMPLE}",
    )


def _text(name: Any) -> Any:
    return name if isinstance(name, str) else repr(name)[:40] + "\0"  # not printable: refused


def _check_lengths(parts: Sequence[Any], length: int, where: str, each: str) -> None:
    for at, part in enumerate(parts):
        if not isinstance(part, list) or len(part) != length:
            length_found = f"{len(part):,}" if isinstance(part, list) else ascii(part)[:40]
            raise InputError(
                f"{where}: expected {length:,} values for {each}, found {length_found} in row {at}",
                hint="values has a row for each time and a column for each channel",
            )


def _delimiter(text: str) -> str:
    first = text[: text.find("\n")] if "\n" in text else text
    return max(_DELIMITERS, key=first.count)


def _column(header: Sequence[str], names: Sequence[str]) -> int | None:
    columns = [at for at, each in enumerate(header) if each.lower() in names]
    return columns[0] if columns else None
