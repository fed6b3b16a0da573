"""Time the page of a report in a real browser: a million samples of five channels.

::

    python -m benchmarks.report_page [SAMPLES]

Prints the size of the page, how long it takes until the headline and the picture are seen and all
samples are read, and the longest time for which the page does not react. It needs playwright and
Chromium.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.browser import chromium
from newnormal.reports.writing import page_of
from newnormal.types import Observed, Timeline, Verdicts

if TYPE_CHECKING:
    from playwright.sync_api import Browser

__all__ = ["main", "noisy_run"]

ROUNDS = 5
CHANNELS = 5
_LIMIT = 2.0  # seconds, until a million samples are seen

# When each thing was first there, in milliseconds since the start of the page.
_WATCH = """
window.seen = {}; window.longest = 0;
new PerformanceObserver(list => {
  for (const task of list.getEntries()) longest = Math.max(longest, task.duration);
}).observe({type: 'longtask', buffered: true});
const look = () => {
  if (!seen.headline && document.querySelector('h1')) seen.headline = performance.now();
  const picture = document.querySelector('.nn-picture');
  if (picture && +picture.dataset.points > 0) seen.picture = performance.now();
  else requestAnimationFrame(look);
};
requestAnimationFrame(look);
"""


def noisy_run(samples: int, seed: int = 0) -> Timeline:
    """Return a run of noise, which no compression makes small."""
    rng = np.random.default_rng(seed)
    expected = 20 + rng.normal(0, 1, (samples, CHANNELS))
    values = expected + rng.normal(0, 0.4, expected.shape)
    scores = rng.gamma(2, 0.1, samples)
    times = np.datetime64("2026-01-01", "ns") + np.arange(samples) * np.timedelta64(1, "s")
    verdicts = Verdicts(
        scores=scores,
        thresholds=np.ones(samples),
        anomalous=scores >= 1,
        expected=expected,
        shares=None,
        times=times,
        channels=tuple(f"sensor {k + 1}" for k in range(CHANNELS)),
        observed=Observed(values, np.ones(CHANNELS)),
    )
    return Timeline.of(verdicts, "noise")


def main(arguments: list[str] | None = None) -> int:
    """Print the measures; return 1 where a page takes longer than it may."""
    given = sys.argv[1:] if arguments is None else arguments
    samples = int(given[0]) if given else 1_000_000
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        if browser is None:
            print("expected playwright and Chromium, found none", file=sys.stderr)
            return 2
        path = Path(folder) / "report.html"
        path.write_text(page_of(noisy_run(samples), name="noise"), encoding="utf-8")
        print(f"{samples:,} samples of {CHANNELS} channels: {path.stat().st_size / 1e6:.1f} MB")
        rounds = np.array([_measure(browser, path) for _ in range(ROUNDS)])
    names = ("headline", "picture", "all samples read", "longest task")
    for name, best, middle in zip(
        names, rounds.min(axis=0), np.median(rounds, axis=0), strict=True
    ):
        print(f"{name:<18} {best:6.0f} ms at best {middle:6.0f} ms in the middle")
    return int(rounds[:, 1].min() > 1_000 * _LIMIT)


def _measure(browser: Browser, path: Path) -> tuple[float, float, float, float]:
    context = browser.new_context(viewport={"width": 1440, "height": 900}, offline=True)
    page = context.new_page()
    page.add_init_script(_WATCH)
    page.goto(path.as_uri())
    page.wait_for_function("() => seen.picture")
    page.evaluate("() => NN.state.picture.provider.done")
    headline, picture, read, longest = page.evaluate(
        "[seen.headline, seen.picture, performance.now(), longest]"
    )
    context.close()
    return headline, picture, read, longest


if __name__ == "__main__":
    sys.exit(main())
