"""A spoilt folder of a fleet is refused with a StateError, or it loads and the fleet works.

`make soak` tries 2,000 of damage to each kind of file, and 2,500 whose digests fit, with kernels
that check every index. No other exception, no signal, no hang; within seconds of processor time
and 500 MB. What `Fleet.load` refuses, `newnormal fleet check` names, and what that can repair is
used as well.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from tests.counts import count
from tests.fuzz.children import CHECKED, told, tried
from tests.fuzz.folders import FILES

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.name != "posix", reason="needs POSIX: limits of a process"),
]
MODULE = "tests.fuzz.fleet_case"
SEED = 5


def test_damage_is_refused_or_makes_no_difference(
    record_property: Callable[[str, object], None],
) -> None:
    cases = len(FILES) * count(4, 2000)
    record_property("cases", cases)
    good = ("equal", "earlier", "refused", "repaired")
    found = tried(MODULE, SEED, range(0, 2 * cases, 2), good=good)
    assert not found.bad, told(found)
    assert found.outcomes["equal"] and found.outcomes["repaired"], told(found)


def test_wrong_content_with_fitting_digests_reaches_no_place_outside_an_array(
    record_property: Callable[[str, object], None],
) -> None:
    cases = count(30, 2500)
    record_property("cases", cases)
    good = ("equal", "earlier", "other", "refused", "repaired")
    odd = range(1, 2 * cases, 2)
    found = tried(MODULE, SEED + 1, odd, environment=CHECKED, good=good)
    assert not found.bad, told(found)
    assert found.outcomes["repaired"], told(found)
