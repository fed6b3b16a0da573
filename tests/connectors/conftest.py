"""Fixtures of several tests of connectors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.connectors.mqtt_peers import FakeBroker
from tests.http_server import Listener

if TYPE_CHECKING:
    from newnormal.service.service import Service
    from tests.service.asgi import Client


@pytest.fixture
def service() -> Iterator[Service]:
    from tests.service.plant import plant

    with plant(empty=True, now=None) as made:
        yield made


@pytest.fixture
def client(service: Service) -> Iterator[Client]:
    from tests.service import asgi

    with asgi.Client(service) as made:
        yield made


@pytest.fixture
def listener() -> Iterator[Listener]:
    with Listener() as listener:
        yield listener


@pytest.fixture
def broker() -> Iterator[FakeBroker]:
    with FakeBroker() as broker:
        yield broker
