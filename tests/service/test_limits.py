"""What samples must keep to before they are taken in."""

import numpy as np
import pytest

from newnormal.io.arrivals import Arrival
from newnormal.service.config import Limits
from newnormal.service.engine.aligning import Aligner
from newnormal.service.engine.streams import StreamRecord, StreamRecords
from newnormal.service.limits import LimitError, check_limits

NOW = 1_800_000_000 * 10**9
DAY = 86_400 * 10**9


def arrival(stream: str, time: int = NOW, channels: tuple[str, ...] = ("a",)) -> Arrival:
    return Arrival(stream, channels, np.array([time]), np.ones((1, len(channels))))


def known(*names: str) -> StreamRecords:
    streams = StreamRecords()
    for number, name in enumerate(names, 1):
        aligner = Aligner()
        aligner.take(arrival(name, 1, ("a", "b")))
        streams.add(StreamRecord(number, name, aligner))
    return streams


def test_a_time_far_ahead_is_refused_and_one_of_the_past_is_taken() -> None:
    limits = Limits()
    check_limits([arrival("x", NOW + DAY), arrival("x", 0)], known(), limits, NOW)
    with pytest.raises(LimitError, match=r"expected times up to 2027-01-16.*found 2027-01-17"):
        check_limits([arrival("x", NOW + 2 * DAY)], known(), limits, NOW)


def test_channels_count_with_those_that_the_stream_has() -> None:
    limits = Limits(channels=3)
    check_limits([arrival("x", channels=("a", "b", "c"))], known("x"), limits, NOW)
    with pytest.raises(LimitError, match="at most 3 channels, found 4"):
        check_limits([arrival("x", channels=("c", "d"))], known("x"), limits, NOW)


def test_new_streams_count_once_however_often_they_come() -> None:
    limits = Limits(streams=2)
    check_limits([arrival("x"), arrival("y"), arrival("y")], known("x"), limits, NOW)
    with pytest.raises(LimitError, match="at most 2 streams, found 3"):
        check_limits([arrival("y"), arrival("z")], known("x"), limits, NOW)
