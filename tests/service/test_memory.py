"""The memory of the service under load: flat over the hour of `make soak`."""

from collections.abc import Callable
from statistics import median

import pytest

pytest.importorskip("fastapi", reason="needs the extra serve")

from benchmarks.service import measure

_MORE = 0.03  # of the memory, that may be added from the first third to the end


@pytest.mark.cases(8, 3_600, whole=True)
def test_the_memory_of_the_service_stays_as_it_is_under_load(
    cases: range, record_property: Callable[[str, object], None]
) -> None:
    seconds = len(cases)
    is_long = seconds >= 300
    streams, rate = (1000, 5200.0) if is_long else (20, 200.0)
    _, figures = measure(streams, seconds, rate)
    memory = figures["memory"]
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
