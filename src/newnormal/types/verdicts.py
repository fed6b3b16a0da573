"""A verdict, and verdicts as columns."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from newnormal import hooks
from newnormal.errors import ParameterError
from newnormal.texts import number_text
from newnormal.types.arrays import Bools, Floats, Floats32, Ints, Times, time_at, time_text
from newnormal.types.frames import FrameKind, frame_of, kind_of
from newnormal.types.observed import Observed
from newnormal.types.verdict_lines import LineHead, VerdictColumns, verdict_lines

_Number = TypeVar("_Number", bound=np.generic)


class Verdict:
    """The result for one sample.

    Attributes
    ----------
    sample
        The sample's number since `fit`, counted from 0.
    score
        How anomalous, to rank samples by. Of `Detector` the committee's score of the values as
        observed, times one more than the mean of the three highest ratios of channels. Of `M2N2`
        the mean squared residual in history's standard deviations squared. NaN where nothing was
        observed.
    threshold
        The limit of the joint score; of `M2N2`, what the score was compared with.
    anomalous
        Whether ``ratio >= 1``; of `M2N2`, whether ``score >= threshold``.

    Notes
    -----
    `expected` is also there where the channel was missing. `shares` are those of the joint score:
    they add up to 1 and are 0 for a missing channel; NaN where there is no score, or where all
    channels are hidden; all 0 where it is 0. Both are None for a model that does not reconstruct.
    """

    __slots__ = ("_columns", "_row", "anomalous", "sample", "score", "threshold")

    def __init__(self, columns: Verdicts, row: int) -> None:
        self._columns = columns
        self._row = row
        self.sample: int = columns.first + row
        self.score: float = float(columns.scores[row])
        self.threshold: float = float(columns.thresholds[row])
        self.anomalous: bool = bool(columns.anomalous[row])

    def _own(self, column: NDArray[_Number] | None) -> NDArray[_Number] | None:
        return None if column is None else column[self._row]

    @property
    def time(self) -> np.datetime64 | None:
        """The sample's time, or None where the stream has none."""
        return time_at(self._columns.times, self._row)

    @property
    def expected(self) -> Floats | None:
        """What was expected, in the user's units, one value a channel."""
        return self._own(self._columns.expected)

    @property
    def shares(self) -> Floats32 | None:
        """Each channel's share of the joint score."""
        return self._own(self._columns.shares)

    @property
    def lows(self) -> Floats | None:
        """The low end of each channel's range; None where channels are not judged, as are these."""
        return self._own(self._columns.lows)

    @property
    def highs(self) -> Floats | None:
        """The high end of each channel's range."""
        return self._own(self._columns.highs)

    @property
    def channel_ratios(self) -> Floats32 | None:
        """How far each channel is from what is expected of it, in units of its limit."""
        return self._own(self._columns.channel_ratios)

    @property
    def ratio(self) -> float:
        """How far to the threshold: 1 and above is anomalous."""
        ratios = self._columns.ratios
        if ratios is None:
            return self.score / self.threshold if self.threshold else math.inf * self.score
        return float(ratios[self._row])

    @property
    def p_value(self) -> float | None:
        """The chance of such a score or a higher one; None where alarms are not tracked."""
        p_values = self._columns.p_values
        return None if p_values is None else float(p_values[self._row])

    @property
    def alarm(self) -> int | None:
        """The number of the open alarm, 0 without one; None where alarms are not tracked."""
        alarms = self._columns.alarms
        return None if alarms is None else int(alarms[self._row])

    @property
    def distance(self) -> float | None:
        """How far the stream is from its accepted normal; None without acceptance."""
        distances = self._columns.distances
        return None if distances is None else float(distances[self._row])

    @property
    def change(self) -> int | None:
        """The number of the newest open change, 0 without one; None without acceptance."""
        changes = self._columns.changes
        return None if changes is None else int(changes[self._row])

    @property
    def zone(self) -> str | None:
        """The zone that the time is given out in, or None; `time` itself is UTC."""
        return self._columns.zone

    @property
    def channels(self) -> tuple[str, ...]:
        """The channels' names, in the order of `expected` and `shares`."""
        return self._columns.channels

    def as_dict(self) -> dict[str, Any]:
        """Return the documented JSON form as plain Python values (no NaN: None instead)."""
        fields: dict[str, Any] = json.loads(self.to_json())
        return fields

    def to_json(self) -> str:
        """Return the verdict as one line of JSON."""
        return self._columns.json_lines(self._row, self._row + 1)[0]

    def __repr__(self) -> str:
        time = "" if self.time is None else f", time={time_text(self.time, self.zone)}"
        return (
            f"Verdict(sample={self.sample}{time}, score={number_text(self.score, digits=6)}, "
            f"threshold={number_text(self.threshold, digits=6)}, anomalous={self.anomalous})"
        )


@dataclass(frozen=True, eq=False, init=False)
class Verdicts:
    """Verdicts as columns: one row a sample, NaN and not anomalous where there is no verdict.

    Iterating gives a `Verdict` a row; as a NumPy array it is its `scores`.

    Attributes
    ----------
    scores, thresholds, anomalous
        One value a sample, shape (T,).
    expected, shares
        One value a sample and channel, shape (T, C); None for a model that does not reconstruct.
    times
        The samples' times, or None.
    channels
        The channels' names.
    first
        The sample number of the first row.
    late
        Verdicts, now final, of samples that earlier calls left pending; None where there are none.
    ratios
        How far to the limit, from 0, which is typical, to 1, from which on a sample is anomalous:
        the highest of its channels' and of the joint score's. None where alarms are not tracked, as
        are the next two.
    p_values
        The chance of such a ratio or a higher one.
    alarms
        The number of the open alarm, counted from 1; 0 where none is open.
    distances
        How far the stream is from its accepted normal; 1 is the limit. None without acceptance,
        as is the next.
    changes
        The number of the newest open change, counted from 1; 0 where none is open.
    lows, highs
        The range of each channel at each sample, (T, C); None where channels are not judged by
        themselves, as is the next.
    channel_ratios
        How far each channel is from what is expected of it, in units of its limit, (T, C).
    zone
        The zone that times are given out in (`json_lines`, `to_frame`); None: as they are. The
        `times` themselves are UTC.
    frame
        What the frame was like that was run on; None for other input.
    observed
        What was judged, and what happened to alarms and changes meanwhile, for pictures; `run`
        keeps it. None where the verdicts come from elsewhere.
    """

    scores: Floats
    thresholds: Floats
    anomalous: Bools
    expected: Floats | None
    shares: Floats32 | None
    times: Times | None
    channels: tuple[str, ...]
    first: int = 0
    late: Verdicts | None = None
    ratios: Floats | None = None
    p_values: Floats | None = None
    alarms: Ints | None = None
    distances: Floats | None = None
    changes: Ints | None = None
    lows: Floats | None = None
    highs: Floats | None = None
    channel_ratios: Floats32 | None = None
    zone: str | None = None
    frame: FrameKind | None = None
    observed: Observed | None = None

    def __init__(
        self,
        scores: Floats,
        thresholds: Floats,
        anomalous: Bools,
        expected: Floats | None,
        shares: Floats32 | None,
        times: Times | None,
        channels: tuple[str, ...],
        first: int = 0,
        late: Verdicts | None = None,
        ratios: Floats | None = None,
        p_values: Floats | None = None,
        alarms: Ints | None = None,
        distances: Floats | None = None,
        changes: Ints | None = None,
        lows: Floats | None = None,
        highs: Floats | None = None,
        channel_ratios: Floats32 | None = None,
        zone: str | None = None,
        frame: FrameKind | None = None,
        observed: Observed | None = None,
    ) -> None:
        # The one that dataclass writes takes 2 µs longer, a tenth of a small detector's step.
        self.__dict__.update(locals())
        del self.__dict__["self"]

    def __len__(self) -> int:
        return len(self.scores)

    def __repr__(self) -> str:
        last = self.first + len(self) - 1
        where = f"samples {self.first} to {last}" if len(self) else "no samples"
        return f"Verdicts({where}, {int(self.anomalous.sum())} anomalous)"

    def item(self) -> NoReturn:
        """Raise a TypeError: scikit-learn asks a score for its number so, and there is none.

        Without labels `score` returns verdicts, which `cross_val_score` cannot average.
        """
        raise TypeError(
            "expected labels to score against, found none: pass y=labels, 0 or 1 a sample, "
            "as in cross_val_score(detector, X, labels), or a scoring= of your own"
        )

    @overload
    def __getitem__(self, row: int) -> Verdict: ...

    @overload
    def __getitem__(self, row: slice) -> Verdicts: ...

    def __getitem__(self, row: int | slice) -> Verdict | Verdicts:
        if isinstance(row, slice):
            start, stop, step = row.indices(len(self))
            if step != 1:
                raise ParameterError(f"expected consecutive rows, found a step of {step}")
            return self.rows(slice(start, max(start, stop)))
        if not -len(self) <= row < len(self):
            raise IndexError(f"row {row} of {len(self)} verdicts")
        return Verdict(self, row % len(self))

    def __iter__(self) -> Iterator[Verdict]:
        return (Verdict(self, row) for row in range(len(self)))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.array(self.scores, dtype=dtype, copy=copy)

    def rows(self, rows: slice, late: Verdicts | None = None) -> Verdicts:
        """Return some consecutive rows, with these as their `late` ones."""
        parts: dict[str, Any] = {}
        for name in _COLUMNS:
            column = getattr(self, name)
            parts[name] = None if column is None else column[rows]
        if self.observed is not None:
            parts["observed"] = self.observed.rows(rows)
        return replace(self, **parts, first=self.first + (rows.start or 0), late=late)

    @classmethod
    def joined(cls, parts: Sequence[Verdicts]) -> Verdicts:
        """Return the verdicts of consecutive samples as one; there is at least one part."""
        first, *_ = parts
        columns: dict[str, Any] = {}
        for name in _COLUMNS:
            pieces = [getattr(part, name) for part in parts]
            columns[name] = None if pieces[0] is None else np.concatenate(pieces)
        observed = Observed.joined([part.observed for part in parts])
        return replace(first, **columns, late=None, observed=observed)

    @property
    def samples(self) -> Ints:
        """The samples' numbers."""
        return np.arange(self.first, self.first + len(self), dtype=np.int64)

    def json_lines(self, start: int = 0, stop: int | None = None) -> list[str]:
        """Return rows `start` to `stop` as lines of JSON, the documented form of a verdict.

        Scores and thresholds are exact; expected values have nine digits and shares six, which is
        more than a model in float32 can resolve.
        """
        rows = slice(start, len(self) if stop is None else stop)
        parts: list[Any] = [
            None if column is None else column[rows]
            for column in (self.samples, *(getattr(self, name) for name in _COLUMNS))
        ]
        return verdict_lines(VerdictColumns(*parts), [LineHead(self.channels, zone=self.zone)])

    def columns(self) -> Mapping[str, NDArray[Any]]:
        """Return the columns of one value a sample, ready for ``pandas.DataFrame(...)``."""
        table: dict[str, NDArray[Any]] = {"sample": self.samples}
        if self.times is not None:
            table["time"] = self.times
        table |= {"score": self.scores, "threshold": self.thresholds, "anomalous": self.anomalous}
        if self.ratios is not None and self.p_values is not None and self.alarms is not None:
            table |= {"ratio": self.ratios, "p_value": self.p_values, "alarm": self.alarms}
        if self.distances is not None and self.changes is not None:
            table |= {"distance": self.distances, "change": self.changes}
        return table

    def channel_columns(self) -> Mapping[str, NDArray[Any]]:
        """Return the columns of one value a sample and channel, such as ``"load_expected"``.

        Of each channel: what was expected, low, high and ratio, as far as the verdicts have them.
        """
        kinds = {
            "expected": self.expected,
            "low": self.lows,
            "high": self.highs,
            "ratio": self.channel_ratios,
        }
        return {
            f"{name}_{kind}": column[:, c]
            for c, name in enumerate(self.channels)
            for kind, column in kinds.items()
            if column is not None
        }

    def to_frame(self, like: Any = None, *, channels: bool = False) -> Any:
        """Return the columns as a frame that joins with the user's own.

        Parameters
        ----------
        like
            A frame of pandas, polars or another library, or such a library's name. None: as the
            frame that was run on.
        channels
            Whether to have `channel_columns`, too.

        Returns
        -------
        A frame of that library. Times are where they were, in the index or in the column of that
        name, with the same type, precision and zone. The index of a pandas frame without times is
        there again if it counts rows, or if `like` is the frame itself.

        Examples
        --------
        >>> ones = np.ones(2)
        >>> verdicts = Verdicts(ones, ones, ones > 0, None, None, None, ("load",))
        >>> verdicts.to_frame(like="pandas").columns.tolist()
        ['sample', 'score', 'threshold', 'anomalous']
        """
        kind = self.frame if like is None else kind_of(like, self.frame)
        columns = {name: column for name, column in self.columns().items() if name != "time"}
        if channels:
            columns |= self.channel_columns()
        return frame_of(columns, self.times, self.zone, kind, self.first)

    def plot(self, **options: Any) -> Any:
        """Draw them: `newnormal.plot` with these verdicts; needs the extra ``plot``."""
        return hooks.plot(self, **options)

    _repr_html_ = hooks.html


_COLUMNS = VerdictColumns._fields[1:]  # all but the samples' numbers
