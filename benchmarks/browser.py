"""A real browser that shows pages without a network."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Browser

# Whether a report shows its samples, or has none to show.
DRAWN = "() => !NN.state.picture || +NN.state.picture.frame.dataset.points > 0"


@contextmanager
def chromium() -> Iterator[Browser | None]:
    """Give Chromium, or None where it or playwright is not installed."""
    path = shutil.which("chromium") or shutil.which("google-chrome")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        path = None
    if path is None:
        yield None
        return
    with sync_playwright() as started:
        # Without its sandbox, which a user without privileges needs and root cannot have.
        browser = started.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()
