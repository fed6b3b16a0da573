"""Run, step, pieces, saved and loaded, pickled, copied: the same bits, ten times over."""

import json

import numpy as np
import pytest

from tests.counts import count
from tests.fuzz.paths import case_of, compared, difference, followed, fresh, quiet

SEED = 9
CASES = 36


@pytest.mark.cases(CASES, 2_000)
def test_all_ways_through_a_stream_give_the_same_bits(cases: range) -> None:
    repeats = count(1, 10)
    found: list[str] = []
    for index in cases:
        found += compared(SEED, index, repeats)
        if len(found) > 20:
            break
    assert not found, "\n".join(found)


def test_the_cases_have_events_of_every_kind_and_hidden_channels_at_their_cuts() -> None:
    events: list[str] = []
    hidden: list[bool] = []
    with quiet():
        for case in (case_of(SEED, index) for index in range(CASES)):
            columns = followed(case, "run", fresh(case.name))
            events += columns["events"]
            if (ratios := columns["channel_ratios"]).ndim > 1:
                cuts = {cut for way in case.cuts.values() for cut in way if cut}
                hidden.append(any((ratios[cut - 1] >= 1).any() for cut in cuts))
    assert len(hidden) > 15 and np.mean(hidden) > 0.6
    kinds = {json.loads(event)["event"] for event in events if event.startswith("{")}
    assert kinds == {
        *("opened", "updated", "closed"),
        *("changed", "accepted", "rejected", "reverted", "undone"),
    }
    assert any('"cause": "silence"' in event for event in events)


def test_a_difference_is_told_with_its_column_and_its_row() -> None:
    ref = np.array([1.0, np.nan, 3.0])
    assert difference("score", ref, ref.copy()) == ""
    comp = np.array([1.0, np.nan, np.nextafter(3.0, 4.0)])
    assert difference("score", ref, comp).startswith(
        "score: row 2: expected np.float64(3.0), found"
    )
    assert difference("score", np.array([0.0]), np.array([-0.0])).startswith("score: row 0")
    assert difference("events", ["a", "b"], ["a", "c"]) == "events 1: expected b\n    found c"
