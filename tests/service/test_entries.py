"""Entries of the service's log as bytes, and back."""

import numpy as np
import pytest

from newnormal.arrivals.arrival import Arrival
from newnormal.engine.log.entries import (
    Closed,
    Configured,
    Entry,
    FeedbackGiven,
    FitBegan,
    FitFailed,
    FitTaken,
    Removed,
    Restored,
    SamplesArrived,
    Silent,
    Started,
    check_input_position,
    pack,
    unpack,
)
from newnormal.errors import InputError, StateError

PLAIN: list[Entry] = [
    Closed(1, 5),
    Configured((("*", None, 3, None), ("press-*", 10, None, 0.5))),
    FitBegan(1, 0, 99, "history"),
    FitBegan(1, 0, 99, "channels", ("a", "b")),
    FitTaken(1, 7, "1-7.nn"),
    FitFailed(1, 7, "expected more samples", None),
    FeedbackGiven(1, "accept", "alarm-1-1-1", "ann", 'it\'s "fine"\n'),
    Silent(1, 2, 3),
    Removed(1),
    Restored(1, 2),
    Started(9),
]
ODD = Arrival(
    "hall/press <1>\u2028",
    ("a", "b"),
    np.array([1, 2**62]),
    np.array([[np.nan, 1e300], [0.0, -0.0]]),
)


def test_what_was_packed_is_unpacked() -> None:
    arrived = SamplesArrived(
        (ODD, ODD._replace(stream="other")), "file", {"at": [1, None]}, True, True
    )
    first, *others = unpack(pack([arrived, *PLAIN]))
    assert others == PLAIN
    assert isinstance(first, SamplesArrived)
    assert (first.source, first.input_position) == ("file", {"at": [1, None]})
    assert (first.history, first.past) == (True, True)
    for comp, ref in zip(first.arrivals, arrived.arrivals, strict=True):
        assert (comp.stream, comp.channels) == (ref.stream, ref.channels)
        assert comp.times.tobytes() == ref.times.tobytes()
        assert comp.values.tobytes() == ref.values.tobytes()


@pytest.mark.parametrize("cut", [0, 3, 40, -1])
def test_other_bytes_are_refused(cut: int) -> None:
    record = pack([SamplesArrived((ODD,)), *PLAIN])
    with pytest.raises(StateError, match="expected a record of the log"):
        unpack(record[:cut])
    with pytest.raises(StateError, match="expected a record of the log"):
        unpack(record + b"x")


@pytest.mark.parametrize("position", [{"at": object()}, {"at": float("nan")}, {"at": b"bytes"}])
def test_an_input_position_that_cannot_be_written_is_refused(position: dict[str, object]) -> None:
    with pytest.raises(InputError, match="source 'mine': expected a snapshot of JSON values"):
        check_input_position(SamplesArrived((), "mine", position))
