"""``python -m tests.soak``: run the tests marked `slow` in full and write docs/soak.md.

A long test tells how many cases it ran with ``record_property("cases", number)``, and what it found
with ``record_property("found", text)``; the rest is measured here. With some of the tests, their
rows of the page are written anew. A share of the full counts, ``--share 0.1``, writes no page.
"""

import argparse
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pytest

from benchmarks.machine import facts

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "soak.md"
_HEAD = """\
<!-- Written by `make soak`; do not edit. -->

# Long tests, in full

`make soak` runs the tests marked `slow` with their full counts; `make test` and `.ci/run` run the
same tests with few cases. A case that fails is named with the command that repeats it.

"""


@dataclass
class Figure:
    """What one test came to."""

    name: str
    cases: int | None = None
    seconds: float = 0.0
    outcome: str = "passed"
    found: str = ""
    date: str = field(default_factory=lambda: f"{datetime.now(UTC):%Y-%m-%d}")


class Figures:
    """Gathers the figures while pytest runs."""

    def __init__(self) -> None:
        self.found: dict[str, Figure] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        name = report.nodeid.removeprefix("tests/").partition("@")[0]
        figure = self.found.setdefault(name, Figure(name))
        figure.seconds += report.duration
        for key, value in report.user_properties:
            if key == "cases" and isinstance(value, int):
                figure.cases = value
            if key == "found":
                figure.found = str(value)
        if hasattr(report, "wasxfail"):
            figure.outcome = f"fails as expected: {report.wasxfail}" if report.skipped else "passed"
        elif report.outcome != "passed":
            figure.outcome = report.outcome


def page(figures: Sequence[Figure], machine: dict[str, str]) -> str:
    """Return the page: a table of the tests, and what they ran on."""
    failures = sum(figure.outcome == "failed" for figure in figures)
    rows = "".join(
        f"| `{figure.name}` | {'' if figure.cases is None else f'{figure.cases:,}'} "
        f"| {figure.seconds:,.0f} | {figure.date} | {figure.outcome}"
        f"{figure.found and f': {figure.found}'} |\n"
        for figure in figures
    )
    cases = sum(figure.cases or 0 for figure in figures)
    seconds = sum(figure.seconds for figure in figures)
    return (
        f"{_HEAD}{len(figures)} tests, {cases:,} cases, {seconds:,.0f} s, {failures} failures.\n\n"
        f"| test | cases | seconds | date | result |\n|---|---:|---:|---|---|\n{rows}\n"
        "## The machine of the last run\n\n| | |\n|---|---|\n"
        + "".join(f"| {key} | {text} |\n" for key, text in machine.items())
    )


def rows_of(text: str) -> list[Figure]:
    """Return the figures that a page holds."""
    found = []
    for row in re.findall(r"^\| `(.+)` \| (.*) \| (.+) \| (.+) \| (.+) \|$", text, re.MULTILINE):
        name, cases, seconds, date, result = row
        number = int(cases.replace(",", "")) if cases else None
        outcome, _, note = result.partition(": ")
        found.append(Figure(name, number, float(seconds.replace(",", "")), outcome, note, date))
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the long tests and return pytest's exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--share", type=float, default=1.0, help="of the full counts")
    parser.add_argument(
        "--minutes", type=float, default=60.0, help="of load on the service, times the share"
    )
    parser.add_argument("tests", nargs="*", help="some of the tests; the rows of the others stay")
    options = parser.parse_args(arguments)
    os.environ["NEWNORMAL_SOAK"] = str(options.share)
    os.environ["NEWNORMAL_SOAK_MINUTES"] = str(options.minutes)
    machine = facts()
    figures = Figures()
    chosen = options.tests or [str(ROOT / "tests")]
    code = pytest.main(["-m", "slow", "-q", "--durations=0", *chosen], plugins=[figures])
    found = [figures.found[name] for name in sorted(figures.found)]
    for figure in found:
        cases = "" if figure.cases is None else f"{figure.cases} cases, "
        print(f"{figure.name}: {cases}{figure.seconds:.0f} s, {figure.outcome}")
    if options.share >= 1:
        measured = {figure.name for figure in found}
        kept = rows_of(PAGE.read_text(encoding="utf-8")) if options.tests else []
        found += [figure for figure in kept if figure.name not in measured]
        found.sort(key=lambda figure: figure.name)
        PAGE.write_text(page(found, machine), encoding="utf-8")
        print(f"wrote {PAGE}", file=sys.stderr)
    return int(code)


if __name__ == "__main__":
    sys.exit(main())
