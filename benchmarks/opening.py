"""How long a page of a report takes to open in a real browser, and when it does not react."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.browser import chromium
from benchmarks.report import NotMeasured

if TYPE_CHECKING:
    from playwright.sync_api import Browser

ROUNDS = 5
# When each thing was first there in milliseconds since the request, the longest task of the page
# (what the browser itself does is part of it), and the longest part of it that is the page's own.
_WATCH = """
window.seen = {}; window.longest = {task: 0, script: 0};
new PerformanceObserver(list => {
  for (const task of list.getEntries()) longest.task = Math.max(longest.task, task.duration);
}).observe({type: 'longtask', buffered: true});
const frame = requestAnimationFrame;
window.requestAnimationFrame = act => frame(at => {
  const began = performance.now();
  act(at);
  longest.script = Math.max(longest.script, performance.now() - began);
});
const look = () => {
  if (!seen.headline && document.querySelector('h1')) seen.headline = performance.now();
  const picture = document.querySelector('.nn-picture');
  const fleet = document.querySelector('.nn-fleet');
  if (fleet || (picture && +picture.dataset.points > 0)) seen.picture = performance.now();
  else frame(look);
};
frame(look);
"""
_SETTLED = "() => new Promise(done => requestAnimationFrame(() => setTimeout(done, 100)))"
_READ = "() => NN.state.picture && NN.state.picture.provider.done"


def opened(path: Path) -> dict[str, float]:
    """Return seconds and milliseconds, each the least of some rounds; NotMeasured if there is none.

    The least of several is what the page needs: whatever else runs on the machine adds to it.
    """
    with chromium() as browser:
        if browser is None:
            raise NotMeasured("there is no Chromium, or no playwright")
        rounds = np.array([_round(browser, path) for _ in range(ROUNDS)])
    names = ("headline, s", "picture, s", "own task, ms", "any task, ms", "own zooming, ms")
    found = dict(zip(names, rounds.min(axis=0).tolist(), strict=True))
    return {name: value for name, value in found.items() if value}  # an overview has no picture


def _round(browser: Browser, path: Path) -> tuple[float, ...]:
    context = browser.new_context(viewport={"width": 1440, "height": 900}, offline=True)
    page = context.new_page()
    page.add_init_script(_WATCH)
    page.goto(path.as_uri())
    page.wait_for_function("() => seen.picture")
    page.evaluate(_READ)
    page.evaluate(_SETTLED)
    headline, picture = page.evaluate("[seen.headline / 1000, seen.picture / 1000]")
    own, task = page.evaluate("[longest.script, longest.task]")
    page.evaluate("() => { longest.script = 0; }")
    for key in "+++---":
        page.keyboard.press(key)
        page.evaluate(_SETTLED)
    zooming = page.evaluate("longest.script")
    context.close()
    return headline, picture, own, task, zooming
