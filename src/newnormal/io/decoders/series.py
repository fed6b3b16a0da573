"""What the decoders of series with labels share: options in the address, and values as samples."""

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar
from urllib.parse import parse_qsl

import numpy as np

from newnormal.arrivals import pivot
from newnormal.arrivals.arrival import Arrival
from newnormal.arrivals.counters import CounterRates, RateConversion
from newnormal.arrivals.naming import Naming
from newnormal.errors import InputError, MissingExtraError, ParameterError
from newnormal.io.decoders.base import (
    QUERY,
    Decoder,
    DecoderLimits,
    Refusal,
    Reply,
    TooManyError,
    too_many_samples,
)
from newnormal.texts import shortened

# Times of one sample may differ by this many ns: some senders read a clock for each channel.
_TOGETHER = 100_000_000
_HEADER = "x-newnormal-options"
_MOST_LABELS = 1_000
_MOST_NAMES = 100  # of labels, or patterns, in an address: each costs time for each series
# Parts of a message, such as a label: each takes memory, also where it takes two bytes of a body.
_PARTS_A_SAMPLE, _PARTS = 64, 1_000_000


class MissingLibraryError(MissingExtraError):
    """A library that the decoder needs is not installed: HTTP's 501, which senders try again."""

    status = 501


@dataclass(frozen=True)
class QueryOptions:
    """What a request asks for in its address, or in the header ``X-Newnormal-Options``."""

    # What it said: tells the options of one sender from another's.
    text: str
    naming: Naming
    buckets: bool = False  # whether the buckets of histograms are taken


def options_of(
    headers: Mapping[str, str], default: tuple[str, ...], example: str, others: str | None = None
) -> QueryOptions:
    """Return what a request asks for; an InputError if that is not known.

    The address counts; what it does not name is taken from the header, for senders that cannot
    send what is behind a question mark.

    `default`: the labels that make a stream where none is named. `example`: an address, for errors.
    `others`: what the address may name besides `by`, `without` and `rates`; None: anything.
    """
    return _options(headers.get(QUERY, ""), headers.get(_HEADER, ""), default, example, others)


@lru_cache(maxsize=64)
def _options(
    query: str, header: str, default: tuple[str, ...], example: str, others: str | None
) -> QueryOptions:
    values_of: dict[str, list[str]] = {}
    known = ("by", "without", "rates", *(others or "").split())
    for text, any_name in ((query, others is None), (header, False)):
        part: dict[str, list[str]] = {}
        for name, value in parse_qsl(text, keep_blank_values=True, errors="replace"):
            if name not in known and not any_name:
                raise InputError(
                    f"address: expected {', '.join(known[:-1])} or {known[-1]} behind the "
                    f"question mark, found {shortened(ascii(name))}",
                    hint=f"such as {example}",
                )
            part.setdefault(name, []).append(value)
        values_of = {**part, **values_of}
    by, without, rates = (_names(name, values_of.get(name)) for name in known[:3])
    try:
        naming = Naming(by or default, without, rates)
    except ParameterError as error:
        raise InputError(f"address: {error.message}", hint=error.hint) from None
    buckets = values_of.get("buckets", ["no"])[-1] if "buckets" in known else "no"
    if buckets not in ("yes", "no"):
        raise InputError(f"address: buckets: expected yes or no, found {shortened(ascii(buckets))}")
    return QueryOptions(f"{query}\n{header}", naming, buckets == "yes")


def _names(name: str, values: list[str] | None) -> tuple[str, ...]:
    if values is None:
        return ()
    names = tuple(each.strip() for value in values for each in value.split(","))
    if not all(names):
        raise InputError(
            f"address: {name}: expected names with commas between them, "
            f"found {shortened(ascii(','.join(values)))}"
        )
    if len(names) > _MOST_NAMES:
        raise InputError(
            f"address: expected at most {_MOST_NAMES} names behind the question mark, "
            f"found {len(names):,}",
            hint="use patterns such as node_*, or have the sender leave labels out",
        )
    return names


def check_labels(count: int) -> None:
    """Raise an InputError if a series has too many labels."""
    if count > _MOST_LABELS:
        raise InputError(f"expected at most {_MOST_LABELS:,} labels of a series, found {count:,}")


class Decoded(list[Arrival]):
    """The samples of a body, with what the answer needs."""

    def __init__(
        self, arrivals: Iterable[Arrival], conversion: RateConversion, sent: int, form: str = ""
    ) -> None:
        super().__init__(arrivals)
        # the counters of the body; it is kept once the samples are durable
        self.conversion = conversion
        self.sent = sent  # how many values the body has
        # how many of them the decoder does not take, and why the first was not
        self.refused: tuple[int, str] = (0, "")
        self.form = form  # in which form the body was

    def outcome(self, refused: Sequence[Refusal]) -> tuple[int, str]:
        """Return how many values were refused, by the decoder and by the service, and why."""
        count, why = self.refused
        for arrival, reason in refused:
            count += int((~np.isnan(arrival.values)).sum())
            why = why or reason
        return min(count, self.sent), why


class SeriesValues:
    """Collects values of channels, one by one, and makes samples of them.

    `limits`: how many values there may be, and how many channels a stream may have.
    """

    def __init__(self, limits: DecoderLimits) -> None:
        self._limits = limits
        self._streams: dict[str, tuple[list[str], list[int], list[float]]] = {}
        self._refused = 0
        self._why = ""

    def count(self, values: int) -> None:
        """Raise a TooManyError if there are more values than allowed."""
        if values > self._limits.samples:
            raise too_many_samples(self._limits)

    def check_parts(self, parts: int) -> None:
        """Raise a TooManyError if a message has more parts than the samples allowed can need."""
        if parts > _PARTS_A_SAMPLE * self._limits.samples + _PARTS:
            raise TooManyError(
                f"expected a message of at most {self._limits.samples:,} samples, found one of "
                f"more than {_PARTS_A_SAMPLE} parts for each",
                hint="send them in several requests, or raise limits.samples_per_request",
            )

    def of(self, stream: str) -> tuple[list[str], list[int], list[float]]:
        """Return where to append channel, time in ns and value; NaN: sent, and missing."""
        lists = self._streams.get(stream)
        if lists is None:
            lists = self._streams[stream] = ([], [], [])
        return lists

    def refuse(self, why: str, count: int = 1) -> None:
        """Take note of values that are not taken."""
        self._refused += count
        self._why = self._why or why

    def decoded(self, conversion: RateConversion, sent: int, form: str = "") -> Decoded:
        """Return all of them."""
        made = Decoded((), conversion, sent, form)
        for stream, (channels, times, values) in self._streams.items():
            distinct = len(set(channels))
            if distinct > self._limits.channels:
                self.refuse(
                    f"stream {stream!r}: expected at most {self._limits.channels} channels, found "
                    f"{distinct}; have the sender leave some out, or raise limits.channels",
                    len(values),
                )
                continue
            if distinct == len(channels) and len(set(times)) == 1:
                # By far the most frequent: one value of each channel, all of one time.
                moments, row = np.array(times[:1], np.int64), np.array([values])
                parts = [Arrival(stream, tuple(channels), moments, row)]
            else:
                column_of = {name: column for column, name in enumerate(dict.fromkeys(channels))}
                columns = np.array([column_of[name] for name in channels], np.int64)
                moments = np.array(times, np.int64)
                parts = pivot.arrivals(
                    stream, [*column_of], moments, columns, np.array(values), _TOGETHER
                )
            for part in parts:  # without samples that hold nothing
                held = ~np.isnan(part.values).all(axis=1)
                if held.any():
                    made.append(part._replace(times=part.times[held], values=part.values[held]))
        made.refused = self._refused, self._why
        return made


class SeriesDecoder(Decoder):
    """A decoder of series, some of which are counters."""

    partial: ClassVar[bool] = True

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._rates = CounterRates()

    def response(
        self, arrivals: Sequence[Arrival], position: int, refused: Sequence[Refusal] = ()
    ) -> Reply:
        """Remember the counters of the body, and return the answer of the protocol."""
        if not isinstance(arrivals, Decoded):
            return super().response(arrivals, position, refused)
        arrivals.conversion.keep()
        count, why = arrivals.outcome(refused)
        return self._answer(arrivals, count, why.replace("\n", "; "))

    @abstractmethod
    def _answer(self, decoded: Decoded, refused: int, why: str) -> Reply:
        """Return the answer to a body of which so many values were refused."""
