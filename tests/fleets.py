"""Small fleets of mixed shapes for tests, and what it means that two are equal."""

from functools import cache

import numpy as np

from newnormal import M2N2, Detector, Fleet
from newnormal.core.state import arrays
from newnormal.fleet.results import FleetVerdicts
from newnormal.types import Floats


@cache
def fitted(kind: str) -> Detector | M2N2:
    """Return a detector that was fitted for an epoch: `narrow`, `wide` or `paper`."""
    rng = np.random.default_rng(1)
    if kind == "paper":
        return M2N2(window=8, epochs=1).fit(rng.normal(size=(200, 2)))
    channels = {"narrow": 2, "wide": 3}[kind]
    history = rng.normal(size=(300, channels))
    return Detector(epochs=1, alarms_per_day=1.0, accept_after=40).fit(history)


def mixed_fleet(narrow: int = 12, wide: int = 6, paper: int = 4) -> Fleet:
    """Return a fleet of three shapes; streams of one shape are of one fit."""
    fleet = Fleet(epochs=1, alarms_per_day=1.0)
    for kind, count in (("narrow", narrow), ("wide", wide), ("paper", paper)):
        for at in range(count):
            fleet.add(f"{kind}-{at}", fitted(kind))
    return fleet


def tick(fleet: Fleet, number: int, shifted: int = 3) -> dict[str, Floats]:
    """Return a sample of most streams; from sample 30 on, every `shifted`th has moved."""
    rng = np.random.default_rng(number)
    found = {}
    for at, name in enumerate(fleet.streams_):
        channels = 3 if name.startswith("wide") else 2
        sample = rng.normal(size=channels)
        if number >= 30 and at % shifted == 0:
            sample += 8.0
        if (number + at) % 7:
            found[name] = sample
    return found


def assert_equal(one: Fleet, other: Fleet) -> None:
    """Check that two fleets have the same streams, bit for bit, events and incidents."""
    assert one.streams_ == other.streams_
    for name in one.streams_:
        a, b = one._streams[name], other._streams[name]
        own, found = list(arrays(a.open())), list(arrays(b.open()))
        assert len(own) == len(found), name
        for x, y in zip(own, found, strict=True):
            assert (x.dtype, x.shape, x.tobytes()) == (y.dtype, y.shape, y.tobytes()), name
        assert list(a.past or ()) == list(b.past or ()), name
        assert a.template.get_params() == b.template.get_params()
    assert one._tracker.to_json() == other._tracker.to_json()
    assert (one._ticks, list(one._events)) == (other._ticks, list(other._events))
    assert one.fleet_alarms_per_day == other.fleet_alarms_per_day
    assert one.detector.get_params() == other.detector.get_params()


def assert_same_verdicts(one: FleetVerdicts, other: FleetVerdicts) -> None:
    """Check that two results are the same, row by row."""
    own, found = one.columns(), other.columns()
    assert own.keys() == found.keys()
    for name in own:
        np.testing.assert_array_equal(own[name], found[name], err_msg=name)
    assert (one.events, one.incidents) == (other.events, other.incidents)
    texts = [[(each.stream, str(each.error), each.rows) for each in v.errors] for v in (one, other)]
    assert texts[0] == texts[1]
