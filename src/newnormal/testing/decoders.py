"""Checks for decoders of pushed bodies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from newnormal.errors import InputError
from newnormal.io.arrivals import Arrival
from newnormal.io.decoders.base import QUERY, Decoder, DecoderLimits

_NOW = 1_767_225_600 * 10**9


def check_decoder(
    kind: type[Decoder], bodies: Sequence[bytes], headers: Mapping[str, str] | None = None
) -> None:
    r"""Check that a decoder keeps what `newnormal.io.Decoder` promises.

    Parameters
    ----------
    kind
        The decoder's class.
    bodies
        Some that it reads, each with two samples or more.
    headers
        What comes with them.

    Examples
    --------
    >>> from newnormal.io import find_decoder
    >>> check_decoder(find_decoder("samples"), [b"stream,time,load\na,0,1\na,1,2\n"])
    """
    sent = {QUERY: "", **(headers or {})}
    path = getattr(kind, "path", None)
    assert isinstance(path, str) and path, f"expected a path, found {path!r}"
    assert 200 <= kind.status < 300, f"expected a status of success, found {kind.status}"
    decoder = kind(DecoderLimits(), lambda: _NOW)
    for body in bodies:
        found = decoder.decode(body, sent)
        for arrival in found:
            _check_arrival(arrival)
        again = kind(DecoderLimits(), lambda: _NOW).decode(body, sent)
        assert len(again) == len(found), "expected the same samples of the same body, found others"
        text = decoder.response(found, 1).body
        assert kind.status != 204 or not text, "expected no body with 204, found one"
        _check_refused(kind(DecoderLimits(samples=1), lambda: _NOW), body, sent)
        for end in range(0, len(body), max(1, len(body) // 50)):
            _check_refused(decoder, body[:end], sent, always=False)
            spoilt = body[:end] + b"\xff" + body[end + 1 :]
            _check_refused(decoder, spoilt, sent, always=False)


def _check_arrival(arrival: Arrival) -> None:
    count = len(arrival.times)
    shape = (count, len(arrival.channels))
    assert arrival.times.dtype == np.int64, f"expected times of int64, found {arrival.times.dtype}"
    assert arrival.values.shape == shape, f"expected shape {shape}, found {arrival.values.shape}"
    assert arrival.values.dtype == np.float64, (
        f"expected values of float64, found {arrival.values.dtype}"
    )
    assert not np.isinf(arrival.values).any(), "expected finite values, found an infinite one"
    names = (arrival.stream, *arrival.channels)
    bad = [name for name in names if not (name.isprintable() and 0 < len(name) <= 200)]
    assert not bad, f"expected names of 1 to 200 printable characters, found {bad[0]!r}"
    assert len(set(arrival.channels)) == len(arrival.channels), "expected each channel once"


def _check_refused(
    decoder: Decoder, body: bytes, headers: Mapping[str, str], *, always: bool = True
) -> None:
    try:
        decoder.decode(body, headers)
    except InputError:
        return
    except Exception as error:
        raise AssertionError(f"expected an InputError, found {error!r}") from error
    assert not always, "expected more samples than the limit to be refused, found them taken"
