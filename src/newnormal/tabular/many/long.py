"""Long data: a row a value, with its time and the name of its channel."""

from collections.abc import Sequence
from dataclasses import dataclass

from newnormal.errors import InputError
from newnormal.tabular.columns import Selection
from newnormal.texts import listed

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
