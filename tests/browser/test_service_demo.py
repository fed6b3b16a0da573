"""The first minute of a newcomer: the real service with its demo, in a real browser."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("fastapi", reason="needs the extra serve")

if TYPE_CHECKING:
    from playwright.sync_api import Browser

PUMP = "hall-1/pump-15"  # whose change waits for a person
SOON = 240_000  # ms, on a machine that compiles first and does other things, too


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    process = subprocess.Popen(
        [sys.executable, "-m", "newnormal", "serve", "--demo", "--port", "0"],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        line = process.stderr.readline()
        while line and "newnormal is at" not in line:
            line = process.stderr.readline()
        yield line.split()[-1]
    finally:
        process.terminate()
        process.communicate()


def test_a_newcomer_sees_an_alarm_and_accepts_a_change(browser: Browser, address: str) -> None:
    page = browser.new_page(viewport={"width": 1280, "height": 860})
    page.set_default_timeout(SOON)
    others: list[str] = []
    page.on(
        "request", lambda each: None if each.url.startswith(address) else others.append(each.url)
    )
    page.goto(address)  # while it starts, the page says so and loads itself again
    page.locator("[data-stream]").nth(9).wait_for()
    page.get_by_text("simulated machines").wait_for()
    page.locator(f".nn-row-change:has-text('{PUMP}')").wait_for()
    page.get_by_role("link", name=PUMP).click()
    page.get_by_role("heading", name="Change pending").or_(
        page.get_by_text("Change pending")
    ).first.wait_for()
    page.get_by_role("button", name="Accept as normal").first.click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Comment").fill("a new motor")
    dialog.get_by_role("button", name="Accept as normal").click()
    dialog.wait_for(state="detached")
    page.get_by_text("accepted").first.wait_for()
    page.goto(f"{address}/#/inbox?show=all")
    page.locator("[data-item^='alarm-']").first.wait_for()
    assert others == []
    page.close()
