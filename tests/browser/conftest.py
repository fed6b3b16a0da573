"""A real browser, one for all tests; pages that are written once; no request, no error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pytest

from benchmarks.browser import DRAWN
from newnormal.reports.writing import page_of
from tests.browser import made

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Request

    from tests.browser.service_pages import Open

SPIKE = 700_003  # the sample of the million that no thinning may lose
LONG = "building 7/floor 12/air handling unit 3/supply air temperature after heat recovery"

RUNS: dict[str, Callable[[], Any]] = {
    "open": lambda: made.run(still=True, pending=True, zone="Europe/Berlin"),
    "many": lambda: made.run(5_000, 4, made.spread(52, 5_000, 20), accepted=True),
    "wide": lambda: made.run(
        400, [f"{LONG} {k}" for k in range(200)], made.spread(3, 400, 20), times=False
    ),
    "quiet": lambda: made.run(800, 2, [], times=False),
    "labelled": lambda: made.run(
        900, 3, [(200, 230), (600, 620)], labels=[(195, 240), (700, 720)], times=False
    ),
    "million": lambda: made.run(1_000_000, 5, [(SPIKE, SPIKE + 1)]),
    "fleet": made.fleet,
}


@cache
def run_of(name: str) -> Any:
    """Return what one of the pages is about."""
    return RUNS[name]()


class Visit(Protocol):
    """Open one of the pages and return it when its picture is drawn."""

    def __call__(
        self,
        name: str,
        place: str = "",
        width: int = 1280,
        height: int = 860,
        dark: bool = False,
        **options: Any,
    ) -> Page: ...


@pytest.fixture(scope="session")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return where one of the pages is; it is written when it is first asked for."""
    folder = tmp_path_factory.mktemp("pages")

    def path_of(name: str) -> Path:
        path = folder / f"{name}.html"
        if not path.exists():
            path.write_text(page_of(run_of(name), name=f"{name}.csv"), encoding="utf-8")
        return path

    return path_of


@pytest.fixture
def visit(browser: Browser, page_file: Callable[[str], Path]) -> Iterator[Visit]:
    contexts = []
    troubles: list[str] = []

    def only_files(request: Request) -> None:
        if not request.url.startswith(("file:", "data:")):
            troubles.append(f"request to {request.url}")

    def opened(
        name: str,
        place: str = "",
        width: int = 1280,
        height: int = 860,
        dark: bool = False,
        **options: Any,
    ) -> Page:
        context = browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme="dark" if dark else "light",
            offline=True,
            **options,
        )
        contexts.append(context)
        context.on("request", only_files)
        page = context.new_page()
        page.on("console", lambda line: troubles.append(f"{line.type}: {line.text}"))
        page.on("pageerror", lambda error: troubles.append(str(error)))
        path = Path(name) if name.endswith(".html") else page_file(name)
        page.goto(path.as_uri() + place)
        page.wait_for_function(DRAWN)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert troubles == []


@pytest.fixture
def visited(browser: Browser) -> Iterator[Open]:
    """Give a function that opens the page of a service."""
    from tests.browser.service_pages import opened_pages

    with opened_pages(browser) as opened:
        yield opened
