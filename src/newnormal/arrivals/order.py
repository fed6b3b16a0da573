"""Samples of one stream, as they arrive, become time steps in order.

The only code that compares a time with the newest one. A stream is *whole* while every arrival has
all of its channels: each sample is a step of its own, at its own time. Otherwise its channels come
apart, and steps are as long as the stream's period. A step closes

- at once where the stream is whole, unless a lateness is given,
- when it is complete and the stream is live,
- when the newest sample is `lateness` beyond its end, and so is the newest one of each channel that
  it lacks, or of one that came together with it: a sender with several connections may be far ahead
  with some of its channels, and each connection brings its own in order,
- when more than `_MOST_OPEN` are open, or when the clock says so.

What belongs to a closed step is late. A second sample of an open step fills its missing cells, and
is a duplicate where it has nothing new. What is far ahead of the newest sample is held until others
confirm it: one wrong clock would make all later samples late.

One module because a step is opened, joined and closed by the same few numbers.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np

from newnormal.arrivals.arrival import Arrival
from newnormal.arrivals.counters import ColumnRates
from newnormal.arrivals.grid import ResampledSteps, Resampler
from newnormal.arrivals.jumps import DAY, HeldSamples, Piece, cells_of, not_confirmed
from newnormal.errors import InputError
from newnormal.types import NO_TIME, Bools, Floats, Ints, time_text

_TIMES = 8  # of one channel, from which the period of channels that come apart is taken
_LATE_PERIODS = 2  # the allowed lateness, where none is given
_GONE = 5  # steps without a value, after which no step waits for a channel, nor for a rarer one
_MOST_OPEN = 1000  # steps that wait for a channel which is behind the others
_BLOCK = 256  # records looked at at once; more where all are in order
_HOUR = 3_600_000_000_000
HOUR_TWICE = (
    "an hour that comes twice, as where the clock is put back, is kept whole with the zone "
    "of the times: --tz Europe/Berlin (tz=)"
)

LATE, JUMPED, TWICE = "late", "jumped", "twice"


class Refused(NamedTuple):
    """A record that is not taken.

    Attributes
    ----------
    number, time
        Of the record; the time in ns.
    kind
        ``late``: its step is closed, or has all of it. ``jumped``: it was far ahead, and nothing
        confirmed it. ``twice``: its time is there already, which ends the stream.
    other
        The time in ns that it was compared with; for ``twice``, the number of the other record.
    before
        How many steps of the same call come before it.
    """

    number: int
    time: int
    kind: str
    other: int
    before: int = 0

    def error(self, zone: str | None = None, record: str = "line") -> InputError:
        """Return what is wrong with it; times in it are in the zone."""
        found = time_text(np.datetime64(self.time, "ns"), zone)
        if self.kind == TWICE:
            return InputError(
                f"expected each time once, found {found} again, as in {record} {self.other}",
                hint="choose with --on-duplicate last|mean (on_duplicate=)",
            )
        if self.kind == JUMPED:
            return InputError(not_confirmed(self.time, self.other, zone))
        back = zone is None and _HOUR // 2 <= self.other - self.time <= _HOUR
        return InputError(
            f"expected a time after {time_text(np.datetime64(self.other, 'ns'), zone)}, "
            f"found {found}",
            hint=HOUR_TWICE if back else None,
        )


class Steps(NamedTuple):
    """Closed time steps of a stream.

    Attributes
    ----------
    times
        (N,) in ns, increasing.
    values
        (N, C) of the stream's channels, NaN where missing.
    numbers
        (N,) of the records; None where records have none.
    refused
        Records that were not taken.
    gaps
        Of gaps that were confirmed, the number of the first record and the length in ns.
    """

    times: Ints
    values: Floats
    numbers: Ints | None = None
    refused: tuple[Refused, ...] = ()
    gaps: tuple[tuple[int, int], ...] = ()


class Conversion:
    """Turns counters of steps in order into rates, takes part of them, brings them to a period.

    Parameters
    ----------
    rates
        Patterns of the channels that are counters.
    rows
        The number of the first step that is taken, and of the one behind the last; None: open.
    resample
        The period in ns; None: they stay as they are.
    """

    def __init__(
        self,
        channels: Sequence[str],
        rates: Sequence[str] = (),
        rows: tuple[int | None, int | None] = (None, None),
        resample: int | None = None,
    ) -> None:
        self._rates = ColumnRates(rates, channels)
        self._rows = rows
        self._seen = 0
        width = len(channels)
        self._grid = None if resample is None else Resampler(np.timedelta64(resample, "ns"), width)
        self.needed = self._rates.needed or self._grid is not None or rows != (None, None)

    def push(self, steps: Steps) -> Steps:
        """Return what becomes of the next steps."""
        times = steps.times.view("datetime64[ns]")
        values = self._rates.push(steps.values, times)
        numbers = np.full(len(times), -1) if steps.numbers is None else steps.numbers
        taken = self.take(len(times))
        times, values, numbers = times[taken], values[taken], numbers[taken]
        if self._grid is None:
            return steps._replace(times=times.view(np.int64), values=values, numbers=numbers)
        return _of_grid(steps, self._grid.push(values, times, numbers))

    def timeless(self, values: Floats) -> tuple[slice, Floats]:
        """Return which of the next samples without times are taken, and their values."""
        values = self._rates.push(values, None)
        taken = self.take(len(values))
        return taken, values[taken]

    def take(self, count: int) -> slice:
        """Count the next steps; return which of them are taken."""
        first, last = self._rows
        begin = min(max((first or 0) - self._seen, 0), count)
        end = count if last is None else min(max(last - self._seen, 0), count)
        self._seen += count
        return slice(begin, max(begin, end))

    def flush(self, steps: Steps) -> Steps:
        """Return the last steps, with the one of the grid that is not complete."""
        steps = self.push(steps)
        return steps if self._grid is None else joined([steps, _of_grid(steps, self._grid.flush())])

    def to_json(self) -> dict[str, Any]:
        """Return what it remembers as JSON values."""
        grid = None if self._grid is None else self._grid.facts()
        return {"rates": self._rates.facts(), "seen": self._seen, "grid": grid}

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Restore what `to_json` returned, also of other options."""
        self._rates.restore(saved["rates"])
        self._seen = int(saved["seen"])
        if self._grid is not None and saved["grid"] is not None:
            self._grid.restore(saved["grid"])


def _of_grid(steps: Steps, given: ResampledSteps) -> Steps:
    times = given.times.view(np.int64)
    return steps._replace(times=times, values=given.values, numbers=given.numbers)


class Order:
    """Puts the samples of one stream in order.

    Parameters
    ----------
    period
        In ns, where it is known; None: found out.
    lateness
        In ns, where it is given; None: two periods where channels come apart, nothing else.
    channels
        Those that are known; others that arrive are added.
    on_duplicate
        What counts of several records of one time: ``last``, their ``mean``, or ``error``: none.
        None: the first, with what the others add to it.
    conversion
        What becomes of steps that are in order; None: nothing.
    now
        Gives the time in ns: a first record that is a day ahead of it is held, too. None: it is
        taken, as where nothing may look at a clock.
    most_open
        How many steps may wait.

    Examples
    --------
    >>> order = Order(lateness=20)
    >>> [order.take(Arrival("m", ("a",), np.array([at]), np.ones((1, 1)))).times.tolist()
    ...  for at in (10, 30, 20, 60)]
    [[], [10], [], [20, 30]]
    """

    def __init__(
        self,
        period: int | None = None,
        lateness: int | None = None,
        *,
        channels: tuple[str, ...] = (),
        on_duplicate: str | None = None,
        conversion: Conversion | None = None,
        now: Callable[[], int] | None = None,
        most_open: int = _MOST_OPEN,
    ) -> None:
        self.channels: tuple[str, ...] = ()  # all that were seen, in the order in which they came
        # the newest time that was taken, in ns, and that of the newest closed step
        self.newest = self.closed = NO_TIME
        # samples that were dropped: `late` and `duplicate` ones, and those that `jumped` (they
        # were far ahead, and refuted); and those that were put in order, which came `out_of_order`
        self.counts = {"late": 0, "duplicate": 0, "out_of_order": 0, "jumped": 0}
        self.lateness = lateness
        self.repeated = 0  # records that were taken before, of a sender that began anew
        self.ends: Refused | None = None  # the record at which the stream ends
        self._period = period
        self._on_duplicate, self._conversion = on_duplicate, conversion
        self._now, self._most_open = now, most_open
        self._least = int(on_duplicate in ("last", "mean"))  # ns that a step is open at least
        self._holding = HeldSamples()
        self._reach = -1  # how far ahead of the newest a sample may be; -1: looked at closely
        self._whole = True
        self._origin: int | None = None  # where steps begin, once channels come apart
        self._after = NO_TIME  # the newest whole sample then: steps begin after it
        self._steps: dict[int, Floats] = {}  # open ones, by their times
        self._counted: dict[int, Floats] = {}  # of how many values each is the sum, for means
        self._numbers: dict[int, int] = {}  # of their records, where these have numbers
        self._number = -1  # of the newest closed step
        self._again = NO_TIME  # up to then, records that were taken before may come again
        self._refused: list[Refused] = []
        self._gaps: list[tuple[int, int]] = []
        self._last = np.empty(0, np.int64)  # (C,) the newest time of each channel
        self._absent = np.empty(0, np.int64)  # (C,) closed steps without it
        self._rare = np.empty(0, bool)  # (C,) whether its last two samples were far apart
        self._together: list[Ints] = []  # by channel: those of the newest arrival that had it
        self._columns_of(channels)
        self._set_reach()

    @property
    def period(self) -> int | None:
        """The time between steps in ns; None while it is not known."""
        return self._period

    @period.setter
    def period(self, period: int | None) -> None:
        self._period = period
        self._set_reach()

    def begin(self, channels: tuple[str, ...], closed: int = NO_TIME) -> None:
        """Begin with these channels, behind a time; nothing may be open or held."""
        self._columns_of(channels)
        self.newest, self.closed = max(self.newest, closed), max(self.closed, closed)

    def repeat(self, closed: int | None = None) -> None:
        """Leave out what was taken before: the sender begins anew, and it may come again.

        `closed`: the newest time of this that is not needed again.
        """
        if closed is not None:
            self.newest = self.closed = closed
        self._again = max([self.newest, *(row.time for row in self._holding.rows)])
        self._set_reach()

    def follow(self, period: int) -> None:
        """Take another period: steps of channels that come apart are found anew."""
        self.period = period
        self._origin = None

    @property
    def usual_step(self) -> int | None:
        """The period, or the usual step of the first samples, in ns; None before these."""
        return self._period or self._holding.usual

    @property
    def held(self) -> int | None:
        """The first time of samples that are held, in ns; None without any. From any thread."""
        return min((each.time for each in self._holding.rows), default=None)

    @property
    def waiting(self) -> int:
        """How many steps are open."""
        return len(self._steps)

    @property
    def kept(self) -> int:
        """How many samples are open or held."""
        return len(self._steps) + len(self._holding.rows)

    @property
    def at_once(self) -> bool:
        """Whether whole samples that follow are steps at once, as they are."""
        return self.lateness is None and not self._least and self._conversion is None

    @property
    def is_plain(self) -> bool:
        """Whether it is so, and nothing is known but the newest time."""
        learned = self.kept or self._again != NO_TIME or self._holding.learned
        return self.at_once and not learned

    @property
    def oldest(self) -> int:
        """The time of the first open step, or `newest` where none is open; from any thread."""
        return min(list(self._steps), default=self.newest)

    @property
    def wait(self) -> int | None:
        """How long after its beginning a step may close that lacks something, in ns.

        None while channels come apart whose period is not known yet.
        """
        if self._whole:
            return max(self.lateness or 0, self._least)
        if self._period is None:
            return None
        lateness = _LATE_PERIODS * self._period if self.lateness is None else self.lateness
        return self._period + lateness

    # ------------------------------------------------------------------ what arrives

    def take(self, arrival: Arrival, complete: Callable[[], Bools | None] | None = None) -> Steps:
        """Take samples that came together; return the steps that they close.

        Parameters
        ----------
        arrival
            The samples, in any order.
        complete
            Gives (C,) the channels that make a step complete; None: it closes by lateness alone.
        """
        same = arrival.channels == self.channels
        times, values = arrival.times, arrival.values
        at_once = self.lateness is None and not self._least
        plain = same and self._whole and at_once and not self._steps
        if plain:
            after, last = self.newest, int(times[-1])
            if len(times) == 1:  # by far the most frequent
                follows = after < last <= after + self._reach
            else:
                follows = self._following(times, 0) == len(times)
            if follows:
                self.newest = self.closed = last
                return self._given(Steps(times, values))
        if self._whole and not same and not set(self.channels) <= set(arrival.channels):
            self._whole = False
            self._together = [np.arange(len(self.channels))] * len(self.channels)
            self._set_reach()
        at = self._columns_of(arrival.channels)
        if not self._whole:
            for channel in at.tolist():
                self._together[channel] = at
        arrived = Piece(times, values, at)
        if self._reach < 0 or max(times.tolist()) > self.newest + self._reach:
            pieces = self._sift(arrived)
            if plain and len(pieces) == 1 and _is_rising(pieces[0].times, self.newest):
                self.newest = self.closed = int(pieces[0].times[-1])
                return self._given(Steps(pieces[0].times, pieces[0].values))
            self._put_all(pieces)
        else:
            self._put(arrived)
        return self._given(self._close(None if complete is None else complete()))

    def take_records(self, times: Ints, values: Floats, numbers: Ints) -> Steps:
        """Take samples that came one after the other, each with all channels, and a number.

        It makes no difference how many are given at once. Where one ends the stream, `ends` is
        that one, and what is behind it is not looked at.
        """
        if len(times) == 1 and self._conversion is None and not (self._steps or self._least):
            time = int(times[0])  # by far the most frequent of a pipe
            behind = max(self.newest, self.closed)
            if behind < time <= self.newest + self._reach and self.lateness is None:
                self.newest = self.closed = time
                self._number = int(numbers[0])
                return Steps(times, values, numbers)
        parts: list[Steps] = []
        start = count = 0
        if self._again != NO_TIME:
            known = times <= self.closed
            start = len(times) if known.all() else int(known.argmin())
            self.repeated += start
        while start < len(times) and self.ends is None:
            end = self._following(times, start)
            if end == len(times) and not start:  # the usual case is not copied
                part = self._in_order(Steps(times, values, numbers))
            elif end > start:
                rows = slice(start, end)
                part = self._in_order(Steps(times[rows], values[rows], numbers[rows]))
            else:
                end = start + 1
                rows = slice(start, end)
                record = Piece(times[rows], values[rows], self._all, numbers[rows])
                part = self._take_one(record)
            part = self._given(part, count)
            parts.append(part)
            count += len(part.times)
            start = end
        return joined(parts) if parts else _nothing(len(self.channels))

    @property
    def _all(self) -> Ints:
        return np.arange(len(self.channels))

    def _following(self, times: Ints, start: int) -> int:
        """Return the first row from `start` that does not follow the one before as usual."""
        newest, size = self.newest, _BLOCK
        while start < len(times) and self._reach >= 0 and newest != NO_TIME:
            block = times[start : start + size]
            before = np.append(newest, block[:-1])
            wrong = (block <= np.maximum(before, self.closed)) | (block - before > self._reach)
            if wrong.any():
                return start + int(wrong.argmax())
            newest = int(block[-1])
            start, size = start + len(block), size * 4
        return start

    def _in_order(self, steps: Steps) -> Steps:
        """Take records that follow as usual; return the steps that they close."""
        self.newest = int(steps.times[-1])
        assert steps.numbers is not None
        wait = self.wait or 0
        if not wait and not self._steps:
            self.closed, self._number = self.newest, int(steps.numbers[-1])
            return steps
        end = int(np.searchsorted(steps.times, self.newest - wait, side="right"))
        opened = sorted(self._steps)
        before = self._taken([time for time in opened if end or time <= self.newest - wait])
        for row in range(end, len(steps.times)):
            self._open(int(steps.times[row]), steps.values[row], self._all, int(steps.numbers[row]))
        if not end:
            return before
        self.closed, self._number = int(steps.times[end - 1]), int(steps.numbers[end - 1])
        part = Steps(steps.times[:end], steps.values[:end], steps.numbers[:end])
        return joined([before, part]) if len(before.times) else part

    def _take_one(self, record: Piece) -> Steps:
        """Take a record that does not follow as usual."""
        time = int(record.times[0])
        if time > self._again:
            self._again = NO_TIME
        if self._reach >= 0 and self.newest != NO_TIME and time <= self.newest + self._reach:
            self._put(record)
        elif self.newest == NO_TIME and self._is_future(time) and not self._holding.rows:
            self._holding.hold(record)
            self._set_reach()
        else:
            self._put_all(self._sift(record))
        return self._close(None)

    def _is_future(self, time: int) -> bool:
        return self._now is not None and time > self._now() + DAY

    def _sift(self, arrived: Piece) -> list[Piece]:
        """Hold what is too far ahead; return what goes on."""
        holding = self._holding
        if self._learns:
            holding.learn(arrived.times)
        if not self._whole and holding.rows:
            # Their channels have gone on at the old place, where others of the stream are further.
            new = arrived.times > self._last[arrived.at].max()
            if (new & (arrived.times <= self.newest)).any():
                self.counts["jumped"] += holding.refute(arrived.at)
        newest = self.newest
        if newest == NO_TIME:  # the first one, or two of which the first was in the future
            newest = int(arrived.times[0])
            if holding.rows and self._is_future(newest):
                newest = holding.rows[0].time
        sifted = holding.sift(arrived, newest, holding.limit(self._period))
        self.counts["jumped"] += len(sifted.dropped)
        self._refused += [Refused(*row[:2], JUMPED, row[2]) for row in sifted.dropped]
        self._gaps += sifted.gaps
        self._set_reach()
        return sifted.pieces

    def _put_all(self, pieces: list[Piece]) -> None:
        for piece in pieces:
            self._put(piece)
        for piece in self._holding.reached(self.newest):
            self._put(piece)
        self._set_reach()

    @property
    def _learns(self) -> bool:
        """Whether the usual step is looked for."""
        return self._whole and self.usual_step is None

    def _set_reach(self) -> None:
        closely = self._learns or self._holding.rows or self._again != NO_TIME
        self._reach = -1 if closely else self._holding.limit(self._period)

    def _columns_of(self, channels: tuple[str, ...]) -> Ints:
        """Return where channels are, new ones at the end."""
        column_of = {name: k for k, name in enumerate(self.channels)}
        new = tuple(name for name in channels if name not in column_of)
        if new:
            self.channels += new
            self._last = np.append(self._last, np.full(len(new), NO_TIME))
            self._absent = np.append(self._absent, np.zeros(len(new), np.int64))
            self._rare = np.append(self._rare, np.zeros(len(new), bool))
            self._together += [np.empty(0, np.int64)] * len(new)
            column_of |= {name: k for k, name in enumerate(self.channels)}
            for time, row in self._steps.items():
                self._steps[time] = np.append(row, np.full(len(new), np.nan))
        return np.array([column_of[name] for name in channels], np.int64)

    # ------------------------------------------------------------------ open steps

    def _put(self, piece: Piece) -> None:
        times, values, at, numbers = piece
        for place, (time, row) in enumerate(zip(times.tolist(), values, strict=True)):
            taken = ~np.isnan(row)
            if self._waits:
                self._note_came(time, at[taken])
            number = -1 if numbers is None else int(numbers[place])
            came_behind, self.newest = time < self.newest, max(self.newest, time)
            step = self._step(time)
            if step <= self.closed:
                self._refuse(number, time, self.closed)
            elif step not in self._steps:
                self._open(step, row, at, number)
                self.counts["out_of_order"] += came_behind
            elif self._join(step, row, at, taken, number):
                self.counts["out_of_order"] += came_behind
            else:
                self._refuse(number, time, time)

    def _open(self, step: int, row: Floats, at: Ints, number: int) -> None:
        opened = self._steps[step] = np.full(len(self.channels), np.nan)
        opened[at] = row
        if self._on_duplicate == "mean":
            self._counted[step] = (~np.isnan(opened)).astype(np.float64)
        if number >= 0:
            self._numbers[step] = number

    def _join(self, step: int, row: Floats, at: Ints, taken: Bools, number: int) -> bool:
        """Add a sample to an open step; return whether it had anything new."""
        opened, mode = self._steps[step], self._on_duplicate
        if mode == "last" or self._again != NO_TIME:
            self._open(step, row, at, number)
        elif mode == "mean":
            opened[at] = np.where(np.isnan(opened[at]), row, opened[at] + np.where(taken, row, 0))
            self._counted[step][at] += taken
            self._numbers[step] = number
        elif mode == "error":
            self.ends = Refused(number, step, TWICE, self._numbers[step])
        else:
            free = taken & np.isnan(opened[at])
            opened[at[free]] = row[free]
            return bool(free.any())
        return True

    def _refuse(self, number: int, time: int, newest: int) -> None:
        if self._again != NO_TIME:
            self.repeated += 1
            return
        twice = time == newest
        if twice and self._on_duplicate == "error":
            self.ends = Refused(number, time, TWICE, self._number)
            return
        self.counts["duplicate" if twice else "late"] += 1
        if number >= 0:
            self._refused.append(Refused(number, time, LATE, newest))

    @property
    def _waits(self) -> bool:
        """Whether steps may wait for channels."""
        return not self._whole or self.lateness is not None

    def _note_came(self, time: int, came: Ints) -> None:
        before = self._last[came]
        if self._period is not None:
            self._rare[came] = (before < time - _GONE * self._period) & (before != NO_TIME)
        self._absent[came[~self._rare[came]]] = 0  # also if late: the next steps wait for it
        self._last[came] = np.maximum(before, time)

    def _step(self, time: int) -> int:
        """Return the time of the step that a time belongs to."""
        if self._whole or self._period is None or self._origin is None:
            return time
        step = self._origin + (time - self._origin) // self._period * self._period
        return self._after + 1 if step <= self._after < time else step

    def _close(self, complete: Bools | None) -> Steps:
        """Close what can be closed, in order."""
        if not self._whole and self._origin is None and not self._find_steps():
            return self._taken([])
        wait = self.wait or 0
        waiting = sorted(self._steps)
        closing: list[int] = []
        for time in waiting:
            if wait and len(waiting) - len(closing) <= self._most_open:
                lacking = np.isnan(self._steps[time]) & (self._absent < _GONE) & ~self._rare
                if complete is not None:
                    lacking[: len(complete)] &= complete
                    lacking[len(complete) :] = False
                if (complete is None or lacking.any()) and not self._is_over(time + wait, lacking):
                    break
            closing.append(time)
            self._count_absent(time)
        return self._taken(closing)

    def _is_over(self, end: int, lacking: Bools) -> bool:
        """Whether a step that may wait until `end` has what will come of these channels."""
        if self._whole or end > self.newest:
            return end <= self.newest
        behind = np.flatnonzero(lacking & (self._last < end)).tolist()
        return all(self._last[self._together[each]].max() >= end for each in behind)

    def _count_absent(self, time: int) -> None:
        if self._waits:
            lacking = np.isnan(self._steps[time])
            self._absent[~lacking] = 0
            self._absent[lacking] += 1

    def _find_steps(self) -> bool:
        """Find the period, and where steps begin; return whether they are known."""
        if not self._steps:
            return False
        times = np.array(sorted(self._steps), np.int64)
        period = self._period
        if period is None:
            rows = np.array([self._steps[time] for time in times.tolist()]).reshape(len(times), -1)
            counts = (~np.isnan(rows)).sum(axis=0)
            most = int(counts.argmax())
            if counts[most] < _TIMES:
                return False
            self.period = period = int(np.median(np.diff(times[~np.isnan(rows[:, most])])))
        # The channels come at different moments of the period: steps begin in the middle of the
        # longest stretch in which none comes.
        all_times = times if self.closed == NO_TIME else np.append(times, self.closed)
        phases = np.unique(all_times % period)
        gaps = np.diff(phases, append=phases[0] + period)
        widest = int(gaps.argmax())
        self._origin = int(phases[widest] + gaps[widest] // 2)
        self._after = self.closed
        rows_by_time, self._steps = self._steps, {}
        for time in sorted(rows_by_time):
            row = rows_by_time[time]
            open_row = self._steps.setdefault(self._step(time), np.full(len(self.channels), np.nan))
            new = ~np.isnan(row)
            if (new & ~np.isnan(open_row)).any():  # it is a step of its own: nothing is lost
                self._steps[time] = row
            else:
                open_row[new] = row[new]
        return True

    # ------------------------------------------------------------------ what is given

    def close(self, until: int) -> Steps:
        """Close all steps that began before a time, also those of samples that are held."""
        released = self._holding.release(until, self.newest, self._period)
        if released:
            for piece in released:
                self._put(piece)
            self._set_reach()
            if self._whole and self.lateness is None:
                until = self.newest + 1
        closing = [time for time in sorted(self._steps) if time < until]
        for time in closing:
            self._count_absent(time)
        return self._given(self._taken(closing))

    def flush(self) -> Steps:
        """Close all steps: the input has ended. What is far ahead and not confirmed is refused."""
        rows = self._holding.rows
        if self.newest == NO_TIME and rows:  # the only record: nothing speaks against it
            self._put(rows[0].piece())
            rows = rows[1:]
        steps = self._taken(sorted(self._steps))
        self._refused += [Refused(row.number, row.time, JUMPED, self.newest) for row in rows]
        self._holding.rows = ()
        self._set_reach()
        if self._conversion is not None:
            steps = self._conversion.flush(steps)
        return self._with_refused(steps, len(steps.times))

    def _taken(self, times: list[int]) -> Steps:
        rows = [self._steps.pop(time) for time in times]
        values = np.array(rows).reshape(len(rows), len(self.channels))
        if self._counted:
            counts = np.array([self._counted.pop(time) for time in times]).reshape(values.shape)
            with np.errstate(invalid="ignore", divide="ignore"):
                values = values / counts
        numbers = None
        if times:
            self.closed = times[-1]
            if self._numbers:
                numbers = np.array([self._numbers.pop(time) for time in times], np.int64)
                self._number = int(numbers[-1])
        return Steps(np.array(times, np.int64), values, numbers)

    def _given(self, steps: Steps, before: int = 0) -> Steps:
        """Return steps as what is asked for, with what was refused before them."""
        if self._conversion is not None:
            steps = self._conversion.push(steps)
        return self._with_refused(steps, before)

    def _with_refused(self, steps: Steps, before: int) -> Steps:
        if not self._refused and not self._gaps:
            return steps
        refused = tuple(each._replace(before=before) for each in self._refused)
        steps = steps._replace(refused=refused, gaps=tuple(self._gaps))
        self._refused, self._gaps = [], []
        return steps

    # ------------------------------------------------------------------ as data

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        steps = [
            [
                time,
                cells_of(row),
                self._numbers.get(time, -1),
                None if time not in self._counted else self._counted[time].tolist(),
            ]
            for time, row in self._steps.items()
        ]
        channels_of: dict[tuple[int, ...], list[int]] = {}
        for channel, together in enumerate(self._together):
            channels_of.setdefault(tuple(together.tolist()), []).append(channel)
        return {
            "channels": list(self.channels),
            "newest": self.newest,
            "closed": self.closed,
            "number": self._number,
            "again": self._again,
            "counts": dict(self.counts),
            "holding": self._holding.to_json(),
            "period": self._period,
            "lateness": self.lateness,
            "whole": self._whole,
            "origin": self._origin,
            "after": self._after,
            "steps": steps,
            "last": self._last.tolist(),
            "absent": self._absent.tolist(),
            "rare": self._rare.tolist(),
            "together": [[list(key), channels] for key, channels in channels_of.items()],
            "conversion": None if self._conversion is None else self._conversion.to_json(),
        }

    @classmethod
    def from_json(cls, saved: Mapping[str, Any]) -> Self:
        """Return what `to_json` was called on, without options."""
        order = cls(saved["period"], saved["lateness"])
        order.restore(saved)
        return order

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Restore what `to_json` returned, also of other options."""
        self.channels = tuple(saved["channels"])
        self.newest, self.closed = saved["newest"], saved["closed"]
        self._number, self._again = saved["number"], saved["again"]
        self.counts |= saved["counts"]
        self._whole, self._origin = saved["whole"], saved["origin"]
        self._after = saved["after"]
        self._last = np.array(saved["last"], np.int64)
        self._absent = np.array(saved["absent"], np.int64)
        self._rare = np.array(saved["rare"], bool)
        self._together = [np.empty(0, np.int64)] * len(self.channels)
        for together, channels in saved["together"]:
            for channel in channels:
                self._together[channel] = np.array(together, np.int64)
        for time, cells, number, counts in saved["steps"]:
            row = np.array([np.nan if value is None else value for value in cells])
            if counts is not None and self._on_duplicate != "mean":
                with np.errstate(invalid="ignore", divide="ignore"):
                    row /= np.array(counts)
            self._open(time, row, self._all, number)
            if counts is not None and self._on_duplicate == "mean":
                self._counted[time] = np.array(counts)
        self._holding = HeldSamples.from_json(saved["holding"])
        if self._conversion is not None and saved["conversion"] is not None:
            self._conversion.restore(saved["conversion"])
        self._set_reach()


def joined(parts: Sequence[Steps]) -> Steps:
    """Return steps that follow each other as one; channels that came later were missing."""
    if len(parts) == 1:
        return parts[0]
    some = [part for part in parts if len(part.times)] or list(parts[:1])
    numbers = [part.numbers for part in some if part.numbers is not None]
    width = max(part.values.shape[1] for part in some)
    return Steps(
        np.concatenate([part.times for part in some]),
        np.concatenate([_wide(part.values, width) for part in some]),
        np.concatenate(numbers) if len(numbers) == len(some) else None,
        tuple(each for part in parts for each in part.refused),
        tuple(each for part in parts for each in part.gaps),
    )


def _wide(values: Floats, width: int) -> Floats:
    """Return values with columns of missing values at the end."""
    missing = width - values.shape[1]
    if not missing:
        return values
    return np.concatenate([values, np.full((len(values), missing), np.nan)], axis=1)


def _nothing(width: int) -> Steps:
    return Steps(np.empty(0, np.int64), np.empty((0, width)), np.empty(0, np.int64))


def _is_rising(times: Ints, newest: int) -> bool:
    return bool(times[0] > newest and (times[1:] > times[:-1]).all())
