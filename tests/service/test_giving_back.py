"""Memory that was freed is given back to the system."""

from __future__ import annotations

import pytest

from benchmarks.report import NotMeasured
from benchmarks.streaming import resident_bytes
from newnormal.service import memory


def test_what_lies_between_blocks_in_use_is_given_back() -> None:
    try:
        resident_bytes()
    except NotMeasured as error:
        pytest.skip(str(error))
    if memory._trim() is None:
        pytest.skip("needs glibc")
    blocks = [bytes(10_000) for _ in range(10_000)]
    before = resident_bytes()
    kept = blocks[::100]
    del blocks
    assert memory.give_back()
    assert before - resident_bytes() > 50e6
    assert len(kept) == 100


def test_without_the_call_nothing_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_trim", lambda: None)
    assert not memory.give_back()
