"""The lines of followed files as samples: what their columns are is found out once for each."""

import itertools
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from newnormal.errors import InputError, NewnormalError
from newnormal.io.sources.folders import EDGE
from newnormal.io.sources.tailed import Tailed, TailedLines
from newnormal.io.sources.tailing import CHUNK, Tailing
from newnormal.tabular import LineParser, ParsedSamples, Reading
from newnormal.tabular.many.stream_names import StreamNames
from newnormal.tabular.text.encodings import encoding_of, is_binary
from newnormal.tabular.text.line_cutting import RefusedLine
from newnormal.types import Floats, Ints

_HEAD = 500  # lines in which the columns are looked for
_FEW = (50, 10, 3)  # lines in which they are looked for then
_PARSERS = 4_000  # that are kept


class FileRows(NamedTuple):
    """What lines of a file hold."""

    streams: list[str] | None  # the name of each sample's stream; None: all are of the file's
    # As those of an `Arrival`.
    channels: tuple[str, ...]
    times: Ints
    values: Floats
    # How many lines hold no sample, and what is wrong with the last of these.
    bad: int = 0
    problem: str = ""


class FileLines:
    """Reads the lines of followed files.

    Parameters
    ----------
    reading
        How they are written, and what is taken from them.
    by
        The columns that name the stream.
    """

    def __init__(self, reading: Reading, by: Sequence[str] = ()) -> None:
        self._reading, self._by = reading, tuple(by)
        self._recent: OrderedDict[int, Tailed] = OrderedDict()  # those that have a parser

    def read(self, tailing: Tailing, tailed: Tailed, most: int) -> FileRows | None:
        """Return the next samples of a file, at most `most`, and go behind them; None: none now."""
        known = tailed.offset > 0 and tailed.facts is not None
        piece = tailing.read(tailed, most if known else max(most, _HEAD))
        if piece is None:
            return None
        if piece.too_long:
            longest = self._reading.longest_line
            why = f"expected a line of at most {longest:,} bytes, found a longer one"
            return _none(1, f"line {piece.first}: {why}")
        texts = self._texts(piece)
        try:
            if known:
                parser = self._parser(tailed)
                samples, count = parser.parse_many(texts, piece.first), len(texts)
            else:
                parser, samples, count = self._begun(tailing, tailed, piece, texts)
            if not parser.has_plan:
                tailed.looked = piece.last or (tailed.size, tailed.changed)
                return None
            if len(samples.rows) and samples.times is None:
                raise InputError("expected a column of times, found none")
        except NewnormalError as error:
            tailed.parser = None
            tailing.refuse(tailed, error.message)
            return None
        if len(samples.rows) > most:
            count = int(samples.rows[most - 1]) + 1
        tailing.take(piece, count)
        tailed.telling = tailed.telling or len(samples.rows) > 0
        self._keep(tailed, parser)
        tailing.files.forms[tailed.family] = tailed.facts or {}
        return self._rows(samples, parser, piece.first, count)

    # ------------------------------------------------------------------ parsers

    def _parser(self, tailed: Tailed) -> LineParser:
        """Return the parser of a file that was read before."""
        if tailed.parser is None:
            tailed.parser = self._restored(tailed.facts)
        parser: LineParser = tailed.parser
        return parser

    def _keep(self, tailed: Tailed, parser: LineParser) -> None:
        tailed.parser, tailed.facts = parser, parser.facts()
        self._recent[id(tailed)] = tailed
        self._recent.move_to_end(id(tailed))
        if len(self._recent) > _PARSERS:
            _, oldest = self._recent.popitem(last=False)
            oldest.parser = None

    def _new(self) -> LineParser:
        return LineParser(self._reading, by=self._by, grows=True, texts=True)

    def _restored(self, facts: Any) -> LineParser:
        parser = self._new()
        try:
            parser.restore(facts)
        except (TypeError, ValueError, AttributeError, KeyError) as error:
            raise InputError(f"expected the form of a file, found {facts!r}") from error
        return parser

    def _begun(
        self, tailing: Tailing, tailed: Tailed, piece: TailedLines, texts: Sequence[str]
    ) -> tuple[LineParser, ParsedSamples, int]:
        """Return the parser of a file that is read for the first time.

        Returns
        -------
        It, the samples of the first lines, and how many lines these are.
        """
        _check_kind(piece.raw[:EDGE])
        before = tailing.files.forms.get(tailed.family)
        if before is not None:  # a file that was cut short goes on without its header
            parser = self._restored(before)
            samples = parser.parse_many(texts, piece.first)
            first = next((at for at, text in enumerate(texts) if text.strip()), None)
            if first is None or first not in {at for at, *_ in samples.errors}:
                return parser, samples, len(texts)
        if tailed.offset:  # its beginning is passed over
            parser = self._new()
            parser.parse_many(self._head(tailed), 1)
            samples = parser.parse_many(texts, piece.first)
            return parser, _cut(samples, first=0), len(texts)
        # Where a line is bad, times may be found in the lines before it alone.
        for count in (len(texts), *(few for few in _FEW if few < len(texts))):
            parser = self._new()
            samples = parser.parse_many(texts[:count], piece.first)
            if parser.time is not None or not parser.has_plan:
                break
        return parser, samples, count

    def _head(self, tailed: Tailed) -> list[str]:
        """Return the first lines of a file, before its position."""
        with tailed.path.open("rb") as file:
            head = file.read(min(tailed.offset, CHUNK))
        lines = head.split(b"\n")[:-1]
        return self._texts(TailedLines(tailed, lines[:_HEAD], 1))

    # ------------------------------------------------------------------ texts and samples

    def _texts(self, piece: TailedLines) -> list[str]:
        """Return lines as texts; `RefusedLine` those that are none."""
        joined = b"\n".join(piece.lines)
        longest = self._reading.longest_line
        if self._reading.encoding is None and (
            len(joined) <= longest or max(map(len, piece.lines)) <= longest
        ):
            try:
                text = joined.decode("utf-8-sig" if piece.first == 1 else "utf-8")
            except UnicodeDecodeError:
                pass
            else:
                return [each.strip("\r") for each in text.split("\n")] if piece.lines else []
        return [
            self._text(line, first=piece.first + at == 1) for at, line in enumerate(piece.lines)
        ]

    def _text(self, line: bytes, *, first: bool) -> str:
        longest = self._reading.longest_line
        if len(line) > longest:
            return RefusedLine(
                InputError(f"expected a line of at most {longest:,} bytes, found a longer one")
            )
        given = self._reading.encoding
        utf8 = "utf-8-sig" if first else "utf-8"
        # Text that is no UTF-8 is most often that of Western Windows.
        for encoding in (utf8, "cp1252", "latin-1") if given is None else (given,):
            try:
                return line.decode(encoding).strip("\r")
            except UnicodeDecodeError:
                continue
        return RefusedLine(InputError(f"expected {given} text, found bytes that are none"))

    def _rows(self, samples: ParsedSamples, parser: LineParser, first: int, count: int) -> FileRows:
        """Return the samples of the first `count` lines."""
        wrong = [(at, error) for at, _, error in samples.errors if at < count]
        taken = samples.rows < count
        values, times = samples.values[taken], samples.times
        moments = np.empty(0, np.int64)
        if times is not None:
            moments = times[taken].astype("datetime64[ns]").astype(np.int64)
        streams = None
        if self._by:
            names = StreamNames(self._by)
            keys = list(itertools.compress(samples.keys, taken.tolist()))
            codes = names.codes(keys)
            rows = samples.rows[taken].tolist()
            wrong += [
                (rows[at], names.error(int(codes[at]), keys[at]))
                for at in np.flatnonzero(codes < 0).tolist()
            ]
            good = codes >= 0
            values, moments, codes = values[good], moments[good], codes[good]
            streams = [names.names[code] for code in codes.tolist()]
        problem = ""
        if wrong:
            at, error = max(wrong, key=lambda each: each[0])
            problem = f"line {first + at}: {error.message}"
        values = np.where(np.isinf(values), np.nan, values)
        return FileRows(streams, parser.channels or (), moments, values, len(wrong), problem)


def _check_kind(head: bytes) -> None:
    """Raise an InputError for a file that is no text of 8 bits."""
    encoding = encoding_of(head, ended=False)
    if encoding is not None and encoding.startswith(("UTF-16", "UTF-32")):
        raise InputError(f"expected text in UTF-8 or an encoding of 8 bits, found {encoding}")
    if is_binary(head):
        raise InputError("expected lines of CSV or JSON, found binary data")


def _cut(samples: ParsedSamples, first: int) -> ParsedSamples:
    """Return samples without those of lines before a position, which were held."""
    kept = samples.rows >= first
    times, labels = samples.times, samples.labels
    return ParsedSamples(
        samples.values[kept],
        None if times is None else times[kept],
        None if labels is None else labels[kept],
        samples.rows[kept],
        tuple(error for error in samples.errors if error[0] >= first),
        list(itertools.compress(samples.keys, kept.tolist())),
    )


def _none(bad: int, problem: str) -> FileRows:
    return FileRows(None, (), np.empty(0, np.int64), np.empty((0, 0)), bad, problem)
