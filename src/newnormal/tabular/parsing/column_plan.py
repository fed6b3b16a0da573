"""What each column of an input of lines is, and how its cells are written: from its first lines."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any

from newnormal.arrivals.cells import Cell, shown
from newnormal.arrivals.naming import matching
from newnormal.errors import InputError
from newnormal.tabular.columns import Roles, Selection, alike, match_count, tag_of
from newnormal.tabular.parsing.decimals import (
    NumberReader,
    column_unit,
    find_decimal,
    looks_like_number,
)
from newnormal.tabular.parsing.time_columns import (
    TIME_NAMES,
    DateStyle,
    LocalClock,
    TimeReader,
    are_days,
    are_times,
    are_times_of_day,
    find_style,
    unix_unit,
)
from newnormal.tabular.reading import InputProfile, Reading
from newnormal.texts import listed

_ENOUGH = 8  # lines by which a column is known to hold text


@dataclass(frozen=True)
class InputColumns:
    """The columns of an input."""

    names: tuple[str, ...]  # the columns in their order
    named: bool = True  # whether the names are the input's own
    nameless: tuple[str, ...] = ()  # those that replace an empty cell of the header
    grows: bool = False  # whether there may be more, as in JSON lines
    unseen: frozenset[str] = frozenset()  # those that no line has had so far


@dataclass(frozen=True, eq=False)
class ColumnPlan:
    """Where in a line everything is, and how it is read."""

    roles: Roles  # what each column is
    # The position in a line of each channel's cell, -1 where there is none.
    positions: tuple[int, ...]
    # The positions of the time, of the date if it is in a column of its own, and of the label.
    time_at: int | None
    date_at: int | None
    label_at: int | None
    keys_at: tuple[int, ...]  # the positions of the names
    # How numbers and times are read.
    numbers: NumberReader
    times: TimeReader
    width: int  # how many columns there are

    @property
    def plain(self) -> bool:
        """Whether every channel is a column of numbers without units."""
        return not self.numbers.units and -1 not in self.positions


class ColumnInference:
    """Finds out what each column is.

    `selection` and `reading` are what the user chose, `channels` those expected (None: what there
    is). What is found out goes into `profile` and, as a sentence for the user, to `report`. With
    `texts` channels may hold text, each of which is a missing value.
    """

    def __init__(
        self,
        selection: Selection,
        reading: Reading,
        channels: Sequence[str] | None,
        profile: InputProfile,
        report: Callable[[str], None],
        texts: bool = False,
    ) -> None:
        self.selection = selection
        self._reading, self._profile = reading, profile
        self._report = report
        self._texts = texts
        self.channels = None if channels is None else tuple(channels)
        self._known = channels is not None
        self._clock = None if reading.tz is None else LocalClock(reading.tz)
        self._said: set[str] = set()
        self._timed: bool | None = None
        self.numbers: NumberReader | None = None
        self.style: DateStyle | None = None

    @property
    def clock(self) -> LocalClock | None:
        """The zone of times that have none."""
        return self._clock

    def remember(self, decimal: str | None, date_format: str | None) -> None:
        """Take up what was found out before about how cells are written."""
        if decimal is not None and self._reading.decimal is None:
            self._reading = replace(self._reading, decimal=decimal)
        if date_format is not None and self._reading.date_format is None:
            self._reading = replace(self._reading, date_format=date_format)

    def infer_columns(self, columns: InputColumns, rows: Sequence[Sequence[Cell]]) -> ColumnPlan:
        """Return where everything is, given some lines' cells; raise if all would be wrong."""
        selection, names = self.selection, columns.names
        self._check(names, columns)
        cells = dict(zip(names, zip(*rows, strict=True), strict=False)) if rows else {}
        there = {name: self._there(cells.get(name, ())) for name in names}
        empty = {name for name in columns.nameless if rows and not there[name]}
        selection = replace(selection, drop=(*selection.drop, *empty))
        selection, temporal = self._temporal(selection, names, there)
        roles = self._roles(selection, columns, temporal)
        if rows:
            self._check_timed(roles)
        position = {name: column for column, name in enumerate(names)}
        numbers = self._numbers(roles, there)
        if not self._known and not self._texts and len(rows) >= _ENOUGH:
            check_texts(self._text_columns(roles, cells, numbers), names)
        times = self._times(roles, there)
        self._note(columns, roles)
        return ColumnPlan(
            roles,
            tuple(position.get(column, -1) for column in roles.columns),
            None if roles.time is None else position[roles.time],
            None if roles.date is None else position[roles.date],
            None if roles.label is None else position[roles.label],
            tuple(position[name] for name in selection.by),
            numbers,
            times,
            len(names),
        )

    def _check_timed(self, roles: Roles) -> None:
        """Refuse a header without times where there were times before it, and the other way."""
        timed = roles.time is not None
        if self._timed is not None and self._timed != timed:
            actual = "none" if self._timed else f"column {roles.time!r}"
            expected = "a column of times" if self._timed else "no column of times"
            raise InputError(f"expected {expected}, as before this header, found {actual}")
        self._timed = timed

    def _check(self, names: Sequence[str], columns: InputColumns) -> None:
        """Refuse options that name no column; live data may lack what was left out."""
        chosen = self.selection
        if self._known or columns.grows:
            drop = tuple(name for name in chosen.drop if name in names)
            kept = chosen.columns and tuple(name for name in chosen.columns if name in names)
            rates = tuple(rate for rate in chosen.rates if matching(names, rate))
            chosen = replace(chosen, drop=drop, columns=kept, rates=rates)
        chosen.check(names if columns.grows else [n for n in names if n not in columns.unseen])

    def _there(self, cells: Sequence[Cell]) -> list[Cell]:
        missing = NumberReader(None, self._reading.na).is_missing
        return [cell for cell in cells if not missing(cell)]

    def _temporal(
        self, selection: Selection, names: Sequence[str], there: dict[str, list[Cell]]
    ) -> tuple[Selection, list[str]]:
        """Return the selection with date and time of day found, and the columns of times."""
        remembered = self._reading.remembered.time
        if selection.time is None and remembered and set(remembered) <= set(names):
            selection = replace(
                selection, date=remembered[0] if len(remembered) == 2 else None, time=remembered[-1]
            )
        free = selection.maybe_times(names, self.channels or ())
        style = DateStyle.of(self._reading.date_format)
        if style.pattern is None and self._reading.remembered.date_format is not None:
            style = DateStyle.of(self._reading.remembered.date_format)
        temporal = [
            name
            for name in free
            if are_times(there[name], DateStyle()) or are_times(there[name], style)
        ]
        clocks = [name for name in free if are_times_of_day(there[name])]
        days = [name for name in temporal if are_days(there[name])]
        if selection.time is None and len(days) == len(clocks) == len(temporal) == 1:
            return replace(selection, date=days[0], time=clocks[0]), []
        for name in free:
            if name.strip().lower() in TIME_NAMES and name not in temporal and there[name]:
                unit = unix_unit(there[name])
                if unit is not None:
                    temporal.append(name)
                    self._profile.written["time_unit"] = f"Unix time in {unit}"
        if not temporal and selection.time is None:
            temporal = self._unread(free, there)
        return selection, temporal

    def _unread(self, free: Sequence[str], there: dict[str, list[Cell]]) -> list[str]:
        """Return a column called time of which no cell could be read so far: it is the time."""
        named = [name for name in free if name.strip().lower() in TIME_NAMES]
        texts = [
            name for name in named if there[name] and not any(map(looks_like_number, there[name]))
        ]
        if self._known and not texts:
            texts = [name for name in named if not there[name]]
        return texts[:1]

    def _roles(self, selection: Selection, columns: InputColumns, temporal: list[str]) -> Roles:
        names = columns.names
        if self.channels is None or not columns.named:
            if not columns.named and self.channels is not None:
                match = [name for name in selection.kept(names) if name not in temporal]
                match_count(len(match), self.channels, hint=self._count_hint())
            chosen = selection
            if columns.grows and selection.columns is not None:
                kept = tuple(name for name in selection.columns if name in names)
                chosen = replace(selection, columns=kept)
            chosen = replace(chosen, drop=tuple(n for n in chosen.drop if n in names))
            chosen = replace(chosen, rates=())
            roles = chosen.roles(names, temporal, self.channels, named=columns.named)
            nameless = set(columns.nameless).difference(selection.columns or ())
            for column in roles.columns:
                if column in nameless:
                    raise InputError(
                        f"{column} has no name in the header and holds no times",
                        hint=f"a row number is no channel: leave it out with --drop {column!r}",
                    )
            return replace(roles, date=selection.date)
        return self._matched(selection, names, temporal, columns)

    def _count_hint(self) -> str | None:
        header = self._reading.remembered.header
        if not header:
            return None
        return (
            f"history had {len(header)} columns, {listed(header)}: lines without a header need them"
        )

    def _matched(
        self, selection: Selection, names: Sequence[str], temporal: list[str], columns: InputColumns
    ) -> Roles:
        """Return the roles where the channels are known: what is unknown or absent is reported."""
        assert self.channels is not None
        time = selection.time
        if time is None and len(temporal) > 1:
            roles = Selection().roles(names, temporal, None)  # raises: which is the time?
            time = roles.time
        elif time is None and temporal:
            time = temporal[0]
        kept = [
            name
            for name in selection.kept(names)
            if name not in temporal and name not in columns.unseen
        ]
        there = set(kept)
        absent = [name for name in self.channels if name not in there]
        wanted = set(self.channels)
        unknown = [name for name in kept if name not in wanted and name not in columns.nameless]
        if len(absent) == len(self.channels):
            raise InputError(
                f"missing channels {listed(self.channels)}: found only {listed(kept or names)}"
                if len(absent) > 1
                else f"missing channel {absent[0]!r}: found only {listed(kept or names)}",
                hint=alike(absent, unknown),
            )
        self._tell(absent, unknown)
        return Roles(self.channels, self.channels, time, selection.label, selection.date)

    def _tell(self, absent: Sequence[str], unknown: Sequence[str]) -> None:
        for name in absent:
            if f"absent {name}" not in self._said:
                self._said.add(f"absent {name}")
                hint = alike([name], unknown)
                self._report(
                    f"channel {name!r} is not in the input: its values are missing"
                    + (f"; {hint}" if hint else "")
                )
        self.tell_unknown(unknown)

    def tell_unknown(self, names: Sequence[str]) -> None:
        """Report columns that are no channel, each once."""
        left_out = {*self._reading.remembered.left_out, *self.selection.drop}
        new = [
            name for name in names if name not in left_out and f"unknown {name}" not in self._said
        ]
        if not new or self._reading.ignore_extra or self.selection.columns is not None:
            return
        self._said.update(f"unknown {name}" for name in new)
        words = ("columns", "are no channels") if len(new) > 1 else ("column", "is no channel")
        self._report(f"{words[0]} {listed(new)} {words[1]}: ignored")

    def _numbers(self, roles: Roles, there: dict[str, list[Cell]]) -> NumberReader:
        channels = [column for column in roles.columns if column in there]
        if self.numbers is None or self.numbers.decimal is None:
            decimal = find_decimal(
                (
                    cell
                    for cells in zip_longest(*(there[channel] for channel in channels))
                    for cell in cells
                ),
                self._reading.decimal,
                self._reading.remembered.decimal,
            )
            self.numbers = NumberReader(decimal, self._reading.na)
            if decimal == ",":
                self._profile.written["decimal"] = "comma"
        numbers = self.numbers
        for column in channels:
            if column in numbers.units or not numbers.read(there[column])[1]:
                continue
            unit, others = column_unit(there[column], numbers)
            if unit is not None:
                numbers.units[column] = unit
                if len(others) > 1:
                    self._report(
                        f"column {column!r} has numbers in different units, {listed(others)}: "
                        f"only those in {unit} are read"
                    )
        if numbers.units:
            pairs = (f"{column} in {unit}" for column, unit in numbers.units.items())
            self._profile.written["cell_units"] = ", ".join(pairs)
            self._profile.units.update(numbers.units)
        return numbers

    def _text_columns(
        self, roles: Roles, cells: dict[str, Any], numbers: NumberReader
    ) -> dict[str, list[Cell]]:
        """Return the channels most of whose cells are text."""
        texts = {}
        for column in roles.columns:
            column_cells = cells.get(column, ())
            there = [cell for cell in column_cells if not numbers.is_missing(cell)]
            bad = numbers.read(there, numbers.units.get(column))[1]
            if 2 * len(bad) > len(there):
                texts[column] = [there[row] for row in bad]
        return texts

    def _times(self, roles: Roles, there: dict[str, list[Cell]]) -> TimeReader:
        if self.style is None or self.style == DateStyle():
            style = DateStyle()
            column = roles.date or roles.time
            if column is not None and there.get(column):
                style = find_style(there[column], self._reading, column)
                if roles.date is not None and style.pattern is None:
                    style = replace(style, pattern=None)
            elif column is not None:
                style = DateStyle.of(self._reading.date_format)
            self.style = style
            if style.text is not None:
                self._profile.written["dates"] = style.text
        return TimeReader(self.style, self._clock)

    def _note(self, columns: InputColumns, roles: Roles) -> None:
        profile = self._profile
        profile.header = columns.names if columns.named else ()
        profile.time = tuple(name for name in (roles.date, roles.time) if name is not None)
        profile.decimal = None if self.numbers is None else self.numbers.decimal
        profile.date_format = None if self.style is None else self.style.text
        if "time_unit" in profile.written and roles.date is not None:
            del profile.written["time_unit"]


def check_texts(columns: dict[str, list[Cell]], names: Sequence[str]) -> None:
    """Raise an InputError that names all columns that hold text, by their cells.

    `names` are those of all columns.
    """
    if not columns:
        return
    texts = list(columns)
    examples = ", ".join(shown(cells[0]) for cells in columns.values())
    word = "column" if len(texts) == 1 else "columns"
    hint = f"leave {'it' if len(texts) == 1 else 'them'} out with --drop {','.join(texts)} (drop=)"
    if (tag := tag_of(names)) in columns:
        hint = f"a row is one value, of the channel that {tag!r} names: read it with --long (long=)"
    elif streams := [name for name in texts if _names_streams(columns[name])]:
        hint += f"; or, if {streams[0]!r} names what a sample is of, --by {streams[0]} (by=)"
    raise InputError(f"{word} {listed(texts)}: expected numbers, found {examples}", hint=hint)


def _names_streams(cells: Sequence[Cell]) -> bool:
    """Whether cells are few names, each of them many times."""
    texts = {cell.strip() for cell in cells if isinstance(cell, str)}
    return 1 < len(texts) <= len(cells) // 2
