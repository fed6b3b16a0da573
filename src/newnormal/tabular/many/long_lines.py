"""Long lines of many streams, a value a line, as samples."""

from bisect import bisect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isnan, nan
from typing import Any

import numpy as np

from newnormal.errors import InputError
from newnormal.tabular.columns import Selection, listed
from newnormal.tabular.many.long import Long, find_long
from newnormal.tabular.many.stream_batch import StreamBatch
from newnormal.tabular.many.stream_lines import LineReader
from newnormal.tabular.many.stream_names import StreamNames
from newnormal.tabular.problems import Problem
from newnormal.tabular.reading import Reading
from newnormal.types import Ints, time_text


@dataclass
class _OpenSample:
    """A sample that is not complete yet: its time in ns, its first line, its values by tag."""

    time: int
    number: int
    values: dict[str, float] = field(default_factory=dict)


class LongLines(LineReader):
    """Reads lines of (time, stream, tag, value): those of one stream and time are one sample.

    A sample is complete when a line of its stream comes that has a later time, or at the end of
    the input (`flush`). A line whose time is earlier than that of its stream's newest line is a
    problem: its sample is complete. Of two values of one tag the last counts.

    The parameters are those of `StreamLines`, and `long`, the columns; by default found by their
    names. Without `by` all lines are of one stream, whose name is "".

    >>> lines = LongLines("host")
    >>> batch = lines.parse(["time,host,tag,value", "1,a,x,5", "1,a,y,6", "1,b,x,7", "2,a,x,8"])
    >>> batch.names, batch.codes.tolist(), batch.channels, batch.values.tolist()
    (('a', 'b'), [0], ('x', 'y'), [[5.0, 6.0]])
    >>> lines.flush().values.tolist()
    [[7.0], [8.0]]
    """

    _texts = True  # tags of all kinds share the column of the values

    def __init__(
        self,
        by: str | Sequence[str] = (),
        *,
        long: Long | None = None,
        reading: Reading | None = None,
        strict: bool = False,
        report: Callable[[str], None] | None = None,
        **options: Any,
    ) -> None:
        chosen = Reading.of(options) if reading is None else reading
        super().__init__(by, chosen, strict=strict, report=report)
        self._long = Long() if long is None else long
        self._names = StreamNames(self._by)
        self._tags = StreamNames(())
        self._open_samples: dict[int, _OpenSample] = {}
        if not self._by:
            self._names.names.append("")

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the streams so far."""
        return tuple(self._names.names)

    def parse(
        self, lines: Sequence[str], first: int | None = None, *, final: bool = False
    ) -> StreamBatch:
        """Return the samples that the next lines complete, and the lines that are wrong.

        The parameters are those of `StreamLines.parse`; what is left at the end of the input is
        complete by `flush`. The samples are in the order in which they became complete. Their
        channels are the tags that they have, their `numbers` those of their first lines.
        """
        start, samples = self.read(lines, first, final=final)
        streams, tags = self._codes(samples.keys)
        times = np.empty(0) if samples.times is None else samples.times
        wrong = [(row, error) for row, _, error in samples.errors]
        done: list[tuple[int, _OpenSample]] = []
        done_at: list[int] = []
        opened, tag_names = self._open_samples, self._tags.names
        parts = (
            samples.rows.tolist(),
            streams.tolist(),
            tags.tolist(),
            times.astype(np.int64).tolist(),
            samples.values[:, :1].ravel().tolist(),
        )
        for index, (row, stream, tag, time, value) in enumerate(zip(*parts, strict=True)):
            if stream < 0 or tag < 0:
                wrong.append((row, self._nameless(stream, samples.keys[index])))
                continue
            sample = opened.get(stream)
            if sample is not None and time < sample.time:
                wrong.append((row, self._late(time, sample.time)))
                continue
            if sample is None or time > sample.time:
                if sample is not None:
                    done.append((stream, sample))
                    done_at.append(row)
                sample = opened[stream] = _OpenSample(time, start + row)
            sample.values[tag_names[tag]] = value
        wrong.sort(key=lambda problem: problem[0])
        problems = [Problem(e, start + row, bisect(done_at, row)) for row, e in wrong]
        return self._batch(done, tuple(problems))

    def flush(self) -> StreamBatch:
        """Return the samples that are not complete, at the end of the input, by their lines."""
        done = sorted(self._open_samples.items(), key=lambda item: item[1].number)
        self._open_samples = {}
        return self._batch(done, ())

    def facts(self) -> dict[str, Any]:
        """Return the lines that the columns were found in and the samples not complete yet."""
        names = self._names.names
        pending = {
            names[stream]: [
                sample.time,
                sample.number,
                {tag: None if isnan(value) else value for tag, value in sample.values.items()},
            ]
            for stream, sample in self._open_samples.items()
        }
        return {**super().facts(), "pending": pending}

    def restore(self, facts: Mapping[str, Any]) -> None:
        """Restore what `facts` returned, before the first line is read."""
        super().restore(facts)
        for name, (time, number, values) in dict(facts.get("pending") or {}).items():
            stream = self._names.restored(name) if self._by else 0
            numbers = {tag: nan if value is None else value for tag, value in values.items()}
            self._open_samples[stream] = _OpenSample(time, number, numbers)

    def _selection(self, names: Sequence[str]) -> Selection:
        return find_long(names, self._long, self._by).selection(self._by)

    def _codes(self, keys: Sequence[Any]) -> tuple[Ints, Ints]:
        if not self._by:
            return np.zeros(len(keys), dtype=np.int64), self._tags.codes(keys)
        names = [key[0] for key in keys] if len(self._by) == 1 else [key[:-1] for key in keys]
        return self._names.codes(names), self._tags.codes([key[-1] for key in keys])

    def _nameless(self, stream: int, key: Any) -> InputError:
        if stream < 0:
            return self._names.error(stream, key[0] if len(self._by) == 1 else key[:-1])
        column = listed(() if self._parser is None else self._parser.key_columns[-1:])
        return InputError(f"column {column}: expected the name of a channel, found none")

    def _late(self, time: int, newest: int) -> InputError:
        return InputError(
            f"expected a time not before {time_text(np.datetime64(newest, 'ns'))}, the newest of "
            f"its stream, found {time_text(np.datetime64(time, 'ns'))}",
            hint="the lines of a stream must be in the order of their times",
        )

    def _batch(
        self, done: Sequence[tuple[int, _OpenSample]], problems: tuple[Problem, ...]
    ) -> StreamBatch:
        channels = tuple(dict.fromkeys(tag for _, sample in done for tag in sample.values))
        position = {tag: column for column, tag in enumerate(channels)}
        values = np.full((len(done), len(channels)), np.nan)
        for row, (_, sample) in enumerate(done):
            values[row, [position[tag] for tag in sample.values]] = list(sample.values.values())
        return StreamBatch(
            self.names,
            np.array([stream for stream, _ in done], dtype=np.int64),
            channels,
            values,
            np.array([sample.time for _, sample in done], dtype=np.int64).view("datetime64[ns]"),
            np.array([sample.number for _, sample in done], dtype=np.int64),
            problems,
            fixed=False,
        )
