"""How an input is written and what is taken from it: the same words in the shell and in Python."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, Self

import numpy as np

from newnormal.arrivals.naming import matching
from newnormal.config import duration
from newnormal.errors import InputError, ParameterError
from newnormal.tabular.times import Bound

LONGEST_LINE = 1_000_000  # bytes

OnDuplicate = Literal["last", "mean", "error"]
Format = Literal["csv", "jsonl", "parquet", "excel", "prometheus", "influx"]

_FORMATS = ("csv", "jsonl", "parquet", "excel", "prometheus", "influx")
_ON_DUPLICATE = ("last", "mean", "error")
_WORDS = {"tab": "\t", "space": " ", "comma": ",", "semicolon": ";", "pipe": "|"}


@dataclass(frozen=True)
class Remembered:
    """What `fit` found out about history, for inputs that do not say it themselves."""

    # The columns of history in the order of its file, () if it had no names. Lines without a header
    # that have as many cells are read in this order.
    header: tuple[str, ...] = ()
    # Its columns that were dropped or held labels: live data may have them, or not.
    left_out: tuple[str, ...] = ()
    # How numbers and times were written: used where an input leaves it open.
    decimal: str | None = None
    date_format: str | None = None
    # The column or columns of times that were named: those of an input that has them.
    time: tuple[str, ...] = ()


@dataclass(frozen=True)
class Reading:
    """How to read an input. None, everywhere, is: find it out."""

    # csv, jsonl, parquet, excel, prometheus (the JSON of its `query_range`) or influx (its CSV)
    format: Format | None = None
    encoding: str | None = None  # the name of the text's encoding, as Python knows it
    # what separates the cells of CSV: one character, or tab, space, comma, semicolon, pipe
    delimiter: str | None = None
    decimal: str | None = None  # the decimal point: "." or ","
    # how times are written: a pattern of `strptime`, or "day-first" or "month-first" for dates of
    # numbers such as 03/04/2026
    date_format: str | None = None
    tz: str | None = None  # the zone of times that have none, by its IANA name
    na: tuple[str, ...] = ()  # words for missing values, besides an empty cell, NaN, NA and null
    time: tuple[str, ...] = ()  # the column of times, or two: of the date and of the time of day
    columns: tuple[str, ...] | None = None  # the only columns to take channels from
    drop: tuple[str, ...] = ()  # columns to leave out
    label: str | None = None  # the column of labels
    # patterns of columns that are counters: what they rise by, per second where there are times, is
    # the channel
    rates: tuple[str, ...] = ()
    # labels that are left out of the names of channels, where a file has series with labels
    without: tuple[str, ...] = ()
    sheet: str | None = None  # the sheet of an Excel file; None: the first
    ignore_extra: bool = False  # say nothing of columns that are no channel
    # take these samples only, counted from 0: first, and the one behind the last; None: open
    rows: tuple[int | None, int | None] | None = None
    # from_, until: take samples from this time on, and before that time. Written without a zone it
    # is one in the zone of the samples' times
    from_: Bound | None = None
    until: Bound | None = None
    # what counts of several samples of one time: the last, their mean, or none: an error
    on_duplicate: OnDuplicate | None = None
    # how long live samples wait for those that are late; None: not at all
    lateness: np.timedelta64 | None = None
    # the time between samples to bring them to, each the mean of what came since the one before
    resample: np.timedelta64 | None = None
    longest_line: int = LONGEST_LINE  # in bytes; a longer one is refused and skipped
    remembered: Remembered = Remembered()  # what `fit` found out about history

    @classmethod
    def of(cls, options: Mapping[str, Any] | None = None, /, **more: Any) -> Self:
        """Return a reading from options as users write them; None is: not given.

        Raise a ParameterError if an option is unknown or has a value that it cannot have.

        >>> reading = Reading.of(na="Bad,-", rows="0:400", delimiter="semicolon")
        >>> reading.na, reading.rows, reading.delimiter
        (('Bad', '-'), (0, 400), ';')
        """
        chosen = {**(options or {}), **more}
        names = {option.name for option in fields(cls)}
        for name in chosen:
            if name not in names:
                raise ParameterError(
                    f"expected an option of reading, found {name!r}",
                    hint=f"the options are {', '.join(sorted(names - {'remembered'}))}",
                )
        values = {
            name: _READERS.get(name, _as_it_is)(name, value)
            for name, value in chosen.items()
            if value is not None
        }
        return cls(**values).checked()

    def checked(self) -> Self:
        """Return it if its options agree, else raise a ParameterError."""
        for name in self.drop:
            for option in ("time", "label", "columns", "rates"):
                chosen = getattr(self, option) or ()
                if name in ((chosen,) if isinstance(chosen, str) else chosen):
                    raise ParameterError(
                        f"column {name!r} is both chosen ({option}) and left out (drop)"
                    )
        for column in (self.label, *self.rates):
            if column in self.time:
                what = "the label" if column == self.label else "a counter"
                raise ParameterError(f"column {column!r} cannot be both the time and {what}")
        if self.label is not None and self.label in self.rates:
            raise ParameterError(f"column {self.label!r} cannot be both the label and a counter")
        if self.decimal is not None and self.decimal == self.delimiter:
            raise ParameterError(
                f"expected a decimal point that is not the delimiter, found {self.decimal!r}"
            )
        return self

    def remembering(self, profile: "InputProfile", by: Sequence[str] = ()) -> dict[str, Any]:
        """Return what a detector remembers of an input, as JSON values: it holds live, too.

        `profile`: what was found out about the input. `by`: the columns that name the stream.
        """
        return {
            "by": list(by),
            "decimal": self.decimal or profile.decimal or self.remembered.decimal,
            "date_format": self.date_format or profile.date_format or self.remembered.date_format,
            "tz": self.tz,
            "na": list(self.na),
            "time": list(self.time),
            "columns": None if self.columns is None else list(self.columns),
            "drop": list(self.drop),
            "label": self.label,
            "rates": list(self.rates),
            "without": list(self.without),
            "resample": None if self.resample is None else _nanoseconds(self.resample),
            "header": list(profile.header),
        }

    def after(self, facts: Mapping[str, Any] | None) -> Self:
        """Return it with what is not given taken from what a detector remembers (`remembering`)."""
        if facts is None:
            return self
        plain = type(self)()
        resample = facts["resample"]
        old: dict[str, Any] = {
            "tz": facts["tz"],
            "na": tuple(facts["na"]),
            "rates": tuple(facts["rates"]),
            "without": tuple(facts["without"]),
            "resample": None if resample is None else np.timedelta64(resample, "ns"),
        }
        changes = {
            name: value
            for name, value in old.items()
            if getattr(self, name) == getattr(plain, name)
        }
        left_out = [*facts["drop"], *([] if facts["label"] is None else [facts["label"]])]
        if facts["columns"] is not None:
            left_out += [name for name in facts["header"] if name not in facts["columns"]]
        remembered = Remembered(
            tuple(facts["header"]),
            tuple(left_out),
            facts["decimal"],
            facts["date_format"],
            tuple(facts["time"]),
        )
        return replace(self, **changes, remembered=remembered)


@dataclass
class BadCells:
    """Cells of one column that could not be read, and count as missing."""

    count: int
    line: int
    example: str


@dataclass
class InputProfile:
    """What was found out about an input while it was read."""

    header: tuple[str, ...] = ()  # its columns in their own order, () if it has no names
    time: tuple[str, ...] = ()  # the column or columns of its times
    # the format of its lines: csv or jsonl; None if it has none
    kind: Literal["csv", "jsonl"] | None = None
    # how it is written, where that is not plain: delimiter, decimal, dates, time_unit, encoding,
    # compression, preamble, units; as text for the user
    written: dict[str, str] = field(default_factory=dict)
    # lines, bad_lines: how many lines had something in them, and how many of these held no sample
    lines: int = 0
    bad_lines: int = 0
    first_bad: str | None = None  # what was wrong with the first of these, with its number
    # by column, cells that could not be read
    bad_cells: dict[str, BadCells] = field(default_factory=dict)
    # duplicates, out_of_order: samples that share the time of another, and that were not in the
    # order of their times
    duplicates: int = 0
    out_of_order: int = 0
    notes: list[str] = field(default_factory=list)  # whatever else is reported, a sentence each
    # what a detector remembers of how it was read: `Reading.remembering`
    reading: dict[str, Any] | None = None
    # of columns, from a row below the header, or where every number has one behind it
    units: dict[str, str] = field(default_factory=dict)
    # decimal, date_format: the decimal point and how dates are written, as `Remembered` has them;
    # None where the input has no numbers with a fraction, no dates of numbers
    decimal: str | None = None
    date_format: str | None = None

    @property
    def channel_units(self) -> dict[str, str]:
        """Units of channels: of a counter, that of its rate."""
        patterns = () if self.reading is None else self.reading["rates"]
        rates = {name for pattern in patterns for name in matching([*self.units], pattern)}
        behind = "/s" if self.time else ""
        return {name: unit + behind * (name in rates) for name, unit in self.units.items()}

    def begin(self, other: "InputProfile") -> None:
        """Take over what was found out when the input was opened."""
        self.kind = other.kind
        self.written.update(other.written)
        self.lines += other.lines
        self.bad_lines += other.bad_lines
        self.first_bad = self.first_bad or other.first_bad


def _as_it_is(name: str, value: Any) -> Any:
    del name
    return value


def _names(name: str, value: str | Sequence[str]) -> tuple[str, ...]:
    del name
    return (value,) if isinstance(value, str) else tuple(value)


def _words(name: str, value: str | Sequence[str]) -> tuple[str, ...]:
    del name
    texts = value.split(",") if isinstance(value, str) else value
    return tuple(text.strip() for text in texts if text.strip())


def _delimiter(name: str, value: str) -> str:
    character = _WORDS.get(value, value)
    if len(character) != 1:
        raise ParameterError(
            f"{name}: expected one character or {', '.join(_WORDS)}, found {value!r}"
        )
    return character


def _one_of(*choices: str) -> Any:
    def check(name: str, value: str) -> str:
        if value not in choices:
            raise ParameterError(
                f"{name}: expected {' or '.join(map(repr, choices))}, found {value!r}"
            )
        return value

    return check


def _rows(name: str, value: str | Sequence[int | None]) -> tuple[int | None, int | None]:
    try:
        if isinstance(value, str):
            first, colon, last = value.partition(":")
            if not colon:
                raise ValueError
            bounds = tuple(int(text) if text.strip() else None for text in (first, last))
        else:
            bounds = tuple(value)
        start, stop = bounds
        if any(bound is not None and bound < 0 for bound in bounds):
            raise ValueError
        if start is not None and stop is not None and stop <= start:
            raise ValueError
    except (TypeError, ValueError):
        raise ParameterError(
            f"{name}: expected FIRST:LAST, counted from 0, such as 0:400 or 400:, found {value!r}"
        ) from None
    return start, stop


def _time(name: str, value: Any) -> Bound:
    if isinstance(value, Bound):
        return value
    try:
        return Bound.of(value)
    except InputError as error:
        raise ParameterError(f"{name.rstrip('_')}: {error.message}", hint=error.hint) from error


def _duration(name: str, value: Any) -> np.timedelta64:
    return duration(value, name)


def _nanoseconds(value: np.timedelta64) -> int:
    return int(value / np.timedelta64(1, "ns"))


def _whole(name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ParameterError(f"{name}: expected a whole number from 0, found {value!r}")
    return value


def _zone(name: str, value: str) -> str:
    from zoneinfo import ZoneInfo

    try:
        ZoneInfo(value)
    except (KeyError, ValueError, OSError):
        raise ParameterError(
            f"{name}: expected the name of a time zone, such as Europe/Berlin, found {value!r}"
        ) from None
    return value


def _encoding(name: str, value: str) -> str:
    import codecs

    try:
        return codecs.lookup(value).name
    except LookupError:
        raise ParameterError(
            f"{name}: expected an encoding such as utf-8, utf-16 or latin-1, found {value!r}"
        ) from None


_READERS: dict[str, Any] = {
    "format": _one_of(*_FORMATS),
    "encoding": _encoding,
    "delimiter": _delimiter,
    "decimal": _one_of(".", ","),
    "tz": _zone,
    "na": _words,
    "time": _names,
    "columns": _names,
    "drop": _names,
    "rates": _names,
    "without": _names,
    "rows": _rows,
    "from_": _time,
    "until": _time,
    "on_duplicate": _one_of(*_ON_DUPLICATE),
    "lateness": _duration,
    "resample": _duration,
    "longest_line": _whole,
}
