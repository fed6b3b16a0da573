"""A spoilt folder of a fleet is refused with a StateError, or it loads and the fleet works.

No other exception, no signal, no hang; within seconds of processor time and 500 MB. What
`Fleet.load` refuses, `newnormal fleet check` names, and what that can repair is used as well.
"""

from __future__ import annotations

import os

import pytest

from tests.fuzz.children import CHECKED, told, tried
from tests.fuzz.folders import FILES

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs POSIX: limits of a process")
MODULE = "tests.fuzz.fleet_case"
SEED = 5


@pytest.mark.cases(4 * len(FILES), 2_000 * len(FILES))
def test_damage_is_refused_or_makes_no_difference(cases: range) -> None:
    good = ("equal", "earlier", "refused", "repaired")
    found = tried(MODULE, SEED, range(2 * cases.start, 2 * cases.stop, 2), good=good)
    assert not found.bad, told(found)
    assert found.outcomes["equal"] and found.outcomes["repaired"], told(found)


@pytest.mark.cases(30, 2_500)
def test_wrong_content_with_fitting_digests_reaches_no_place_outside_an_array(
    cases: range,
) -> None:
    """With kernels that check every index."""
    good = ("equal", "earlier", "other", "refused", "repaired")
    odd = range(2 * cases.start + 1, 2 * cases.stop, 2)
    found = tried(MODULE, SEED + 1, odd, environment=CHECKED, good=good)
    assert not found.bad, told(found)
    assert found.outcomes["repaired"], told(found)
