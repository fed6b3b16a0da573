"""What counts as a time, and which one it is: always datetime64[ns], in UTC."""

import re
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from newnormal.errors import InputError
from newnormal.tabular.parsing.dates import date_order, form_of
from newnormal.types import Times, ns_of_time
from newnormal.types.zones import QUARTER, minutes_of, utc_offset

_OFFSET = re.compile(r"[T ]\d\d:\d\d[^Z+-]*(Z|[+-]\d\d(?::?\d\d)?)\s*$")
_FIXED = re.compile(r"(?:UTC|GMT)?([+-]\d\d:?(?:\d\d)?)")


def zone_of(time: Any) -> str | None:
    """Return the zone of one time: its IANA name, or its offset; None where it has none.

    >>> zone_of("2026-07-01T12:00:00+02:00"), zone_of("2026-07-01T12:00:00"), zone_of(1767225600)
    ('+02:00', None, None)
    """
    if isinstance(time, str):
        match = _OFFSET.search(time)
        return None if match is None else _named(match[1])
    zone = getattr(time, "tzinfo", None)
    return _of_tzinfo(zone, time) if isinstance(zone, tzinfo) else None


def zone_of_times(times: Any) -> str | None:
    """Return the zone of times in any form that `parse_times` takes.

    Where each time has an offset of its own, that of the last one.
    """
    if times is None or isinstance(times, str):
        return None
    if isinstance(times, np.ndarray) and times.dtype.kind == "M":
        return None
    dtype = getattr(times, "dtype", None)
    zone = getattr(dtype, "time_zone", None) or getattr(dtype, "tz", None)  # polars, pandas
    if isinstance(zone, str):
        return _named(zone)
    try:
        last = None if len(times) == 0 else times.iloc[-1] if hasattr(times, "iloc") else times[-1]
    except (TypeError, KeyError, IndexError):
        return None
    return _of_tzinfo(zone, last) if isinstance(zone, tzinfo) else zone_of(last)


def _of_tzinfo(zone: tzinfo, time: Any) -> str | None:
    name = getattr(zone, "key", None) or getattr(zone, "zone", None)  # zoneinfo, pytz
    if isinstance(name, str):
        return _named(name)
    offset = zone.utcoffset(time if isinstance(time, datetime) else None)
    return None if offset is None else _offset_text(offset)


def _named(zone: str) -> str:
    """Return a zone's name in one form.

    >>> _named("UTC+0530"), _named("Z"), _named("Europe/Berlin")
    ('+05:30', 'UTC', 'Europe/Berlin')
    """
    if (match := _FIXED.fullmatch(zone)) is not None:
        return _offset_text(timedelta(minutes=minutes_of(match[1].rstrip(":"))))
    return "UTC" if zone == "Z" else zone


def _offset_text(offset: timedelta) -> str:
    minutes = round(offset.total_seconds() / 60)
    if minutes == 0:
        return "UTC"
    return f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02}:{abs(minutes) % 60:02}"


_ZONE = r"(Z|[+-](?:[01]\d|2[0-3])(?::?[0-5]\d)?)"
_ISO = re.compile(
    rf"\d{{4}}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d{{1,9}})?)?{_ZONE}?)?", re.ASCII
)
_PLAIN = r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?)?"
_ISO_LINES = re.compile(rf"{_PLAIN}(?:\n{_PLAIN})*", re.ASCII)
_NUMBER = re.compile(r"[+-]?\d{1,25}(?:[.,]\d*)?(?:[eE][+-]?\d{1,3})?", re.ASCII)

# What datetime64[ns] holds in whole years; NumPy wraps around silently outside it.
_FIRST_YEAR, _LAST_YEAR = "1678", "2261"

TIME_HINT = (
    "write times as ISO 8601, such as 2026-01-31T12:00:00Z, or as Unix time in s, ms, us or ns; "
    f"from the year {_FIRST_YEAR} to {_LAST_YEAR}"
)


def parse_time(value: Any) -> np.datetime64:
    """Return one time as datetime64[ns] in UTC.

    `value`: a datetime or date, a pandas Timestamp, a datetime64, an ISO 8601 text or a number. A
    time with a zone is converted to UTC; one without is used as it is. A number, also written as
    text, is Unix time: in seconds up to 1e11 (the year 5138), beyond that in ms, beyond 1e14 in us,
    beyond 1e17 in ns. A fraction is rounded to microseconds, which is what a float64 can resolve.

    >>> print(parse_time("2026-01-31T12:00:00+02:00"))
    2026-01-31T10:00:00.000000000
    >>> print(parse_time(1767225600.5))
    2026-01-01T00:00:00.500000000
    >>> print(parse_time(1767225600500))
    2026-01-01T00:00:00.500000000
    """
    try:
        return standard_time(value)
    except InputError:
        form, order = form_of(value), date_order([value])
        moments = None if form is None or order == "open" else form.read([value], order)
        if moments is None:
            raise
        return np.datetime64(int(moments.ns[0]), "ns")


def standard_time(value: Any) -> np.datetime64:
    """Return what `parse_time` does, but of texts only ISO 8601 and numbers."""
    if isinstance(value, str):
        return _from_text(value)
    if hasattr(value, "to_datetime64"):  # a pandas Timestamp, which is also a datetime
        value = value.to_datetime64()
    if isinstance(value, np.datetime64):
        if np.isnat(value):
            raise InputError("expected a time, found NaT", hint=TIME_HINT)
        return nanoseconds(np.array([value]))[0]  # type: ignore[no-any-return]
    if isinstance(value, datetime):
        utc = value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)
        return nanoseconds(np.array([utc], dtype="datetime64[us]"))[0]  # type: ignore[no-any-return]
    if isinstance(value, date):
        return nanoseconds(np.array([value], dtype="datetime64[D]"))[0]  # type: ignore[no-any-return]
    if isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool):
        return _from_number(float(value) if isinstance(value, np.floating | float) else int(value))
    raise _not_a_time(value)


def _from_text(text: str) -> np.datetime64:
    text = text.strip()
    if (match := _ISO.fullmatch(text)) is None:
        if _NUMBER.fullmatch(text) is None:
            raise _not_a_time(text)
        whole = text.lstrip("+-").isdigit()
        return _from_number(int(text) if whole else float(text.replace(",", ".")))
    if not _FIRST_YEAR <= text[:4] <= _LAST_YEAR:
        raise _not_a_time(text)
    zone = match[1]
    try:
        time = np.datetime64(text.removesuffix(zone or ""), "ns")
    except ValueError:  # the 30th of February, 25 o'clock
        raise _not_a_time(text) from None
    return time - np.timedelta64(minutes_of(zone or ""), "m")


def _from_number(number: int | float) -> np.datetime64:
    size = abs(number)
    unit = 10**9 if size <= 1e11 else 10**6 if size <= 1e14 else 10**3 if size <= 1e17 else 1
    if not size * unit < 9.2e18:  # NaN comes here too
        raise _not_a_time(number)
    whole = number * unit if isinstance(number, int) else round(number * (unit / 1000)) * 1000
    return np.datetime64(whole, "ns")


def plain_texts(values: Any) -> Times | None:
    """Parse texts without zones in bulk, ten times as fast; None if there is anything else."""
    if not values:
        return None
    try:
        text = "\n".join(values)
    except TypeError:
        return None
    if _ISO_LINES.fullmatch(text) is None or text.count("\n") != len(values) - 1:
        return None
    if not _FIRST_YEAR <= min(values)[:4] <= max(values)[:4] <= _LAST_YEAR:
        return None
    try:
        return np.array(values, dtype="datetime64[ns]")
    except ValueError:
        return None


def unwrapped(values: Any) -> Any:
    """Return a Series' or an index' array, in UTC where it has a zone, or a list."""
    if isinstance(values, list | tuple):
        return values
    import narwhals as nw

    if hasattr(values, "to_series") and hasattr(values, "tz"):  # a pandas DatetimeIndex
        values = values.to_series()
    series = nw.from_native(values, series_only=True, pass_through=True)
    if isinstance(series, nw.Series):
        return series.to_numpy()
    try:
        return list(values)
    except TypeError:
        raise InputError(f"expected a sequence of times, found {values!r}") from None


def nanoseconds(times: NDArray[Any]) -> Times:
    """Return datetime64 of any unit in ns; an InputError for what that cannot hold."""
    years = times.astype("datetime64[Y]")
    outside = (years < np.datetime64(_FIRST_YEAR)) | (years > np.datetime64(_LAST_YEAR))
    if outside.any():
        raise _not_a_time(str(times[outside.argmax()]))
    return times.astype("datetime64[ns]")


def _not_a_time(value: object) -> InputError:
    return InputError(f"expected a time, found {shown_time(value)}", hint=TIME_HINT)


def shown_time(value: object) -> str:
    """Return what was found in the place of a time, cut where it is long."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


_DAY = 86_400 * 10**9


class Bound(NamedTuple):
    """A time, which may be one on the clock that the samples' times are of."""

    time: np.datetime64  # the time, in UTC or on that clock
    local: bool  # whether it was written without a zone: it is then one on that clock

    @classmethod
    def of(cls, value: Any) -> Self:
        """Return it from what a user gave; arrays' times and numbers are UTC."""
        written = isinstance(value, str | datetime) and not _is_number(value)
        return cls(parse_time(value), written and zone_of(value) is None)

    def in_zone(self, zone: str | None) -> np.datetime64:
        """Return it in UTC, where samples' times have that zone; the first of two on the clock.

        >>> bound = Bound.of("2026-07-01 12:00")
        >>> bound.in_zone("Europe/Berlin")
        np.datetime64('2026-07-01T10:00:00.000000000')
        """
        if zone is None or not self.local:
            return self.time
        offset, clock = utc_offset(zone), ns_of_time(self.time)
        near = sorted({offset((clock + shift) // QUARTER) for shift in (-_DAY, _DAY)})
        fitting = [span for span in near if offset((clock - span) // QUARTER) == span]
        return np.datetime64(clock - (max(fitting) if fitting else near[0]), "ns")


def _is_number(value: object) -> bool:
    try:
        float(str(value))
    except ValueError:
        return False
    return True
