"""Fixtures that several tests of the service have."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from newnormal.service.service import Service
from tests.service.running import config_of, running

if TYPE_CHECKING:
    from tests.service.asgi import Client
    from tests.service.fake_service import FakeService


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    """A service that runs, whose fits are made when a test says so."""
    with running(config_of(tmp_path), monkeypatch) as made:
        yield made


@pytest.fixture
def client(service: FakeService) -> Iterator[Client]:
    """A client of the service of a module, without a network."""
    from tests.service.asgi import client_of

    with client_of(service) as made:
        yield made
