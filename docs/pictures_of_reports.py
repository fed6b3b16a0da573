"""Write the pictures of reports in docs/img, in a real browser.

::

    NEWNORMAL_DATA=FOLDER python docs/pictures_of_reports.py            all of them
    NEWNORMAL_DATA=FOLDER python docs/pictures_of_reports.py FOLDER     into another folder

Each is a page that `newnormal fit` and `newnormal report` make, as anybody would: a valve of SKAB,
the taxis of NAB, and 50 generated machines. It needs playwright and Chromium, and some minutes.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.browser import DRAWN, chromium
from benchmarks.machines import write
from docs.pictures import lighten
from newnormal.errors import NewnormalError

if TYPE_CHECKING:
    from playwright.sync_api import Browser

_FOLDER = Path(__file__).parent / "img"
_COLOURS = 255


class Picture(NamedTuple):
    """A picture of a page: its report, the place in it, the size and the theme."""

    report: str
    place: str = ""
    width: int = 1280
    height: int = 860
    dark: bool = False


PICTURES = {
    "report-skab": Picture("skab", height=1000),
    "report-skab-dark": Picture("skab", "#alarm=1", dark=True),
    "report-taxi": Picture("taxi", height=760),
    "report-fleet": Picture("machines"),
    "report-phone": Picture("machines", "#stream=machine-04", 390, 844),
}


def main(arguments: list[str] | None = None) -> int:
    """Write the pictures; return the exit code."""
    given = sys.argv[1:] if arguments is None else arguments
    data = os.environ.get("NEWNORMAL_DATA")
    if not data:
        print("expected the folder of the benchmark data in NEWNORMAL_DATA", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        reports = _reports(Path(data), Path(folder))
        _draw(reports, Path(given[0]) if given else _FOLDER)
    return 0


def _reports(data: Path, folder: Path) -> dict[str, Path]:
    """Fit and report each example, each by two commands."""
    valve = data / "SKAB" / "valve1" / "0.csv"
    labelled = ("--label", "anomaly", "--drop", "changepoint")
    _newnormal("fit", valve, "--rows", "0:400", *labelled, "-o", folder / "skab.nn")
    _newnormal("report", folder / "skab.nn", valve, *labelled, "-o", folder / "skab.html")
    taxi = data / "NAB" / "data" / "realKnownCause" / "nyc_taxi.csv"
    _newnormal("fit", taxi, "--rows", "0:2000", "--alarms-per-day", "0.1", "-o", folder / "taxi.nn")
    _newnormal("report", folder / "taxi.nn", taxi, "-o", folder / "taxi.html")
    write(folder, 50)
    fleet = folder / "machines.fleet"
    _newnormal("fit", folder / "history.csv", "--by", "machine", "-o", fleet)
    _newnormal("report", fleet, folder / "live.csv", "-o", folder / "machines.html")
    return {name: folder / f"{name}.html" for name in ("skab", "taxi", "machines")}


def _newnormal(*arguments: str | Path) -> None:
    print("newnormal", *arguments)
    done = subprocess.run(
        [sys.executable, "-m", "newnormal", *map(str, arguments)],
        check=False,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise NewnormalError(done.stderr)


def _draw(reports: dict[str, Path], folder: Path) -> None:
    with chromium() as browser:
        if browser is None:
            raise NewnormalError("expected playwright and Chromium, found none")
        for name, picture in PICTURES.items():
            path = folder / f"{name}.png"
            _shoot(browser, reports[picture.report], picture, path)
            print(f"wrote {path}: {path.stat().st_size:,} bytes")


def _shoot(browser: Browser, report: Path, picture: Picture, path: Path) -> None:
    context = browser.new_context(
        viewport={"width": picture.width, "height": picture.height},
        color_scheme="dark" if picture.dark else "light",
        offline=True,
    )
    page = context.new_page()
    page.goto(report.as_uri() + picture.place)
    page.wait_for_function(DRAWN)
    page.evaluate("() => NN.state.picture && NN.state.picture.provider.done")
    page.wait_for_function("() => !NN.state.picture || !NN.state.picture.waiting")
    page.screenshot(path=path)
    context.close()
    lighten(path, _COLOURS)


if __name__ == "__main__":
    sys.exit(main())
