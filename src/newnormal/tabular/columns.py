"""Which column of an input is what: the time, the label, which channel, or a part of long data."""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches

from newnormal.arrivals.naming import matching
from newnormal.errors import InputError, ParameterError
from newnormal.tabular.reading import Reading
from newnormal.tabular.table import default_channels
from newnormal.texts import MOST_LISTED, listed


@dataclass(frozen=True)
class Roles:
    """What each column of an input is."""

    channels: tuple[str, ...]  # the channels' names, in the order of the values
    # The column each channel comes from; another name only where the input has no names.
    columns: tuple[str, ...]
    # The columns of the time and of the label.
    time: str | None
    label: str | None
    # Where the date is in a column of its own: that one; `time` is then the time of day.
    date: str | None = None


@dataclass(frozen=True)
class Selection:
    """The columns as the user chose them."""

    # time, label: the columns that hold the time and the label
    time: str | None = None
    columns: tuple[str, ...] | None = None  # the only columns to take channels from; None for all
    drop: tuple[str, ...] = ()  # columns to leave out
    label: str | None = None
    # the columns whose cells are names: of the stream a sample is of, or of the channel
    by: tuple[str, ...] = ()
    # where the date is in a column of its own: that one; `time` is then the time of day
    date: str | None = None
    rates: tuple[str, ...] = ()  # patterns of channels that are counters

    @classmethod
    def of_reading(cls, reading: Reading, by: str | Sequence[str] = ()) -> "Selection":
        """Return the columns that a reading names.

        >>> Selection.of_reading(Reading.of(time=["day", "clock"])).date
        'day'
        """
        if len(reading.time) > 2:
            raise ParameterError(
                f"time: expected one column, or those of the date and of the time of day, "
                f"found {listed(reading.time)}"
            )
        time = reading.time[-1] if reading.time else None
        selection = cls.of(time, reading.columns, reading.drop, reading.label, by)
        date = reading.time[0] if len(reading.time) == 2 else None
        return replace(selection, date=date, rates=reading.rates)

    @classmethod
    def of(
        cls,
        time: str | None,
        columns: str | Sequence[str] | None,
        drop: str | Sequence[str],
        label: str | None,
        by: str | Sequence[str] = (),
    ) -> "Selection":
        """Return the selection from options as users write them: one name or several."""
        kept = None if columns is None else _several(columns)
        selection = cls(time, kept, _several(drop), label, _several(by))
        chosen = {"time": (time,), "label": (label,), "columns": kept or (), "by": selection.by}
        for option, names in chosen.items():
            for name in names:
                if name in selection.drop:
                    raise ParameterError(
                        f"column {name!r} is both chosen ({option}) and left out (drop)"
                    )
        if time is not None and time == label:
            raise ParameterError(f"column {time!r} cannot be both the time and the label")
        for name in selection.by:
            for option in ("time", "label", "columns"):
                if name in chosen[option]:
                    raise ParameterError(f"column {name!r} cannot be both by and {option}")
        return selection

    def check(self, names: Sequence[str]) -> None:
        """Raise an `InputError` if an option names a column the input does not have."""
        chosen = {
            "time": tuple(name for name in (self.date, self.time) if name is not None),
            "label": () if self.label is None else (self.label,),
            "by": self.by,
            "columns": self.columns or (),
            "drop": self.drop,
            "rates": self.rates,
        }
        for option, wanted in chosen.items():
            for name in wanted:
                if name not in names and not (option == "rates" and matching(names, name)):
                    raise InputError(
                        f"{option} names column {name!r}, found only {listed(names)}",
                        hint=alike([name], names),
                    )

    def kept(self, names: Sequence[str]) -> list[str]:
        """Return the columns that may be channels: all but those with another role."""
        others = {self.date, self.time, self.label, *self.by, *self.drop}
        columns = set(names if self.columns is None else self.columns)
        return [name for name in names if name in columns and name not in others]

    def maybe_times(self, names: Sequence[str], channels: Collection[str]) -> list[str]:
        """Return the columns that have no role yet, and so may hold times."""
        others = {self.date, self.time, self.label, *self.by, *self.drop, *channels}
        return [name for name in names if name not in others]

    def roles(
        self,
        names: Sequence[str],
        temporal: Sequence[str],
        channels: Sequence[str] | None,
        *,
        named: bool = True,
        timed: bool = False,
    ) -> Roles:
        """Return what each column is.

        `temporal` are those of `maybe_times` that hold times. They are never channels; one of them
        is the time if the user named none, and then there may be only one, unless the times come
        from elsewhere (`timed`). Channels match by name in any order; by count where `names` are
        not the input's own.
        """
        self.check(names)
        time = self.time
        if time is None and temporal and not timed:
            if len(temporal) > 1:
                raise InputError(
                    f"expected one column of times, found {listed(temporal)}",
                    hint="choose one with --time NAME (from Python time=, or times= for a frame), "
                    "or leave the others out with --drop NAME (drop=)",
                )
            time = temporal[0]
        kept = [name for name in self.kept(names) if name not in temporal]
        if not kept:
            raise InputError(
                f"expected at least one channel, found none among the columns {listed(names)}"
                if names
                else "expected at least one channel, found no columns"
            )
        if channels is None:
            return Roles(tuple(kept), tuple(kept), time, self.label)
        if not named:
            match_count(len(kept), channels)
            return Roles(tuple(channels), tuple(kept), time, self.label)
        match_names(kept, channels)
        return Roles(tuple(channels), tuple(channels), time, self.label)


def match_count(count: int, channels: Sequence[str], *, hint: str | None = None) -> None:
    """Raise an `InputError` unless an input without names has as many channels as expected."""
    if count != len(channels):
        raise InputError(f"expected {_counted(len(channels))}, found {count}", hint=hint)


def match_names(columns: Sequence[str], channels: Sequence[str]) -> None:
    """Raise an `InputError` naming the channels that are missing, or unknown."""
    there, wanted = set(columns), set(channels)
    missing = [name for name in channels if name not in there]
    unknown = [name for name in columns if name not in wanted]
    if not missing and not unknown:
        return
    faults = [
        f"{word} {'channel' if len(names) == 1 else 'channels'} {listed(names)}"
        for word, names in (("missing", missing), ("unknown", unknown))
        if names
    ]
    hint: str | None
    if tuple(channels) == default_channels(len(channels)):
        hint = "the detector learned from data without names: pass an array, or fit on named data"
    elif missing:
        hint = alike(missing, unknown)
    else:
        hint = (
            "leave out what is no channel with --drop NAME (drop=), "
            "or name the columns to keep with --columns NAME (columns=)"
        )
    raise InputError(
        f"{' and '.join(faults)}: expected {listed(channels)}, found {listed(columns)}", hint=hint
    )


def check_unique(names: Sequence[str]) -> None:
    """Raise an `InputError` naming the columns that share a name."""
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise InputError(
            f"expected columns of different names, found {listed(twice)} more than once"
        )


def alike(wanted: Sequence[str], names: Sequence[str]) -> str | None:
    """Return a hint with the names most like the wanted ones, or None if nothing is."""
    pairs = [
        f"{name!r} may be {' or '.join(map(repr, close))}"
        for name in wanted[:MOST_LISTED]
        if (close := get_close_matches(name, names, n=2))
    ]
    return "; ".join(pairs) or None


def _several(names: str | Sequence[str]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)


def _counted(count: int) -> str:
    return f"{count} channel" if count == 1 else f"{count} channels"


_NAMES = {
    "time": ("time", "timestamp", "ts", "datetime"),
    "tag": ("tag", "metric", "name", "channel", "variable", "sensor"),
    "value": ("value",),
}
# Looked for where there is none of these: names that historians and databases give, which may
# mean something else beside one of the names above. The first that is there counts.
_ALSO = {
    "time": (
        ("zeitstempel", "timestamputc", "datumzeit", "datumuhrzeit", "date/time", "timestamp(utc)"),
        ("date", "zeit", "datum"),
    ),
    "tag": (
        ("tagname", "pitag", "point", "pointname", "item", "itemid", "signal", "series"),
        ("seriesname", "signalname", "sensorid", "messstelle", "kanal", "field"),
        ("measurement",),
    ),
    "value": (("val", "reading", "measuredvalue", "wert", "messwert"),),
}


@dataclass(frozen=True)
class Long:
    """Where the columns of long data are.

    `time`, `tag`, `value`: the columns of the time, of the channel's name and of its value. None
    finds the column by its name, in any case: time, timestamp, ts or datetime; tag, metric, name,
    channel, variable or sensor; value. Where there is none of these, names of historians count,
    such as date, tagname, point, item, signal, series, field, val and reading; spaces and
    underscores do not.
    """

    time: str | None = None
    tag: str | None = None
    value: str | None = None


@dataclass(frozen=True)
class LongColumns:
    """The columns of long data, found."""

    time: str
    tag: str
    value: str

    def selection(self, by: Sequence[str]) -> Selection:
        """Return them for a parser of lines: the cells of `by` and the tag are names."""
        return Selection(time=self.time, columns=(self.value,), by=(*by, self.tag))


def find_long(names: Sequence[str], long: Long, by: Sequence[str] = ()) -> LongColumns:
    """Return which columns hold the time, the tag and the value; each must be one column.

    >>> find_long(["Timestamp", "host", "metric", "Value"], Long(), by=["host"])
    LongColumns(time='Timestamp', tag='metric', value='Value')
    """
    for name in by:
        if name not in names:
            raise InputError(f"by names column {name!r}, found only {listed(names)}")
    taken = {*by, long.time, long.tag, long.value}
    free = [name for name in names if name not in taken]
    return LongColumns(
        _column_of("time", long.time, names, free),
        _column_of("tag", long.tag, names, free),
        _column_of("value", long.value, names, free),
    )


def tag_of(names: Sequence[str]) -> str | None:
    """Return the column of the tag where columns look as those of long data; else None.

    >>> tag_of(["Tag", "Timestamp", "Value", "Quality"]), tag_of(["time", "name", "load"])
    ('Tag', None)
    """
    try:
        return find_long(names, Long()).tag
    except InputError:
        return None


def _column_of(role: str, chosen: str | None, names: Sequence[str], free: Sequence[str]) -> str:
    choose = f'name it with --{role} NAME (from Python long=Long({role}="..."))'
    if chosen is not None:
        if chosen not in names:
            raise InputError(f"long names column {chosen!r} as {role}, found only {listed(names)}")
        return chosen
    columns = _called(role, free)
    if len(columns) == 1:
        return columns[0]
    if columns:
        raise InputError(f"expected one column of the {role}, found {listed(columns)}", hint=choose)
    raise InputError(
        f"expected a column of the {role}, called {' or '.join(_NAMES[role])}, "
        f"found only {listed(names)}",
        hint=f"{choose}; or leave --long (long=) out where each channel has its own column",
    )


def _called(role: str, names: Sequence[str]) -> list[str]:
    """Return the columns whose name is one of the role's, by the nearest names that there are.

    >>> _called("tag", ["_measurement", "_field"]), _called("time", ["Date", "Time Stamp"])
    (['_field'], ['Time Stamp'])
    """
    if exact := [name for name in names if name.strip().lower() in _NAMES[role]]:
        return exact
    plain = {name: "".join(name.lower().replace("_", " ").split()) for name in names}
    for role_names in (_NAMES[role], *_ALSO[role]):
        if columns := [name for name, text in plain.items() if text in role_names]:
            return columns
    return []
