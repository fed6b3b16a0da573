"""What tests of all kinds share."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from benchmarks.browser import chromium
from tests.counts import numbers

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(scope="session")
def any_browser() -> Iterator[Browser | None]:
    """One Chromium for all tests: Playwright starts once in a thread. None without it."""
    with chromium() as started:
        yield started


@pytest.fixture
def browser(any_browser: Browser | None) -> Browser:
    """Chromium; without it the test is skipped."""
    if any_browser is None:
        pytest.skip("needs playwright and chromium")
    return any_browser


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """What makes libraries look as if they were not installed."""

    def remove(*libraries: str) -> None:
        for name in [name for name in sys.modules if name.partition(".")[0] in libraries]:
            monkeypatch.delitem(sys.modules, name)
        for name in libraries:
            monkeypatch.setitem(sys.modules, name, None)

    return remove


@pytest.fixture
def cases(request: pytest.FixtureRequest) -> range:
    """The numbers of the cases of a test marked `cases(small, full)`: each number is one case."""
    return numbers(*request.node.get_closest_marker("cases").args)


@pytest.fixture(scope="session")
def data_root() -> Path:
    """The folder of the benchmark data, from NEWNORMAL_DATA; without it the test is skipped."""
    folder = os.environ.get("NEWNORMAL_DATA")
    if not folder:
        pytest.skip("needs the benchmark data: set NEWNORMAL_DATA to their folder")
    if not Path(folder).is_dir():
        pytest.fail(f"NEWNORMAL_DATA: expected a folder, found {folder!r}")
    return Path(folder)
