"""Fixtures that several tests of the service have."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from newnormal.engine.store import Store
from newnormal.service.service import Service
from tests.service.running import Start, config_of, running

if TYPE_CHECKING:
    from tests.service.asgi import Client


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Start:
    """Starts a service whose fits are made when a test says so; again with the same data."""
    return lambda **changes: running(config_of(tmp_path, **changes), monkeypatch)


@pytest.fixture
def service(start: Start) -> Iterator[Service]:
    """A service that runs."""
    with start() as made:
        yield made


@pytest.fixture
def client(service: Service) -> Iterator[Client]:
    """A client of the service of a module, without a network."""
    from tests.service import asgi

    with asgi.Client(service) as made:
        yield made


@pytest.fixture(scope="module")
def reader() -> Iterator[Client]:
    """A client of the plant for all tests of a module that change nothing in it."""
    from tests.service import asgi
    from tests.service.plant import plant

    with plant() as service, asgi.Client(service) as made:
        yield made


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Of a store."""
    return tmp_path / "store.sqlite"


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    """An empty store."""
    made = Store(path)
    yield made
    made.close()
