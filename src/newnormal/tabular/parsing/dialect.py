"""Where the header of a CSV input is, and what separates its cells: found in its first lines."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from newnormal.arrivals.cells import MISSING, WORDS
from newnormal.errors import InputError
from newnormal.tabular.columns import check_unique
from newnormal.tabular.parsing.dates import TIME_OF_DAY, form_of
from newnormal.tabular.parsing.decimals import is_rule, is_units_row, looks_like_number, named_units
from newnormal.tabular.parsing.line_cells import BOM, split_line
from newnormal.tabular.reading import Reading
from newnormal.tabular.samples import at_line
from newnormal.tabular.table import default_channels

HEAD_LINES = 1_000

_DELIMITERS = ",;\t|"
_NAMES = {"\t": "tab", ";": "semicolon", "|": "pipe", " ": "space"}
_SEP = re.compile(r'"?sep=(.)"?', re.IGNORECASE)
_TIME_WORDS = re.compile(
    r"\W*(?:date|time|timestamp|datetime|ts|epoch|datum|zeit|uhrzeit|zeitstempel|fecha|heure|"
    r"_time|when|day|clock)\b.*",
    re.IGNORECASE,
)
_AHEAD = 30  # lines looked at behind the first line of data


@dataclass(frozen=True)
class CsvHead:
    """How an input begins."""

    delimiter: str  # what separates cells
    names: tuple[str, ...]  # the columns; their numbers where the input has no names
    header: str | None  # the line of the names, None where there is none
    named: bool  # whether the names are the input's own
    nameless: tuple[str, ...] = ()  # those of `names` that replace an empty cell of the header
    # The positions of lines that hold no sample: preamble, header, units.
    skipped: frozenset[int] = frozenset()
    # The positions of lines of empty cells below the header: no sample where samples have times.
    empty: frozenset[int] = frozenset()
    written: dict[str, str] = field(default_factory=dict)  # what was skipped, for the user
    units: dict[str, str] = field(default_factory=dict)  # of columns, from a row of them


@dataclass(frozen=True)
class _Row:
    """A line that has something in it, and its cells."""

    position: int
    cells: list[str]
    after_blank: bool


def find_head(
    lines: Sequence[str],
    reading: Reading,
    channels: Sequence[str] | None = None,
    *,
    final: bool = True,
) -> CsvHead | None:
    r"""Return how an input of CSV begins; None while no line of data has come.

    At least one of the first `lines` has something in it. The line that has the names of the
    `channels` expected, or of columns that the user named, is the header. If `final`, it decides
    without a line of data.

    >>> head = find_head(["Plant 7", "", "Zeit;T1", "s;°C", "0;12,5"], Reading())
    >>> head.delimiter, head.names, sorted(head.skipped), head.written
    (';', ('Zeit', 'T1'), [0, 2, 3], {'delimiter': 'semicolon', 'preamble': '1 line', ...})
    """
    start, comments, delimiters = _opening(lines, reading)
    expected = () if channels is None or _numbered(channels) else channels
    wanted = {*expected, *reading.time, *(reading.columns or ()), *reading.drop}
    wanted |= {*reading.rates, *(() if reading.label is None else (reading.label,))}
    best: tuple[float, ...] = (-1.0,)
    chosen: _Layout | None = None
    for count in (start + 2 * _AHEAD, HEAD_LINES):
        for delimiter in _DELIMITERS if delimiters is None else delimiters:
            rows = _rows(lines[:count], start, delimiter)
            layout = _Search(rows, channels or (), wanted, reading).layout(final)
            if layout is not None and layout.score > best:
                best, chosen = layout.score, layout
                chosen.delimiter = delimiter
        if (chosen is not None and chosen.data is not None) or len(lines) <= count:
            break
    if chosen is None or (chosen.data is None and not final):
        return None
    return _head(lines, start, comments, chosen, reading)


class _Layout:
    """A header and a line of data that fit together."""

    def __init__(
        self, header: _Row | None, data: _Row | None, units: _Row | None, score: tuple[float, ...]
    ) -> None:
        self.header, self.data, self.units, self.score = header, data, units, score
        self.delimiter = ","


def _opening(lines: Sequence[str], reading: Reading) -> tuple[int, list[int], str | None]:
    """Return the position behind comments and Excel's sep=, the comments, and the delimiter."""
    delimiter = reading.delimiter
    comments: list[int] = []
    for position, line in enumerate(lines):
        text = line.removeprefix(BOM).strip() if position == 0 else line.strip()
        if not text:
            continue
        match = _SEP.fullmatch(line.removeprefix(BOM).rstrip("\r\n"))
        if match is not None and not comments:
            delimiter = delimiter or match[1]
            comments.append(position)
        elif text.startswith("#"):
            comments.append(position)
        else:
            return position, comments, delimiter
    return (comments[-1] if comments else 0), comments[:-1], delimiter


def _rows(lines: Sequence[str], start: int, delimiter: str) -> list[_Row]:
    rows = []
    blank = False
    for position in range(start, len(lines)):
        line = lines[position]
        if not line or line.isspace():
            blank = True
            continue
        try:
            cells = split_line(line.removeprefix(BOM) if position == 0 else line, delimiter)
        except InputError:
            continue
        rows.append(_Row(position, [cell.strip() for cell in cells], blank))
        blank = False
    return rows


class _Search:
    """Finds the header among lines, given what separates their cells."""

    def __init__(
        self, rows: Sequence[_Row], channels: Sequence[str], wanted: set[str], reading: Reading
    ) -> None:
        self._rows = rows
        self._channels = () if _numbered(channels) else tuple(channels)
        self._wanted = wanted
        self._na = frozenset(word.lower() for word in reading.na)

    def layout(self, final: bool) -> _Layout | None:
        """Return the header and the first line of data."""
        rows = self._rows
        if not rows:
            return None
        named = self._named_row()
        if named is None and self._is_sample(rows[0].cells) and not self._is_preamble():
            return _Layout(None, rows[0], None, (0.0, *self._score(rows, len(rows[0].cells))))
        if not (pairs := self._pairs(named)):
            if not final and named is None:
                return None
            only = named or rows[0]
            sure = float(named is not None)
            return _Layout(only, None, None, (sure, 0.0, 0.0, float(len(only.cells))))
        # The width that most lines of data have.
        width = max(pairs, key=lambda size: (pairs[size][1], -pairs[size][0].position))
        data = pairs[width][0]
        header, units = self._header(width, data, named)
        behind = [row for row in rows if row.position >= data.position]
        score = (float(named is not None), *self._score(behind, width))
        return _Layout(header, data, units, score)

    def _named_row(self) -> _Row | None:
        """Return the line that has the names of the channels, or of columns that were named."""
        best, most = None, 0
        for row in self._rows:
            there = set(row.cells)
            count = len(there.intersection(self._channels or self._wanted))
            if count > most and not any(map(_is_time, row.cells)):
                best, most = row, count
        if self._channels:
            return best if 2 * most >= len(self._channels) else None
        return best if most == len(self._wanted) else None

    def _pairs(self, named: _Row | None) -> dict[int, tuple[_Row, int]]:
        """Return, by width, the first line of data behind a header, and how many there are."""
        pairs: dict[int, tuple[_Row, int]] = {}
        headers: set[int] = set()
        ended: list[_Row] = []  # lines that end with a delimiter, unlike the header
        ahead = 0
        for row in self._rows:
            width = len(row.cells)
            if named is not None and row.position <= named.position:
                headers = {width} if row is named else set()
                continue
            if named is not None and not {width, width - 1} & headers:
                continue
            if width in headers and self._is_data(row.cells):
                first, count = pairs.get(width, (row, 0))
                pairs[width] = (first, count + 1)
            elif width - 1 in headers and row.cells[-1] == "" and self._is_data(row.cells):
                ended.append(row)
            elif (
                named is None
                and not self._is_sample(row.cells)
                and 2 * sum(map(bool, row.cells)) >= width
            ):
                headers.add(width)
            if pairs:
                ahead += 1
                if ahead > _AHEAD:
                    break
        if not pairs and len(ended) > 1:
            return {len(ended[0].cells): (ended[0], len(ended))}
        return pairs

    def _header(
        self, width: int, data: _Row, named: _Row | None
    ) -> tuple[_Row | None, _Row | None]:
        if named is not None:
            behind = [row for row in self._rows if named.position < row.position < data.position]
            units = next((row for row in behind if self._is_units(row, width)), None)
            return named, units
        before = [row for row in self._rows if row.position < data.position]
        before = [row for row in before if not self._is_sample(row.cells)]
        rows = [row for row in before if len(row.cells) == width]
        rows = rows or [row for row in before if len(row.cells) == width - 1]
        if (later := self._key_values(width, data)) is not None:
            return later, None
        units = None
        if len(rows) > 1 and self._is_units(rows[-1], width) and not _is_next(*rows[-2:]):
            units = rows.pop()
        full = [row for row in rows if sum(cell != "" for cell in row.cells) >= width - 1]
        timed = [row for row in full if _has_time_word(row)]
        apart = [row for row in full if row.after_blank]
        chosen = timed[-1:] or apart[-1:] or full[:1] or rows[-1:]
        return chosen[0], units

    def _is_units(self, row: _Row, width: int) -> bool:
        return len(row.cells) == width and (is_units_row(row.cells) or is_rule("".join(row.cells)))

    def _key_values(self, width: int, data: _Row) -> _Row | None:
        """Return the header behind lines of a key and a value, which look like data."""
        if width != 2:
            return None
        rows = [row for row in self._rows if row.position >= data.position][:_AHEAD]
        for index, row in enumerate(rows):
            if len(row.cells) != width or self._is_data(row.cells):
                continue
            before, after = rows[:index], rows[index + 1 :]
            if not before or not after:
                return None
            texts = all(self._is_text(other.cells[0]) for other in before)
            if texts and not any(self._is_text(other.cells[0]) for other in after):
                return row
        return None

    def _score(self, rows: Sequence[_Row], width: int) -> tuple[float, ...]:
        """Return how well lines are data: more than a cell, the share that can be read."""
        looked = [row for row in rows[:_AHEAD] if len(row.cells) == width]
        cells = [cell for row in looked for cell in row.cells]
        good = sum(not self._is_text(cell) for cell in cells)
        support = len(looked) / max(len(rows[:_AHEAD]), 1)
        return (1.0, float(width > 1), round(good / max(len(cells), 1) * support, 3))

    def _is_preamble(self) -> bool:
        """Whether a first line of data is none: all that follow have another width."""
        width = len(self._rows[0].cells)
        others = [row for row in self._rows[1:] if self._is_data(row.cells)]
        if width > 1 or not others:
            return False
        return all(len(row.cells) != width for row in others[:_AHEAD])

    def _is_missing(self, cell: str) -> bool:
        return cell.lower() in MISSING or cell.lower() in self._na

    def _is_text(self, cell: str) -> bool:
        return not (
            self._is_missing(cell)
            or cell.lower() in WORDS
            or looks_like_number(cell)
            or _is_time(cell)
        )

    def _is_data(self, cells: Sequence[str]) -> bool:
        """Whether a line behind a header holds a sample: a number, a time, or words for missing."""
        if any(looks_like_number(cell) or _is_time(cell) for cell in cells):
            return True
        words = [cell for cell in cells if cell]
        return bool(words) and all(self._is_missing(cell) for cell in words)

    def _is_sample(self, cells: Sequence[str]) -> bool:
        """Whether a line is a sample though there is no header: nothing in it is text."""
        named = self._channels and set(self._channels) <= set(cells)
        if named and not any(map(_is_time, cells)):
            return False
        index = cells[0] == ""  # pandas writes the index first, without a name
        names = cells[1:] if index else cells
        if _numbered(names) and len(cells) > 1:
            return False
        if not any(looks_like_number(cell, self._na) for cell in cells):
            return False
        return not any(map(self._is_text, cells))


def _has_time_word(row: _Row) -> bool:
    return any(_TIME_WORDS.fullmatch(cell) for cell in row.cells)


def _is_next(row: _Row, below: _Row) -> bool:
    """Whether a row that looks like units is a header: the same names, or that of the time."""
    if set(row.cells) == set(below.cells):
        return True
    return _has_time_word(below) and not _has_time_word(row)


_NO_ROW = _Row(0, [], False)


def _head(
    lines: Sequence[str], start: int, comments: list[int], layout: _Layout, reading: Reading
) -> CsvHead:
    written: dict[str, str] = {}
    if layout.delimiter in _NAMES and len((layout.header or layout.data or _NO_ROW).cells) > 1:
        written["delimiter"] = _NAMES[layout.delimiter]
    header = layout.header
    skipped = {position for position in range(start) if lines[position].strip()}
    if header is None:
        assert layout.data is not None
        return _headerless(lines, comments, layout, skipped, reading, written)
    before = {position for position in range(header.position) if lines[position].strip()}
    if any(
        _SEP.fullmatch(lines[position].removeprefix(BOM).rstrip("\r\n")) is None
        for position in before
    ):
        written["preamble"] = "1 line" if len(before) == 1 else f"{len(before)} lines"
    skipped |= before | {header.position}
    empty = set()
    if layout.units is not None:
        if any(layout.units.cells):
            skipped.add(layout.units.position)
            written["units"] = f"line {layout.units.position + 1}"
        else:
            empty.add(layout.units.position)
    end = len(lines) if layout.data is None else layout.data.position
    skipped |= {position for position in range(header.position, end) if is_rule(lines[position])}
    cells = header.cells
    if header.position == start and lines[start].strip().startswith("#"):
        cells = [cells[0].lstrip("#").strip(), *cells[1:]]
    if layout.data is not None and len(layout.data.cells) == len(cells) + 1:
        cells = [*cells, ""]
    names = tuple(cell or f"column {number}" for number, cell in enumerate(cells, start=1))
    nameless = tuple(name for name, cell in zip(names, cells, strict=True) if not cell)
    try:
        check_unique(names)
    except InputError as error:
        raise at_line(header.position + 1, error) from None
    line = lines[header.position]
    taken, blank = frozenset(skipped), frozenset(empty)
    units = {} if layout.units is None else named_units(names, layout.units.cells)
    return CsvHead(layout.delimiter, names, line, True, nameless, taken, blank, written, units)


def _headerless(
    lines: Sequence[str],
    comments: list[int],
    layout: _Layout,
    skipped: set[int],
    reading: Reading,
    written: dict[str, str],
) -> CsvHead:
    assert layout.data is not None
    width = len(layout.data.cells)
    names: tuple[str, ...] = default_channels(width)
    named = False
    header = None
    if comments:  # some programs write the header as a comment
        cells = split_line(lines[comments[-1]].lstrip("# \t").rstrip(), layout.delimiter)
        cells = [cell.strip() for cell in cells]
        unlike = len(cells) == len(set(cells)) == width and all(cells)
        if unlike and not any(looks_like_number(cell) for cell in cells):
            names, named, header = tuple(cells), True, layout.delimiter.join(cells)
        written["preamble"] = "1 line" if len(comments) == 1 else f"{len(comments)} lines"
    if not named and len(reading.remembered.header) == width:
        names, named = reading.remembered.header, True
    return CsvHead(layout.delimiter, names, header, named, (), frozenset(skipped), written=written)


def is_header_again(
    cells: Sequence[str], names: Sequence[str], channels: Sequence[str] | None
) -> bool:
    """Return whether a line behind the header is one too: of a file that was appended.

    Its cells are the header's in any order, or several of them with a channel, or most of the
    channels are among them; none is a number or a time.

    >>> is_header_again(["b", "a"], ["a", "b"], None), is_header_again(["b", "1"], ["a", "b"], None)
    (True, False)
    >>> is_header_again(["time", "a"], ["time", "a", "b", "c"], ["a", "b", "c"])
    True
    """
    texts = [cell.strip() for cell in cells]
    if any(looks_like_number(cell) or _is_time(cell) for cell in texts):
        return False
    there = set(texts)
    if len(there) < len(texts):
        return False
    if there == set(names):
        return True
    if not channels or _numbered(channels):
        return False
    matches = sum(name in there for name in channels)
    several = len(there) > 1 and matches > 0 and there <= {*names, *channels}
    return several or 2 * matches > len(channels)


def _numbered(names: Sequence[str]) -> bool:
    return tuple(names) == default_channels(len(names))


def _is_time(cell: str) -> bool:
    if cell[:1].isdigit() and TIME_OF_DAY.pattern.fullmatch(cell) is not None:
        return True
    return form_of(cell) is not None
