"""Write the pictures of the service's page in docs/img: its demo, in a real browser.

::

    python -m docs.pictures_of_service            all of them
    python -m docs.pictures_of_service FOLDER     into another folder

It needs playwright and Chromium, and two minutes.
"""

from __future__ import annotations

import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import httpx

from benchmarks.browser import chromium
from docs.pictures import lighten

if TYPE_CHECKING:
    from playwright.sync_api import Browser

_FOLDER = Path(__file__).parent / "img"
_COLOURS = 255
_WAIT_S = 120.0


class Picture(NamedTuple):
    """A picture of the page: the place in it, the size and the theme."""

    place: str
    width: int = 1280
    height: int = 800
    dark: bool = False


PICTURES = {
    "service-streams": Picture("#/"),
    "service-inbox": Picture("#/item/{change}"),
    "service-stream-dark": Picture("#/stream/{stream}", height=900, dark=True),
    "service-phone": Picture("#/stream/{stream}", 390, 844),
}


def main(arguments: list[str] | None = None) -> int:
    """Write the pictures; return the exit code."""
    given = sys.argv[1:] if arguments is None else arguments
    process = subprocess.Popen(
        [sys.executable, "-m", "newnormal", "serve", "--demo", "--port", "0"],
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        url = ""
        while not url:  # a first start compiles, and says so before
            line = process.stderr.readline()
            url = line.split()[-1] if "newnormal is at" in line else ""
        change = _change_to_decide(url)
        found = {"change": change["key"], "stream": change["stream"]}
        with chromium() as browser:
            if browser is None:
                raise SystemExit("expected playwright and Chromium, found none")
            _draw(browser, url, found, Path(given[0]) if given else _FOLDER)
    finally:
        process.terminate()
        process.communicate()
    return 0


def _change_to_decide(url: str) -> dict[str, Any]:
    """Return the change that waits for a person, once another was accepted by itself."""
    ends = time.monotonic() + _WAIT_S
    while time.monotonic() < ends:
        time.sleep(1.0)
        with suppress(httpx.HTTPError, KeyError):
            read = httpx.get(f"{url}/api/v1/items", params={"limit": 100}).json()
            pending = [each for each in read["items"] if each["state"] == "pending"]
            if pending and any(each["state"] == "accepted" for each in read["items"]):
                change: dict[str, Any] = max(pending, key=lambda each: each["ratio"])
                return change
    raise SystemExit("expected a change to decide in the demo, found none")


def _draw(browser: Browser, url: str, found: dict[str, Any], folder: Path) -> None:
    for name, picture in PICTURES.items():
        context = browser.new_context(
            viewport={"width": picture.width, "height": picture.height},
            color_scheme="dark" if picture.dark else "light",
        )
        page = context.new_page()
        page.goto(f"{url}/{picture.place.format(**found)}")
        page.wait_for_timeout(3000)
        path = folder / f"{name}.png"
        page.screenshot(path=path)
        context.close()
        lighten(path, _COLOURS)
        print(f"wrote {path}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    sys.exit(main())
