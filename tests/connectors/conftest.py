"""What the tests of MQTT's source and sink share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.clocks import StillClock
from tests.connectors.mqtt_peers import FakeBroker


@pytest.fixture
def broker() -> Iterator[FakeBroker]:
    with FakeBroker() as broker:
        yield broker


@pytest.fixture
def clock() -> StillClock[float]:
    return StillClock(1000.0)
