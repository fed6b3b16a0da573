"""From which time and until which samples are taken: on the clock that their times are of."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from newnormal.errors import ParameterError
from newnormal.tabular import Reading, read
from newnormal.tabular.bounds import Bound
from newnormal.tabular.ordering.arrival import LiveOrder


def test_a_time_without_a_zone_is_on_the_clock_of_the_samples(tmp_path: Path) -> None:
    path = tmp_path / "plant.csv"
    local = [f"2026-10-25 {hour:02}:30:00" for hour in (0, 1, 2, 2, 3, 4)]  # 02:30 comes twice
    rows = [f"{time},{at}" for at, time in enumerate(local)]
    path.write_text("\n".join(["time,a", *rows]) + "\n")

    def taken(**options: Any) -> list[float]:
        found: list[float] = read(path, **options).values[:, 0].tolist()
        return found

    berlin = {"tz": "Europe/Berlin"}
    assert taken(**berlin, from_="2026-10-25 03:30") == [4, 5]
    assert taken(**berlin, from_="2026-10-25 02:30") == [2, 3, 4, 5]  # the first of the two
    assert taken(**berlin, until="2026-10-25 03:00") == [0, 1, 2, 3]
    assert taken(**berlin, from_="2026-10-25T02:30Z") == [4, 5]
    assert taken(from_="2026-10-25 03:30") == [4, 5]
    path.write_text("time,a\n2026-07-01T05:00+02:00,1\n2026-07-01T06:00+02:00,2\n")
    assert taken(from_="2026-07-01 06:00") == [2]
    assert taken(until=datetime(2026, 7, 1, 6)) == [1]
    assert taken(until=np.datetime64("2026-07-01T04:00")) == [1]


def test_it_holds_for_live_samples() -> None:
    times = np.arange("2026-07-01T00", "2026-07-01T10", dtype="datetime64[h]")
    arrival = LiveOrder(Reading.of(from_="2026-07-01 05:00", until="2026-07-01 07:00"), ("a",))
    arrival.zone = "Europe/Berlin"
    found = arrival.push(np.arange(10.0)[:, None], times.astype("datetime64[ns]"))
    assert found.values[:, 0].tolist() == [3, 4]


def test_a_clock_that_goes_forward() -> None:
    skipped = Bound.of("2026-03-29 02:30")  # no clock in Berlin shows it
    assert skipped.in_zone("Europe/Berlin") == np.datetime64("2026-03-29T01:30")
    assert Bound.of("1767225600").in_zone("Europe/Berlin") == np.datetime64("2026-01-01")


def test_what_is_no_time_is_refused_with_its_option() -> None:
    with pytest.raises(ParameterError, match=r"^from: expected a time, found '01\.02\.2026'"):
        Reading.of(from_="01.02.2026")
