"""The page of a service whose time stands still, opened in a real browser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

from newnormal.service.config import TokenConfig, hash_token
from newnormal.service.service import Service
from tests.service.asgi import served
from tests.service.plant import plant

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Request

READY = "() => document.documentElement.dataset.ready && document.querySelector('main h1')"
DRAWN = "() => +document.querySelector('.nn-picture')?.dataset.points > 0"
TOKEN = "a token for the test of the login"

_CONTEXTS: list[Any] = []  # windows that are open


class Open(Protocol):
    """Open a place of the page."""

    def __call__(
        self, address: str, place: str = "", width: int = 1280, **options: Any
    ) -> Page: ...


@contextmanager
def opened_pages(browser: Browser) -> Iterator[Open]:
    """Give a function that opens the page; afterwards nothing was asked of others or failed."""
    troubles: list[str] = []

    def opened(address: str, place: str = "", width: int = 1280, **options: Any) -> Page:
        expected = options.pop("expected", "")
        context = browser.new_context(
            viewport={"width": width, "height": options.pop("height", 860)},
            timezone_id="Europe/Berlin",
            **options,
        )
        _CONTEXTS.append(context)

        def asked(request: Request) -> None:
            if urlsplit(request.url).netloc != urlsplit(address).netloc:
                troubles.append(f"request to {request.url}")

        def said(line: Any) -> None:
            if not (expected and re.search(expected, line.text)):
                troubles.append(f"{line.type}: {line.text}")

        context.on("request", asked)
        page = context.new_page()
        page.on("console", said)
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.goto(f"{address}/{place}")
        page.wait_for_function(READY)
        return page

    yield opened
    close()
    assert troubles == []


def close() -> None:
    """Close all windows."""
    while _CONTEXTS:
        _CONTEXTS.pop().close()


@contextmanager
def running(**changes: Any) -> Iterator[tuple[Service, str]]:
    """Serve a plant whose time stands still until the test lets it pass."""
    with plant(**changes) as service, served(service) as address:
        try:
            yield service, address
        finally:
            close()  # before the service is gone, which they would say


def with_token(role: str = "operate") -> Any:
    """Return the tokens of a service that asks for `TOKEN`."""
    return {"tokens": (TokenConfig("anna", role, hash_token(TOKEN)),)}
