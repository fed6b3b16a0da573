"""The site: built strictly, complete, and whole without a network, search included."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pytest

from docs.generate import reference
from docs.site.stage import PAGES, rewrite, stage
from tests.processes import python

if TYPE_CHECKING:
    from playwright.sync_api import Browser

ROOT = Path(__file__).parents[2]

needs_zensical = pytest.mark.skipif(find_spec("zensical") is None, reason="needs the extra `site`")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as `make site` does, in a folder of its own."""
    folder = tmp_path_factory.mktemp("project")
    shutil.copy(ROOT / "mkdocs.yml", folder)
    stage(folder / "build" / "site")
    done = python("-m", "zensical", "build", "--clean", "--strict", cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "site"


class Read(HTMLParser):
    """What a page has and what it asks for."""

    # Attributes by which a browser loads something by itself.
    LOADING = ("script:src", "img:src", "iframe:src", "source:src", "link:href", "use:href")

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id":
                self.ids.add(value or "")
            elif f"{tag}:{name}" in self.LOADING:
                self.loaded.append(value or "")
            elif (tag, name) == ("a", "href"):
                self.links.append(value or "")


def pages(site: Path) -> dict[Path, Read]:
    # The page of an address that is not there is for a server, with addresses of the root.
    return {path: Read(path) for path in site.rglob("*.html") if path.name != "404.html"}


@needs_zensical
def test_every_page_of_the_repository_is_on_the_site(site: Path) -> None:
    written = {*(ROOT / "docs").rglob("*.md"), *reference()}
    sources = {path.relative_to(ROOT / "docs") for path in written}
    places = {path.as_posix() for path in sources if path.as_posix() != "README.md"}
    for place in places | set(PAGES.values()):
        assert (site / place).with_suffix(".html").is_file(), place


@needs_zensical
def test_every_page_can_be_reached_from_the_front_page_by_its_navigation(site: Path) -> None:
    front = Read(site / "index.html")
    reached = {(site / link.partition("#")[0]).resolve() for link in front.links}
    assert set(pages(site)) - reached <= {site / "index.html"}


@needs_zensical
def test_every_link_leads_to_a_page_and_a_place_in_it(site: Path) -> None:
    read = pages(site)
    assert len(read) > 40
    for path, page in read.items():
        for link in page.links:
            if re.match(r"https?:|mailto:", link):
                continue
            name, _, anchor = unquote(link).partition("#")
            target = (path.parent / name).resolve() if name else path
            assert target.is_file(), f"{path.relative_to(site)} links to {link}"
            if anchor and target in read:
                assert anchor in read[target].ids, f"{path.relative_to(site)} links to {link}"


@needs_zensical
def test_no_page_and_no_stylesheet_loads_anything_from_elsewhere(site: Path) -> None:
    for path, page in pages(site).items():
        for target in page.loaded:
            assert not re.match(r"(https?:)?//", target), f"{path.relative_to(site)}: {target}"
            file = path.parent / unquote(target.partition("#")[0].partition("?")[0])
            assert file.is_file(), f"{path.relative_to(site)}: {target}"
    for path in site.rglob("*.css"):
        text = path.read_text(encoding="utf-8")
        assert not re.findall(r"(?:url\(|@import)\s*[\"']?(?:https?:)?//[^)]*", text), path.name


@pytest.fixture
def page(browser: Browser) -> Iterator[Any]:
    """A page of Chromium without a network; every address that it asks for is in `page.asked`."""
    context = browser.new_context(offline=True, viewport={"width": 1280, "height": 800})
    page: Any = context.new_page()
    page.asked = []
    page.on("request", lambda request: page.asked.append(request.url))
    yield page
    context.close()


@needs_zensical
def test_search_finds_a_page_from_a_folder_without_a_network(site: Path, page: Any) -> None:
    page.goto((site / "index.html").as_uri())
    page.get_by_role("button", name="Search").first.click()
    box = page.get_by_role("combobox", name="Search")
    box.wait_for(timeout=20_000)
    box.press_sequentially("shadow", delay=50)  # as a person types, with results between
    page.wait_for_timeout(500)
    assert box.input_value() == "shadow"
    found = page.locator("a[href*='guides/alarms.html?h=']").first
    found.wait_for(timeout=20_000)
    found.click()
    page.wait_for_url("**/guides/alarms.html*")
    assert [url for url in page.asked if not url.startswith(("file:", "data:", "blob:"))] == []


@needs_zensical
@pytest.mark.parametrize("name", ["index", "method", "results/drift", "reference/cli"])
def test_no_page_is_wider_than_a_phone(site: Path, page: Any, name: str) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto((site / f"{name}.html").as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


@needs_zensical
def test_the_dark_site_is_dark_and_pictures_keep_their_white_ground(site: Path, page: Any) -> None:
    page.emulate_media(color_scheme="dark")
    page.goto((site / "method.html").as_uri())
    colour = "getComputedStyle(document.querySelector('{}')).backgroundColor"
    assert max(map(int, re.findall(r"\d+", page.evaluate(colour.format("body")))[:3])) < 80
    assert page.evaluate(colour.format("article img")) == "rgb(255, 255, 255)"


def test_links_of_the_repository_become_links_of_the_site() -> None:
    text = "See [data](../README.md#files), [a](alarms.md), [`x`](../../src/x.py), `[b](c.md)`.\n"
    assert rewrite("docs/guides/data.md", text) == (
        "See [data](../contents.md#files), [a](alarms.md), `x`, `[b](c.md)`.\n"
    )


def test_pictures_are_links_to_themselves() -> None:
    text = "![A b\nc.](docs/img/fleet.png)\n"
    assert rewrite("ARCHITECTURE.md", text) == "[![A b\nc.](img/fleet.png)](img/fleet.png)\n"


def test_headings_have_the_anchors_of_github_and_code_stays() -> None:
    text = "# A `b.c`\n\n```sh\n# a [comment](x.md)\n```\n\n## A b.c\n"
    assert rewrite("docs/a.md", text) == (
        "# A `b.c` { #a-bc }\n\n```sh\n# a [comment](x.md)\n```\n\n## A b.c { #a-bc-1 }\n"
    )


def test_lists_below_lists_are_indented_for_python_markdown() -> None:
    assert rewrite("docs/a.md", "- a\n  - b\n    - c\n") == "- a\n    - b\n        - c\n"
