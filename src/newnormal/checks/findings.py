"""What a check found, what to do about it, and lengths of time in it."""

import shlex
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from newnormal.config import duration_text
from newnormal.texts import seconds_text


def seconds(value: np.timedelta64) -> float:
    """Return a length of time in seconds."""
    return float(value / np.timedelta64(1, "ns")) / 1e9


def length(value: np.timedelta64) -> str:
    """Return a length of time: exact where that is short to read, else in two digits.

    >>> length(np.timedelta64(90, "s")), length(np.timedelta64(1_000_000, "s"))
    ('1m30s', '12 d')
    """
    exact = duration_text(value)
    return exact if len(exact) <= 6 else seconds_text(seconds(value))


Level = Literal["error", "warning", "note"]

LEVELS: tuple[Level, ...] = ("error", "warning", "note")
"""The worst first: `fit` would refuse; it would go on, and the result may be wrong; neither."""

# Of one level, what changes the result most comes first.
_ORDER = (
    *("unreadable", "text", "empty", "infinite", "limit", "label_like", "time_like", "row_number"),
    *("counter_like", "channels_differ", "rate_differs", "bad_lines", "bad_cells", "far_values"),
    *("faults", "out_of_order", "duplicates", "irregular", "gaps", "near_empty", "missing"),
    *("no_times", "short_history", "duplicate_of", "constant", "saturated", "few_values"),
    "reading",
)


@dataclass(frozen=True)
class Finding:
    """One thing that a check found.

    `level`: ``"error"``: `fit` would refuse. ``"warning"``: it would go on, and the result may be
    wrong. ``"note"``: good to know.
    `code`: what it is, in one word for programs, such as ``"label_like"``.
    `channel`: the channel it is about; None: the whole input.
    `sentence`: what was found, for people.
    `option`: what to do: options of the command line, or words where the data came from Python.
    """

    level: Level
    code: str
    channel: str | None
    sentence: str
    option: str | None = None

    @property
    def line(self) -> str:
        """What was found and what to do, in one line.

        >>> Finding("warning", "constant", "a", "'a' is constant", "--drop a").line
        "'a' is constant: --drop a"
        """
        return self.sentence if self.option is None else f"{self.sentence}: {self.option}"

    def as_dict(self) -> dict[str, Any]:
        """Return it as values of JSON."""
        return asdict(self)


def worst_first(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return findings by level, and by how much each kind changes the result."""

    def order(finding: Finding) -> tuple[int, int]:
        known = finding.code in _ORDER
        return LEVELS.index(finding.level), _ORDER.index(finding.code) if known else len(_ORDER)

    return tuple(sorted(findings, key=order))


@dataclass(frozen=True)
class Remedies:
    """What a user can do: options of the command line for files, words for data in Python.

    >>> Remedies(shell=True).label("is bad")
    "--label 'is bad' or --drop 'is bad'"
    """

    shell: bool

    def drop(self, name: str) -> str:
        """Leave a column out."""
        return f"--drop {shlex.quote(name)}" if self.shell else f"leave out {name!r}"

    def label(self, name: str) -> str:
        """Take a column for the labels, or leave it out."""
        if not self.shell:
            return self.drop(name)
        return f"--label {shlex.quote(name)} or {self.drop(name)}"

    def rate(self, name: str) -> str:
        """Take the differences of a counter."""
        return f"--rates {shlex.quote(name)}" if self.shell else f"pass the differences of {name!r}"

    def time(self, name: str) -> str:
        """Take a column for the time."""
        return f"--time {shlex.quote(name)}" if self.shell else f"pass times={name!r}"

    def missing(self, word: str) -> str:
        """Take a word for a missing value."""
        return f"--na={shlex.quote(word)}" if self.shell else f"write NaN for {word}"

    def leave_out(self) -> str:
        """Leave faults out of history."""
        other = ", or take others by --rows, --from, --until" if self.shell else ""
        return f"write NaN there unless it is normal{other}"

    def resample(self, period: str) -> str:
        """Bring samples to a period."""
        return f"--resample {period}" if self.shell else f"resample the data to {period}"

    def period(self) -> str:
        """Name the time between samples."""
        return "--period TIME" if self.shell else "pass times=, or Detector(period=...)"

    def set(self, option: str, value: str) -> str:
        """Give an option of the detector."""
        spelled = option.replace("_", "-")
        return f"--{spelled} {value}" if self.shell else f"pass {option}={value}"

    def sort(self) -> str | None:
        """Put samples in order."""
        return None if self.shell else "sort the samples by time and keep one a time"
