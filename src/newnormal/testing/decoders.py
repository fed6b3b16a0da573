"""Checks for decoders of pushed bodies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from newnormal.arrivals.arrival import Arrival
from newnormal.errors import InputError
from newnormal.io.decoders.base import QUERY, Decoder, DecoderLimits
from newnormal.testing.expecting import expect, require

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
    expect(isinstance(path, str) and path != "", "a path", repr(path))
    expect(200 <= kind.status < 300, "a status of success", kind.status)
    decoder = kind(DecoderLimits(), lambda: _NOW)
    for body in bodies:
        arrivals = _decoded(decoder, body, sent)
        for arrival in arrivals:
            _check_arrival(arrival)
        again = _decoded(kind(DecoderLimits(), lambda: _NOW), body, sent)
        same = len(again) == len(arrivals)
        expect(same, "the same samples of the same body", "others")
        text = decoder.response(arrivals, 1).body
        expect(kind.status != 204 or not text, "no body with 204", "one")
        _check_refused(kind(DecoderLimits(samples=1), lambda: _NOW), body, sent)
        for end in range(0, len(body), max(1, len(body) // 50)):
            _check_refused(decoder, body[:end], sent, always=False)
            spoilt = body[:end] + b"\xff" + body[end + 1 :]
            _check_refused(decoder, spoilt, sent, always=False)


def _decoded(decoder: Decoder, body: bytes, headers: Mapping[str, str]) -> Sequence[Arrival]:
    plain = decoder.unpack(body, headers)
    weight = decoder.weight(plain, headers)
    expect(weight >= len(plain), "a weight of a body's length at least", weight)
    return decoder.decode(plain, headers)


def _check_arrival(arrival: Arrival) -> None:
    times, values, channels = arrival.times, arrival.values, arrival.channels
    shape = len(times), len(channels)
    expect(times.dtype == np.int64, "times of int64", times.dtype)
    expect(values.shape == shape, f"shape {shape}", values.shape)
    expect(values.dtype == np.float64, "values of float64", values.dtype)
    expect(not np.isinf(values).any(), "finite values", "an infinite one")
    bad = [
        repr(name)
        for name in (arrival.stream, *channels)
        if not (name.isprintable() and 0 < len(name) <= 200)
    ]
    expect(not bad, "names of 1 to 200 printable characters", "".join(bad[:1]))
    require(len(set(channels)) == len(channels), "expected each channel once")


def _check_refused(
    decoder: Decoder, body: bytes, headers: Mapping[str, str], *, always: bool = True
) -> None:
    try:
        _decoded(decoder, body, headers)
    except InputError:
        return
    except Exception as error:
        raise AssertionError(f"expected an InputError, found {error!r}") from error
    expect(not always, "more samples than the limit to be refused", "them taken")
