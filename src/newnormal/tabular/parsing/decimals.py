"""Numbers as cells have them: decimal comma or point, words for missing, units."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from newnormal.arrivals.cells import (
    MISSING,
    WORDS,
    Cell,
    as_nan,
    number,
    plain_numbers,
    text_numbers,
)
from newnormal.errors import InputError
from newnormal.types import Floats

_EXPONENT = r"(?:[eE][+-]?\d{1,4})?"
# 12,5 and 1.234,56 and 1.234.567, not 1,234
_COMMA = re.compile(
    rf"[+-]?(?:\d{{1,3}}(?:[.'\u00a0\u202f ]\d{{3}})+(?:,\d*)?|\d+(?:,\d*)?|,\d+){_EXPONENT}",
    re.ASCII,
)
_POINT = re.compile(rf"[+-]?\d{{1,3}}(?:[,'\u00a0\u202f ]\d{{3}})+(?:\.\d*)?{_EXPONENT}", re.ASCII)
_OPEN_COMMA = re.compile(r"[+-]?[1-9]\d{0,2},\d{3}", re.ASCII)
_WEAK_POINT = re.compile(r"[+-]?[1-9]\d{0,2}\.\d{3}", re.ASCII)
_PLAIN_COMMA = re.compile(rf"[+-]?\d*,\d+{_EXPONENT}|[+-]?\d+,{_EXPONENT}", re.ASCII)
_PLAIN_POINT = re.compile(rf"[+-]?\d*\.\d+{_EXPONENT}|[+-]?\d+\.{_EXPONENT}", re.ASCII)
_THOUSANDS_DOT = re.compile(
    r"[+-]?\d{1,3}(?:\.\d{3})+(?:,\d*)|[+-]?\d{1,3}(?:\.\d{3}){2,}", re.ASCII
)
_THOUSANDS_COMMA = re.compile(
    r"[+-]?\d{1,3}(?:,\d{3})+(?:\.\d*)|[+-]?\d{1,3}(?:,\d{3}){2,}", re.ASCII
)
_SEPARATORS = str.maketrans("", "", ".'\u00a0\u202f ")
_UNIT = re.compile(
    r"\s*([+-]?[\d.,'\u00a0\u202f]*\d[\d.,]*(?:[eE][+-]?\d{1,3})?)"
    r"\s*([^\s\d.,+\-:/][^\s\d:]{0,11})\s*"
)

_HINT = (
    "a missing value is an empty cell, NaN, NA or null; other words are named with --na WORD (na=)"
)


class NumberReader:
    """Reads the cells of columns as numbers.

    Where the decimal point is open (None), a cell that can only have one decides it. `na` are words
    for missing values.

    >>> NumberReader(",", ["Bad"]).read(["1.234,5", "Bad", "high", "7"])
    (array([1234.5,    nan,    nan,    7. ]), [2])
    """

    def __init__(self, decimal: str | None = None, na: Iterable[str] = ()) -> None:
        self.decimal = decimal
        self.units: dict[str, str] = {}
        self._na = {word.strip().lower() for word in na}
        self._missing = as_nan([word.strip() for word in na])
        self.sentinels = frozenset(_numbers_of(self._na))  # numbers that stand for nothing

    def is_missing(self, cell: Cell) -> bool:
        """Return whether a cell stands for a missing value."""
        if cell is None or cell != cell:  # noqa: PLR0124 - NaN
            return True
        if not isinstance(cell, str):
            return bool(self.sentinels) and cell in self.sentinels
        text = cell.strip().lower()
        if text in MISSING or text in self._na:
            return True
        return bool(self.sentinels) and not self.sentinels.isdisjoint(_numbers_of([text]))

    def one(self, cell: Cell, unit: str | None = None) -> float:
        """Return the number a cell holds, NaN where it is missing, else raise a ValueError."""
        if not isinstance(cell, str):
            value = number(cell)
            return float("nan") if value in self.sentinels else value
        text = cell.strip()
        lower = text.lower()
        if lower in self._na or (self.sentinels and self.is_missing(text)):
            return float("nan")
        if unit is not None and lower not in WORDS:
            if not text.endswith(unit):
                if self._plain(text) == 0:
                    return 0.0
                raise ValueError(cell)
            text = text.removesuffix(unit).rstrip()
        return self._plain(text)

    def _plain(self, text: str) -> float:
        if text[1:2] == " " and text[0] in "+-":  # as some loggers write them
            text = text[0] + text[1:].lstrip()
        if self.decimal != ",":
            try:
                value = number(text)
            except ValueError:
                if self.decimal is None and _PLAIN_COMMA.fullmatch(text):
                    if _OPEN_COMMA.fullmatch(text) is not None:
                        raise
                    self.decimal = ","
                    return self._plain(text)
                if self.decimal == "." and _POINT.fullmatch(text):
                    return number(text.replace(",", "").translate(_SPACES))
                raise
            if self.decimal is None and "." in text:
                self.decimal = "."
            return value
        if text.lower() in WORDS:
            return number(text)
        if _COMMA.fullmatch(text) is None:
            raise ValueError(text)
        return number(text.translate(_SEPARATORS).replace(",", "."))

    def read(self, cells: Sequence[Any], unit: str | None = None) -> tuple[Floats, list[int]]:
        """Return the numbers of a column, NaN where there is none, and which cells are none."""
        if (values := self._fast(cells, unit)) is None:
            return self._each(cells, unit)
        self._leave_out(values)
        return values, []

    def plain(self, cells: Sequence[Any]) -> Floats | None:
        """Return numbers if all are plain, without units; None if any is not."""
        if (values := self._fast(cells, None)) is not None:
            self._leave_out(values)
        return values

    def _leave_out(self, values: Floats) -> None:
        """Make numbers that stand for nothing missing."""
        for sentinel in self.sentinels:
            values[values == sentinel] = np.nan

    def _fast(self, cells: Sequence[Any], unit: str | None) -> Floats | None:
        """Return a column that is plain, as it mostly is; None if anything is not."""
        try:
            text = "".join(cells)
        except TypeError:
            return plain_numbers(cells) if unit is None else None
        if unit is not None:
            if not all(cell.endswith(unit) for cell in cells):
                return None
            size = len(unit)
            cells = [cell[:-size] for cell in cells]
            text = "".join(cells)
        if not text.isascii() or "_" in text:
            return None
        if self.decimal == ",":
            if "." in text:
                return None
            if "," in text:
                cells = "\n".join(cells).replace(",", ".").split("\n")
        elif self.decimal is None and "." in text:
            self.decimal = "."
        return text_numbers(cells, self._missing)

    def _each(self, cells: Sequence[Any], unit: str | None) -> tuple[Floats, list[int]]:
        values = np.full(len(cells), np.nan)
        bad = []
        for row, cell in enumerate(cells):
            try:
                values[row] = self.one(cell, unit)
            except ValueError:
                bad.append(row)
        return values, bad

    def hint(self, cell: Cell, column: str) -> str:
        """Return what to do about a cell that is no number."""
        text = cell.strip() if isinstance(cell, str) else ""
        if _OPEN_COMMA.fullmatch(text) or (self.decimal != "," and _PLAIN_COMMA.fullmatch(text)):
            return "name the decimal point with --decimal , or --decimal . (decimal=)"
        if self.decimal == "," and _PLAIN_POINT.fullmatch(text):
            return "the decimal point is a comma here: name another with --decimal . (decimal=)"
        if unit_of(text, self) is not None:
            return f"cells of column {column!r} have different units, or only some have one"
        return _HINT + f"; leave a column out with --drop {column!r} (drop=)"


_SURE = 200  # cells that tell the decimal point
_STARTS = frozenset("0123456789+-.,iI")  # of numbers, also of infinite ones
_SPACES = str.maketrans("", "", "'\u00a0\u202f ")


def _numbers_of(words: Iterable[str]) -> list[float]:
    """Return those words that are numbers, with either decimal point."""
    numbers = []
    for word in words:
        try:
            value = float(word.replace(",", "."))
        except ValueError:
            continue
        if value - value == 0:  # finite
            numbers.append(value)
    return numbers


def unit_of(text: str, numbers: NumberReader) -> str | None:
    """Return the unit behind a number, None if the text is anything else.

    >>> [unit_of(text, NumberReader()) for text in ("45.2 %", "12MB", "1e5")]
    ['%', 'MB', None]
    """
    if (match := _UNIT.fullmatch(text)) is None:
        return None
    reader = NumberReader(numbers.decimal)
    try:
        reader.one(text)
    except ValueError:
        pass
    else:
        return None  # 1e5
    try:
        reader.one(match[1])
    except ValueError:
        return None
    return match[2]


def looks_like_number(cell: object, na: frozenset[str] = frozenset()) -> bool:
    """Return whether a cell is a number in any way of writing; a missing value is none.

    >>> [looks_like_number(cell) for cell in ("12,5", "1.234,5", "1,234.5", "5e3", "NA", "x")]
    [True, True, True, True, False, False]
    """
    if not isinstance(cell, str):
        return isinstance(cell, int | float) and cell == cell  # noqa: PLR0124 - NaN
    text = cell.strip()
    if not text or text[0] not in _STARTS or text.lower() in na or text.lower() in WORDS:
        return False
    if text[1:2] == " " and text[0] in "+-":
        text = text[1:].lstrip()
    try:
        value = number(text)
    except ValueError:
        return text[0] != "," and bool(_COMMA.fullmatch(text) or _POINT.fullmatch(text))
    return value == value  # noqa: PLR0124 - "-nan"


def find_decimal(cells: Iterable[object], chosen: str | None, remembered: str | None) -> str | None:
    """Return the decimal point of cells; None if they leave it open and nothing else tells.

    Cells such as 1,234 that could be either, where nothing tells, are an InputError.

    >>> find_decimal(["1,234", "12,5"], None, None), find_decimal(["1.5"], None, None)
    (',', '.')
    """
    if chosen is not None:
        return chosen
    comma = point = weak = 0
    unsure: str | None = None
    for cell in cells:
        if comma + point > _SURE:
            break
        if not isinstance(cell, str) or not ("," in cell or "." in cell):
            continue
        text = cell.strip()
        if _OPEN_COMMA.fullmatch(text):
            unsure = unsure or text
        elif _WEAK_POINT.fullmatch(text):
            weak += 1
        elif _THOUSANDS_DOT.fullmatch(text) or _PLAIN_COMMA.fullmatch(text):
            comma += 1
        elif _THOUSANDS_COMMA.fullmatch(text) or _PLAIN_POINT.fullmatch(text):
            point += 1
        elif (unit := _UNIT.fullmatch(text)) is not None:
            comma += bool(_PLAIN_COMMA.fullmatch(unit[1]))
            point += bool(_PLAIN_POINT.fullmatch(unit[1]))
    if comma or point:
        return "," if comma > point else "."
    if unsure is not None and remembered is None:
        raise InputError(
            f"expected a decimal point that can be told, found {unsure!r}: "
            f"{unsure.replace(',', '.')} or {unsure.replace(',', '')}",
            hint="name the decimal point with --decimal , or --decimal . (decimal=)",
        )
    return remembered if unsure is not None or weak == 0 or remembered else "."


_BRACKETS = re.compile(r"[\[(<{].{0,16}[\])>}]")
_KNOWN = frozenset(
    """
    °c °f °k degc degf k c f % %rh rh bar mbar barg bara pa kpa hpa mpa psi psig v mv kv a ma
    w kw mw kwh mwh wh va kva var kvar hz khz mhz ghz s ms us µs ns sec min h d m mm cm km µm
    um m/s m/s2 m/s² mm/s km/h g kg mg t l ml l/min l/h l/s m3 m³ m3/h m³/h m^3/h m3/s nm³/h
    kg/h kg/s t/h rpm 1/min u/min min-1 min^-1 deg ° rad nm n kn j kj b kb mb gb tb kib mib
    gib b/s kb/s mb/s kbit/s mbit/s bit/s bps req/s 1/s ppm ppb ph db dba lux lx µs/cm ms/cm
    count counts bool - -- --- n/a none text unit units einheit datetime timestamp utc iso unix
    """.split()  # noqa: SIM905 - a table
)
_WORDS = "n/a none text unit units einheit datetime timestamp utc iso unix bool"  # are no unit
_DATES = re.compile(r"(?:[dmyhst]+[.\-/: ]*)+", re.IGNORECASE)


def is_units_row(cells: Sequence[str]) -> bool:
    """Return whether cells are units, dashes or nothing, as below a header.

    >>> is_units_row(["", "°C", "bar", "[m/s]"]), is_units_row(["time", "load"])
    (True, False)
    """
    sure = 0
    for cell in cells:
        text = cell.strip()
        if (
            not text
            or set(text) <= {"-", "_", "="}
            or _BRACKETS.fullmatch(text)
            or text.lower() in _KNOWN
        ):
            sure += 1
        elif _DATES.fullmatch(text) is None and len(text) > 6:
            return False
    return 2 * sure >= len(cells)


def named_units(names: Sequence[str], cells: Sequence[str]) -> dict[str, str]:
    """Return the units of a row of them, by column, without brackets.

    >>> named_units(["time", "T1", "p", "state"], ["datetime", "[°C]", "bar", "-"])
    {'T1': '°C', 'p': 'bar'}
    """
    texts = [cell.strip().strip("[](){}<>").strip() for cell in cells]
    known = zip(names, texts, strict=False)
    return {
        name: text
        for name, text in known
        if text.strip("-_=") and text.lower() not in _WORDS.split()
    }


def is_rule(line: str) -> bool:
    """Return whether a line is drawn of dashes, as below a header.

    >>> is_rule("-----+------"), is_rule("- 5")
    (True, False)
    """
    drawn = set(line.strip())
    return drawn <= set("-=_+|:*~ ,;\t") and not drawn.isdisjoint("-=_*~")


def column_unit(cells: Sequence[Cell], numbers: NumberReader) -> tuple[str | None, list[str]]:
    """Return the unit of a column's numbers and all units found; None if most have none.

    >>> column_unit(["45.2 %", "44 %", ""], NumberReader())
    ('%', ['%'])
    """
    units: Counter[str] = Counter()
    there = 0
    for cell in cells:
        if numbers.is_missing(cell):
            continue
        there += 1
        unit = unit_of(cell, numbers) if isinstance(cell, str) else None
        if unit is not None:
            units[unit] += 1
    if 2 * sum(units.values()) <= there:
        return None, []
    return units.most_common(1)[0][0], list(units)
