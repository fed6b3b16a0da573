"""Times as they are written: of a column, or the two of date and time of day, or of a sequence.

One module because local clocks, columns and sequences share one reader of times.
"""

import re
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np

from newnormal.errors import InputError
from newnormal.tabular.parsing.dates import (
    FORMS,
    TIME_OF_DAY,
    DateForm,
    Moments,
    Order,
    custom_form,
    date_order,
    form_of,
)
from newnormal.tabular.reading import Reading
from newnormal.tabular.times import (
    nanoseconds,
    plain_texts,
    shown_time,
    standard_time,
    unwrapped,
    zone_of,
)
from newnormal.types import NO_TIME, Bools, Ints, Times

_DAY_NS = 86_400_000_000_000


class LocalClock:
    """Turns the local times of a zone into UTC, in the order in which they come.

    Where the clock goes back an hour of local times comes twice. A time that could be in either
    is the first one, unless it comes after a later one; it is then whichever of the two is
    nearer to where the series was to go on. The latest time is kept for each key (a stream).

    >>> clock = LocalClock("Europe/Berlin")
    >>> local = ["2026-10-25T01:30", "2026-10-25T02:30", "2026-10-25T02:30", "2026-10-25T03:30"]
    >>> utc = clock.to_utc(np.array(local, dtype="datetime64[ns]").astype(np.int64))
    >>> utc.view("datetime64[ns]").astype("datetime64[m]").astype(str).tolist()
    ['2026-10-24T23:30', '2026-10-25T00:30', '2026-10-25T01:30', '2026-10-25T02:30']
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._zone = ZoneInfo(name)
        self._days: dict[int, int | None] = {}
        self._latest: dict[Hashable, tuple[int, int]] = {}

    def facts(self) -> list[list[Any]]:
        """Return the latest times by key, as JSON values; only those that may be needed."""
        return [[key, *latest] for key, latest in self._latest.items() if _plain(key)]

    def restore(self, facts: Sequence[Sequence[Any]]) -> None:
        """Restore what `facts` returned."""
        for key, latest, step in facts:
            clock_key = tuple(key) if isinstance(key, list) else key
            self._latest[clock_key] = (int(latest), int(step))

    def to_utc(self, local: Ints, keys: Sequence[Hashable] | None = None) -> Ints:
        """Return local times (ns) as UTC; NO_TIME stays what it is.

        `local`: the times in the order in which they came. `keys`: what each of them is a time of;
        None: all of the same.
        """
        days, which = np.unique(local // _DAY_NS, return_inverse=True)
        offsets = [self._offset_of_day(day) for day in days.tolist()]
        constant = np.array([0 if offset is None else offset for offset in offsets], dtype=np.int64)
        utc: Ints = np.where(local == NO_TIME, NO_TIME, local - constant[which])
        changing = np.array([offset is None for offset in offsets], dtype=np.bool_)
        if not changing.any():
            self._latest.clear()
            return utc
        for row in np.flatnonzero(changing[which] & (local != NO_TIME)).tolist():
            key = None if keys is None else keys[row]
            utc[row] = self._resolved(int(local[row]), key)
        if not changing[which[-1]]:
            self._latest.clear()
        return utc

    def _resolved(self, local: int, key: Hashable) -> int:
        first, second = (local - self._offset(local, fold) for fold in (0, 1))
        latest, step = self._latest.get(key, (NO_TIME, 0))
        chosen = first
        if second > first and latest != NO_TIME and first <= latest:
            expected = latest + step
            chosen = second if abs(second - expected) < abs(first - expected) else first
        if latest == NO_TIME or chosen > latest:
            self._latest[key] = (chosen, 0 if latest == NO_TIME else chosen - latest)
        return chosen

    def _offset_of_day(self, day: int) -> int | None:
        """Return the offset that a day has throughout, None if it changes in it."""
        if day not in self._days:
            start = day * _DAY_NS
            if not -100_000 < day < 100_000:  # NO_TIME
                self._days[day] = 0
            else:
                ends = {
                    self._offset(start + shift, fold) for shift in (0, _DAY_NS) for fold in (0, 1)
                }
                self._days[day] = ends.pop() if len(ends) == 1 else None
        return self._days[day]

    def _offset(self, local: int, fold: int) -> int:
        moment = (_EPOCH + timedelta(microseconds=local // 1000)).replace(
            tzinfo=self._zone, fold=fold
        )
        offset = moment.utcoffset()
        assert offset is not None  # every zone of the database has one
        return round(offset.total_seconds()) * 1_000_000_000


def _plain(key: Hashable) -> bool:
    if isinstance(key, tuple):
        return all(map(_plain, key))
    return key is None or isinstance(key, str | int | float)


ORDERS = ("day-first", "month-first")
TIME_NAMES = frozenset({"time", "timestamp", "ts", "date", "datetime", "_time", "epoch"})

_WHOLE = re.compile(r"\s*\d{1,19}\s*", re.ASCII)
_FRACTION = re.compile(r"\s*[+-]?\d{1,25}[.,]?\d*(?:[eE][+-]?\d{1,3})?\s*", re.ASCII)
_PLAIN = re.compile(r"(?:19|20)\d\d-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d{1,6})?(Z)?", re.ASCII)
_EPOCH = datetime(1970, 1, 1)
_UNITS = {1: "s", 10**3: "ms", 10**6: "us", 10**9: "ns"}
# As `parse_time` has it: numbers above the first, up to the second, are in units of this many ns.
_RANGES = (
    (-1, 9 * 10**9, 10**9),
    (10**11, 9 * 10**12, 10**6),
    (10**14, 9 * 10**15, 10**3),
    (10**17, 9 * 10**18, 1),
)
_FIRST, _LAST = 631_152_000, 4_102_444_800  # 1990 and 2100 in Unix time


@dataclass(frozen=True)
class DateStyle:
    """How times are written."""

    # A pattern of `strptime`: the only form; None: any form that is known.
    pattern: str | None = None
    # Which number of a date such as 03/04/2026 is the day; None where there are no such dates.
    order: Order | None = None

    @property
    def text(self) -> str | None:
        """As `Reading.date_format` has it."""
        return self.pattern if self.pattern is not None else self.order

    @classmethod
    def of(cls, text: str | None) -> "DateStyle":
        """Return the style that an option asks for."""
        if text is None:
            return cls()
        if text in ORDERS:
            return cls(order="day-first" if text == "day-first" else "month-first")
        custom_form(text)  # refuses what is no pattern
        return cls(pattern=text)


def find_style(cells: Sequence[object], reading: Reading, column: str) -> DateStyle:
    """Return how the times of a column are written.

    Raise an InputError if day and month could be either, and neither an option nor history tells.
    """
    chosen = DateStyle.of(reading.date_format)
    if chosen.pattern is not None or chosen.order is not None:
        return chosen
    remembered = reading.remembered.date_format
    order = date_order(cells)
    if order == "open":
        if remembered in ORDERS:
            return DateStyle.of(remembered)
        example = next(cell for cell in cells if date_order([cell]) == "open")
        raise InputError(
            f"column {column!r}: expected dates that tell the day from the month, "
            f"found {example!r}",
            hint="name which comes first with --date-format day-first|month-first (date_format=)",
        )
    if order is None and remembered is not None and remembered not in ORDERS:
        style = DateStyle.of(remembered)
        texts = [cell for cell in cells if isinstance(cell, str) and form_of(cell) is None]
        if texts and any(custom_form(remembered).read([text]) for text in texts):
            return style
    return DateStyle(order=order)


def are_times(cells: Sequence[object], style: DateStyle) -> bool:
    """Return whether the first cell, or at least half of them, are times as text."""
    form = None if style.pattern is None else custom_form(style.pattern)
    count = 0
    for row, cell in enumerate(cells):
        if form is None:
            is_time = form_of(cell) is not None
        else:
            moments = form.read([cell]) if isinstance(cell, str) else None
            is_time = moments is not None and bool(moments.ns[0] != NO_TIME)
        if is_time and row == 0:
            return True
        count += is_time
    return 2 * count >= len(cells) > 0


def unix_unit(cells: Sequence[object]) -> str | None:
    """Return the unit of cells that are all Unix time of the years 1990 to 2100; None: they aren't.

    >>> unix_unit(["1767225600", "1767225601.5"]), unix_unit([1767225600123]), unix_unit(["12"])
    ('s', 'ms', None)
    """
    units = set()
    for cell in cells:
        if isinstance(cell, str):
            if _FRACTION.fullmatch(cell) is None:
                return None
            value = float(cell.replace(",", "."))
        elif isinstance(cell, int | float) and not isinstance(cell, bool):
            value = float(cell)
        else:
            return None
        units.add(next((u for u in _UNITS if _FIRST * u <= value < _LAST * u), 0))
    return _UNITS.get(units.pop()) if len(units) == 1 else None


class TimeReader:
    """Reads the cells of a column of times, or of two, as UTC; `clock` is the zone of local ones.

    >>> reader = TimeReader(DateStyle(order="day-first"), LocalClock("Europe/Berlin"))
    >>> times, bad = reader.read(["31.12.2026 23:59", "yesterday"])
    >>> times.astype("datetime64[m]").astype(str).tolist(), bad.tolist(), reader.zone
    (['2026-12-31T22:59', 'NaT'], [False, True], 'Europe/Berlin')
    """

    def __init__(self, style: DateStyle, clock: LocalClock | None = None) -> None:
        self.style = style
        self.clock = clock
        self._form = None if style.pattern is None else custom_form(style.pattern)
        self._usual: DateForm | None = self._form
        self._newest: Any = None
        self._local = False

    @property
    def zone(self) -> str | None:
        """The zone of the newest time; None if it has none."""
        if self._local and self.clock is not None:
            return self.clock.name
        return zone_of(self._newest)

    def read(
        self,
        cells: Sequence[Any],
        days: Sequence[Any] | None = None,
        keys: Sequence[Hashable] | None = None,
    ) -> tuple[Times, Bools]:
        """Return the times, and which cells are none (NaT).

        Where the date is in a column of its own, `days` are its cells, and `cells` times of day.
        `keys` are the streams of the cells, which have many of their times in common.
        """
        if days is not None:
            pairs = zip(days, cells, strict=True)
            cells = [
                f"{day.strip()} {cell.strip()}"
                if isinstance(day, str) and isinstance(cell, str)
                else None
                for day, cell in pairs
            ]
        if not cells:
            return np.empty(0, dtype="datetime64[ns]"), np.zeros(0, dtype=np.bool_)
        if keys is not None and len(cells) > 1 and set(map(type, cells)) == {str}:
            different = {cell: codes for codes, cell in enumerate(dict.fromkeys(cells))}
            moments = self._moments(list(different))
            codes = np.fromiter(map(different.__getitem__, cells), dtype=np.int64, count=len(cells))
            ns, zoned = moments.ns[codes], moments.zoned[codes]
        else:
            ns, zoned = self._moments(cells)
        bad: Bools = ns == NO_TIME
        self._note(cells, bad, zoned)
        if self.clock is not None and not zoned.all():
            ns = self._to_utc(ns, zoned, keys)
        return ns.view("datetime64[ns]"), bad

    def plain(self, cell: str) -> int | None:
        """Return a time in ISO form, without a zone or in UTC, as `read` does; None: ask `read`."""
        match = _PLAIN.fullmatch(cell) if self._form is None else None
        if match is None:
            return None
        local = match[1] is None
        if local and self.clock is not None:
            return None
        try:
            since = datetime.fromisoformat(cell if local else cell[:-1]) - _EPOCH
        except ValueError:  # the 30th of February
            return None
        self._newest, self._local = cell, local
        return (since.days * 86_400 + since.seconds) * 10**9 + since.microseconds * 1000

    def error(self, cell: Any, day: Any = None) -> InputError:
        """Return why a cell is no time."""
        text = cell if day is None else f"{day} {cell}"
        if self.style.pattern is not None:
            return InputError(
                f"expected a time written as {self.style.pattern}, found {shown_time(text)}"
            )
        try:
            standard_time(text)
        except InputError as error:
            return error
        return InputError(f"expected a time, found {shown_time(text)}")

    def _note(self, cells: Sequence[Any], bad: Bools, zoned: Bools) -> None:
        good = len(cells) - 1
        while good >= 0 and bad[good]:
            good -= 1
        if good >= 0:
            self._newest = cells[good]
            self._local = not zoned[good] and isinstance(cells[good], str)
            if self._local and _FRACTION.fullmatch(cells[good]):
                self._local = False

    def _to_utc(self, ns: Ints, zoned: Bools, keys: Sequence[Hashable] | None) -> Ints:
        assert self.clock is not None
        if not zoned.any():
            return self.clock.to_utc(ns, keys)
        local = np.flatnonzero(~zoned)
        local_keys = None if keys is None else [keys[row] for row in local.tolist()]
        ns = ns.copy()
        ns[local] = self.clock.to_utc(ns[local], local_keys)
        return ns

    def _moments(self, cells: Sequence[Any]) -> Moments:
        if self._form is None and (moments := _standard(cells)) is not None:
            return moments
        if set(map(type, cells)) == {str} and (moments := self._alike(cells)) is not None:
            return moments
        pairs = [self._one(cell) for cell in cells]
        return Moments(
            np.array([ns for ns, _ in pairs], dtype=np.int64),
            np.array([zoned for _, zoned in pairs], dtype=np.bool_),
        )

    def _alike(self, cells: Sequence[str]) -> Moments | None:
        """Return the times of texts that are all written in one way."""
        form = form_of(cells[0]) if self._usual is None else self._usual
        moments = None if form is None else form.read(cells, self.style.order)
        if moments is not None:
            self._usual = form
        return moments

    def _one(self, cell: Any) -> tuple[int, bool]:
        if self._form is None:
            try:
                ns = int(standard_time(cell).astype(np.int64))
            except InputError:
                pass
            else:
                text = isinstance(cell, str) and _FRACTION.fullmatch(cell) is None
                return ns, not text or zone_of(cell) is not None
        if not isinstance(cell, str):
            return NO_TIME, True
        if self._form is None and self.style.order is None and date_order([cell]) == "open":
            return NO_TIME, True
        for form in FORMS if self._form is None else (self._form,):
            moments = form.read([cell], self.style.order)
            if moments is not None and moments.ns[0] != NO_TIME:
                return int(moments.ns[0]), bool(moments.zoned[0])
        return NO_TIME, True


def _standard(cells: Sequence[Any]) -> Moments | None:
    """Return times that are all ISO 8601 of one kind, or all whole numbers of one unit."""
    kinds = set(map(type, cells))
    if kinds == {int} or (kinds == {str} and all(map(_WHOLE.fullmatch, cells))):
        return _unix(cells)
    return _iso(cells) if kinds == {str} else None


def _iso(cells: Sequence[str]) -> Moments | None:
    """Return ISO times, all without a zone or all in UTC."""
    utc = cells[0].endswith("Z") and all(cell.endswith("Z") for cell in cells)
    if not cells[0][:1].isdigit():
        return None
    times = plain_texts([cell[:-1] for cell in cells] if utc else cells)
    if times is None:
        return None
    return Moments(times.astype(np.int64), np.full(len(cells), utc))


def _unix(cells: Sequence[str] | Sequence[int]) -> Moments | None:
    """Return whole numbers that are all Unix time in the same unit."""
    try:
        numbers = np.array(cells, dtype=np.int64)
    except (ValueError, OverflowError):
        return None
    low, high = int(numbers.min()), int(numbers.max())
    for first, last, unit in _RANGES:
        if first < low and high <= last:
            return Moments(numbers * unit, np.ones(len(cells), dtype=np.bool_))
    return None


def parse_times(values: Any, where: Callable[[int], str] = "sample {}".format) -> Times:
    """Return times as datetime64[ns] in UTC, whatever they came as.

    Taken are datetime64 arrays, pandas and polars Series and indexes, and sequences of what
    `parse_time` takes; of dates of numbers all together tell the day from the month. Order is not
    checked and NaT passes, so that the caller can name which sample is at fault.

    `values`: the times, one-dimensional. `where`: what errors call one of them.

    >>> parse_times(["2026-01-01T01:00:00+01:00", "2026-01-01 00:00:30Z"])
    array(['2026-01-01T00:00:00.000000000', '2026-01-01T00:00:30.000000000'],
          dtype='datetime64[ns]')
    """
    if isinstance(values, str):
        raise InputError(f"expected a sequence of times, found the text {values!r}")
    array = values if isinstance(values, np.ndarray | list) else unwrapped(values)
    if isinstance(array, np.ndarray):
        if array.ndim != 1:
            raise InputError(f"expected one time a sample, found an array of shape {array.shape}")
        if array.dtype.kind == "M":
            return nanoseconds(array)
        array = array.tolist()
    if (moments := _standard(array)) is not None:
        return moments.ns.view("datetime64[ns]")
    order = date_order(array)
    reader = TimeReader(DateStyle(order=None if order == "open" else order))
    times, bad = reader.read(array, keys=array)  # streams have their times in common
    if order == "open":
        bad = np.array([date_order([cell]) == order for cell in array])
    if bad.any():
        row = int(bad.argmax())
        error = reader.error(array[row])
        raise InputError(f"{where(row)}: {error.message}", hint=error.hint)
    return times


def are_times_of_day(cells: Sequence[object]) -> bool:
    """Return whether most cells are times of day as text, such as 23:59:59."""
    count = sum(
        isinstance(cell, str) and TIME_OF_DAY.pattern.fullmatch(cell) is not None for cell in cells
    )
    return 2 * count > len(cells)


def are_days(cells: Sequence[object]) -> bool:
    """Return whether most cells are dates without a time of day."""
    count = sum(
        isinstance(cell, str) and ":" not in cell and form_of(cell) is not None for cell in cells
    )
    return 2 * count > len(cells)
