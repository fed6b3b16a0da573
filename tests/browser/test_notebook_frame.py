"""What a notebook shows of verdicts, in a real browser: a table, and the page in a closed frame."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.plots.runs import alarm, change, over, run

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_the_frame_has_the_notebooks_colours(browser: Browser, tmp_path: Path, dark: bool) -> None:
    opened = alarm(2, 280, 299, reason=None)
    verdicts = run(events=over(alarm(1, 20, 30)), remaining=(opened, change(1, 200)))
    ink = "rgb(210, 220, 230)" if dark else "rgb(20, 30, 40)"
    path = tmp_path / "cell.html"
    path.write_text(f"<body style='color: {ink}'>{verdicts._repr_html_()}</body>", encoding="utf-8")
    troubles: list[str] = []
    context = browser.new_context(color_scheme="dark" if dark else "light", offline=True)
    page = context.new_page()
    page.on("console", lambda line: troubles.append(line.text))
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.goto(path.as_uri())
    colour = "element => getComputedStyle(element).color"
    assert page.locator("td").first.evaluate(colour) == ink
    frame = page.frame_locator("iframe")
    page.locator("iframe").scroll_into_view_if_needed()
    frame.locator("canvas").first.wait_for()
    assert "c1 71, expected 20 to 30" in frame.locator("body").inner_text()
    assert not frame.locator("h1").is_visible()  # the tables above have it
    context.close()
    assert troubles == []
