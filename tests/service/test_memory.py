"""The memory of the service under load: flat over the hour of `make soak`."""

import os
from collections.abc import Callable
from statistics import median

import pytest

from tests.counts import count

pytest.importorskip("fastapi", reason="needs the extra serve")

from benchmarks.service import measure

_MORE = 0.03  # of the memory, that may be added from the first third to the end


@pytest.mark.slow
def test_the_memory_of_the_service_stays_as_it_is_under_load(
    record_property: Callable[[str, object], None],
) -> None:
    seconds = count(8, round(60 * float(os.environ.get("NEWNORMAL_SOAK_MINUTES") or 60)))
    is_long = seconds >= 300
    streams, rate = (1000, 5200.0) if is_long else (20, 200.0)
    _, figures = measure(streams, seconds, rate)
    memory = figures["memory"]
    record_property("cases", figures["samples"])
    third = len(memory) // 3
    before, after = median(memory[third : third + 60]), median(memory[-60:])
    if is_long:
        record_property(
            "found",
            f"{seconds / 60:.0f} min at {figures['samples'] / seconds:,.0f} samples/s; "
            f"{memory[0]:.0f} MB at first, {before:.0f} after a third, {after:.0f} at the end, "
            f"at most {max(memory):.0f}",
        )
    assert figures["samples"] == pytest.approx(seconds * rate, rel=0.2)
    assert figures["lag"] < 200_000
    if is_long:
        # Blocks of all streams fill up in the first minute; after that nothing may be added.
        assert after <= (1 + _MORE) * before, [round(each) for each in memory[:: len(memory) // 20]]
