"""What a benchmark returns, and the one place that prints it and writes it down."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

Figure: TypeAlias = float | str


class NotMeasured(Exception):  # noqa: N818 - not an error: the row says why and the run goes on
    """Something could not be measured here; the message says why."""


@dataclass(frozen=True)
class Target:
    """What one figure of a row should reach."""

    figure: str
    limit: float
    at_least: bool = False

    @property
    def text(self) -> str:
        """The target in words."""
        return f"at {'least' if self.at_least else 'most'} {number(self.limit)}"

    def met_by(self, value: Figure) -> bool:
        """Whether the measured value reaches the target."""
        measured = float(value)
        return measured >= self.limit if self.at_least else measured <= self.limit


@dataclass(frozen=True)
class Row:
    """One measured thing: its figures by column, in the order they are shown."""

    name: str
    figures: Mapping[str, Figure] = field(default_factory=dict)
    target: Target | None = None
    skipped: str | None = None  # why there are no figures

    @property
    def met(self) -> bool | None:
        """Whether the target was met; None where there is none, or nothing to hold against it."""
        if self.target is None or self.target.figure not in self.figures:
            return None
        return self.target.met_by(self.figures[self.target.figure])


@dataclass(frozen=True)
class Section:
    """One table, and what a reader must know before looking at it."""

    title: str
    notes: Sequence[str]  # paragraphs
    of: str  # what the rows are: the first column's heading
    rows: Sequence[Row]


def number(value: Figure) -> str:
    """Return a figure with as many digits as mean something.

    >>> [number(v) for v in (1234.5, 99.44, 0.4249, 7.5e-6, "yes")]
    ['1,234', '99.4', '0.425', '8e-06', 'yes']
    """
    if isinstance(value, str):
        return value
    if value != 0 and abs(value) < 1e-3:
        return f"{value:.0e}"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def to_text(section: Section) -> str:
    """Return a section as a table for the terminal."""
    header, lines = _table(section)
    widths = [max(map(len, column)) for column in zip(header, *lines, strict=True)]
    shown = [
        "  ".join(
            [line[0].ljust(widths[0])]
            + [cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True)]
        ).rstrip()
        for line in (header, *lines)
    ]
    rule = "-" * max(map(len, shown))
    return "\n".join([section.title, rule, *shown, *_reasons(section)])


_ABOUT = "How fast newnormal is, beside the plainest PyTorch that does the same work."


def to_markdown(
    sections: Sequence[Section],
    facts: Mapping[str, str],
    caveats: Sequence[str],
    command: str,
    *,
    of: str = "",
    about: str = _ABOUT,
) -> str:
    """Return the page: caveats, the machine, then each section with its notes before its table.

    Parameters
    ----------
    of
        What was measured, for the title; newnormal itself if it is empty.
    about
        The sentence that says what the figures are.
    """
    parts = [
        f"# Benchmarks of {of}" if of else "# Benchmarks",
        f"<!-- Written by `{command}`; run it again rather than edit this. -->",
        f"{about} Everything here was measured in one run of `{command}`.",
        "## Before you read the numbers",
        "\n".join(f"- {caveat}" for caveat in caveats),
        "\n".join(["| | |", "|---|---|", *(f"| {key} | {text} |" for key, text in facts.items())]),
    ]
    for section in sections:
        parts += [f"## {section.title}", *section.notes]
        header, lines = _table(section)
        lines = [[*line[:-1], "**no**" if line[-1] == "no" else line[-1]] for line in lines]
        ruler = ["---", *["---:"] * (len(header) - 1)]
        parts.append("\n".join("| " + " | ".join(line) + " |" for line in (header, ruler, *lines)))
        if reasons := _reasons(section):
            parts.append("\n".join(f"- {reason}" for reason in reasons))
    return "\n\n".join(part for part in parts if part) + "\n"


def summary(sections: Sequence[Section]) -> str:
    """Return how many targets were met, and which were not."""
    held = [(section, row) for section in sections for row in section.rows if row.met is not None]
    missed = [f"{section.title}: {row.name}" for section, row in held if not row.met]
    text = f"{len(held) - len(missed)} of {len(held)} targets met"
    return text + "".join(f"\n  missed: {name}" for name in missed)


def _table(section: Section) -> tuple[list[str], list[list[str]]]:
    columns = list(dict.fromkeys(column for row in section.rows for column in row.figures))
    with_targets = any(row.target for row in section.rows)
    header = [section.of, *columns, *(["target", "met"] if with_targets else [])]
    lines = []
    for row in section.rows:
        line = [row.name, *(number(row.figures.get(column, "")) for column in columns)]
        if with_targets:
            line.append(row.target.text if row.target else "")
            line.append({True: "yes", False: "no", None: ""}[row.met])
        lines.append(line)
    return header, lines


def _reasons(section: Section) -> list[str]:
    return [f"{row.name}: not measured: {row.skipped}" for row in section.rows if row.skipped]
