"""``python -m tests.soak``: run the tests marked `cases` in slices, and write docs/soak.md.

Each slice goes on with the number after the test's last one, and is one line of docs/soak.csv when
it has ended: an interruption loses one slice. A test with the smallest part of its goal is next.
Slices that failed on other code are repeated first. It ends when this code has reached all goals.
"""

import argparse
import csv
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout, suppress
from dataclasses import astuple, dataclass, fields
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree as ET

import pytest

from benchmarks.machine import facts

ROOT = Path(__file__).parents[1]
RECORD, PAGE = ROOT / "docs" / "soak.csv", ROOT / "docs" / "soak.md"
LONGEST = 240.0  # s a slice, about
_TOLD = 300  # characters of what is said of a failure
_HEAD = """\
<!-- Written by `make soak`; do not edit. -->

# Long tests

`make soak` runs the long tests in slices. A slice goes on where the last one of its test ended, and
is a line of [soak.csv](soak.csv). `make soak MINUTES=30` stops after half an hour. `make test` and
`.ci/run` run the first few cases of each. "This code" is the tree of `src/newnormal` when the page
was written (`git rev-parse HEAD:src/newnormal`); the other cases ran on earlier code.

"""


class Goal(NamedTuple):
    """How many cases a test runs by default and in full; `whole`: all of them at once."""

    small: int
    full: int
    whole: bool = False


@dataclass(frozen=True)
class Slice:
    """A line of the record."""

    test: str
    first: int
    cases: int
    seconds: int
    date: str
    code: str
    outcome: str  # passed, failed
    found: str = ""


class Record:
    """The slices that ran, from the file."""

    def __init__(self, path: Path, code: str) -> None:
        self._path, self.code = path, code
        self.slices: list[Slice] = []
        if path.exists():
            with path.open(newline="", encoding="utf-8") as file:
                self.slices += [
                    Slice(test, int(first), int(cases), int(seconds), *rest)
                    for test, first, cases, seconds, *rest in list(csv.reader(file))[1:]
                ]

    def add(self, new: Slice) -> None:
        """Keep a slice."""
        lines = [] if self._path.exists() else [tuple(each.name for each in fields(Slice))]
        with self._path.open("a", newline="", encoding="utf-8") as file:
            csv.writer(file, lineterminator="\n").writerows([*lines, astuple(new)])
        self.slices.append(new)

    def of(self, test: str) -> list[Slice]:
        """Return the newest run of each slice of a test."""
        newest = {each.first: each for each in self.slices if each.test == test}
        return sorted(newest.values(), key=lambda each: each.first)

    def done(self, test: str, *, here: bool = False) -> int:
        """Return how many cases of a test ran, or ran on this code."""
        return sum(s.cases for s in self.of(test) if s.code == self.code or not here)

    def failed(self) -> list[Slice]:
        """Return the slices that did not pass when they last ran."""
        tests = dict.fromkeys(each.test for each in self.slices)
        return [each for test in tests for each in self.of(test) if each.outcome != "passed"]

    def next(self, goals: Mapping[str, Goal], seconds: float) -> tuple[str, range] | None:
        """Return the slice to run next, which takes no longer than so many seconds if known."""
        for each in self.failed():
            if each.test in goals and each.code != self.code and each.seconds < seconds:
                return each.test, range(each.first, each.first + each.cases)
        parts = {
            test: (min(1.0, self.done(test) / goal.full), self.done(test, here=True) / goal.full)
            for test, goal in goals.items()
        }
        for test in sorted(parts, key=parts.__getitem__):
            ran = self.of(test)
            first = ran[-1].first + ran[-1].cases if ran else 0
            size = _size(goals[test], ran, self.done(test), min(seconds, LONGEST))
            cost = size * ran[-1].seconds / ran[-1].cases if ran else 0.0
            if parts[test][1] < 1 and cost <= seconds:
                return test, range(first, first + size)
        return None


def _size(goal: Goal, ran: Sequence[Slice], done: int, seconds: float) -> int:
    """Return how many cases fit into some seconds: not many more than are left, nor too few."""
    if goal.whole:
        return goal.full
    if not ran:
        return goal.small
    fitting = int(seconds * ran[-1].cases / max(1, ran[-1].seconds))
    left = goal.full - done if done < goal.full else goal.full
    return max(goal.small, min(fitting, left))


class _Collected:
    """Gathers the long tests while pytest collects."""

    def __init__(self) -> None:
        self.goals: dict[str, Goal] = {}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            if marker := item.get_closest_marker("cases"):
                name = item.nodeid.removeprefix("tests/")
                self.goals[name] = Goal(*marker.args, **marker.kwargs)


def run(test: str, numbers: range, code: str) -> Slice | None:
    """Run a slice; return what it came to, None where the test is skipped."""
    part = f"{numbers.start}:{numbers.stop}"
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-q", f"--junitxml={report}", f"tests/{test}"]
        environment = {**os.environ, "NEWNORMAL_SLICE": part, "NEWNORMAL_SOAK": "1"}
        with (Path(folder) / "output").open("wb") as output:
            done = subprocess.run(
                command, cwd=ROOT, env=environment, check=False, stdout=output, stderr=output
            )
        text = report.read_text(encoding="utf-8") if report.exists() else ""
    outcome, found = read_report(text, done.returncode)
    seconds, date = round(time.monotonic() - began), f"{datetime.now(UTC):%Y-%m-%d}"
    if outcome == "skipped":
        return None
    return Slice(test, numbers.start, len(numbers), seconds, date, code, outcome, found)


def read_report(text: str, code: int) -> tuple[str, str]:
    """Return the outcome of a test and what it found, from pytest's report and exit code."""
    if not text:
        return "failed", f"pytest ended with exit code {code}, without a report"
    root = ET.fromstring(text)
    for kind in ("failure", "error", "skipped"):
        for node in root.iter(kind):
            told = " ".join(f"{node.get('message')}".split())[:_TOLD]
            return ("skipped" if kind == "skipped" else "failed"), told
    named = (each for each in root.iter("property") if each.get("name") == "found")
    return "passed", "; ".join(f"{each.get('value')}" for each in named)


def page(record: Record, goals: Mapping[str, Goal], machine: Mapping[str, str]) -> str:
    """Return the page: a row of each test, the slices that failed, and the machine."""
    table = ""
    for test in sorted({each.test for each in record.slices}):
        ran, done, now = record.of(test), record.done(test), record.done(test, here=True)
        goal = f"{goals[test].full:,}" if test in goals else "ended"
        newest = max(ran, key=lambda each: each.date)
        table += f"| `{test}` | {done:,} | {goal} | {now:,} | {sum(s.seconds for s in ran):,} "
        table += f"| {newest.date} | {newest.found if newest.outcome == 'passed' else ''} |\n"
    failed = record.failed()
    text = f"{_HEAD}This code is `{record.code}`. {len(failed)} slices failed.\n\n"
    text += "| test | cases | goal | this code | seconds | last | found |\n"
    text += f"|---|---:|---:|---:|---:|---|---|\n{table}"
    if failed:
        text += "\n## Failures\n\n```text\n"
        for each in failed:
            part = f"{each.first}:{each.first + each.cases}"
            text += f"# {each.date}, {each.code}: {each.found}\n"
            text += f"NEWNORMAL_SLICE={part} .venv/bin/python -m pytest 'tests/{each.test}'\n"
        text += "```\n"
    text += "\n## The machine of the last run\n\n| | |\n|---|---|\n"
    return text + "".join(f"| {key} | {value} |\n" for key, value in machine.items())


def code_now() -> str:
    """Return the tree of the code, with a plus where it has changes that are not committed."""

    def git(*arguments: str) -> str:
        done = subprocess.run(["git", *arguments], cwd=ROOT, check=True, stdout=subprocess.PIPE)
        return done.stdout.decode().strip()

    changed = git("status", "--porcelain", "--", "src/newnormal")
    return git("rev-parse", "--short=10", "HEAD:src/newnormal") + ("+" if changed else "")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run slices until the goals are reached or the time is over; 1 if any slice stands failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no slice later")
    parser.add_argument("tests", nargs="*", default=["tests"], help="files or tests; all if none")
    options = parser.parse_args(arguments)
    end = time.monotonic() + 60 * options.minutes
    machine, record, collected = facts(), Record(RECORD, code_now()), _Collected()
    marked = [
        f"{path}"
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        if "\n@pytest.mark.cases(" in path.read_text(encoding="utf-8")
    ]
    with redirect_stdout(StringIO()) as told:
        code = pytest.main(["--collect-only", *marked], plugins=[collected])
    if code:
        raise SystemExit(told.getvalue())
    chosen = {
        test: goal
        for test, goal in collected.goals.items()
        if any(f"tests/{test}".startswith(each) for each in options.tests)
    }

    def write() -> None:
        PAGE.write_text(page(record, collected.goals, machine), encoding="utf-8")

    write()
    with suppress(KeyboardInterrupt):
        while (left := end - time.monotonic()) > 0 and (following := record.next(chosen, left)):
            test, numbers = following
            print(f"{datetime.now(UTC):%H:%M:%S} {test} {numbers.start:,} to {numbers.stop:,}")
            sys.stdout.flush()
            if (ran := run(test, numbers, record.code)) is None:
                print("  skipped")
                del chosen[test]
                continue
            print(f"  {ran.seconds} s, {ran.outcome} {ran.found}", flush=True)
            record.add(ran)
            write()
    return int(any(each.test in collected.goals for each in record.failed()))


if __name__ == "__main__":
    sys.exit(main())
