"""Units: a row of them below the header, or one behind every number of a column."""

import re
from collections import Counter
from collections.abc import Sequence

from newnormal.arrivals.cells import Cell
from newnormal.tabular.parsing.decimals import NumberReader, unit_of

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
