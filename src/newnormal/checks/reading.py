"""What was found while a file was read."""

from __future__ import annotations

from newnormal.checks.facts import InputFacts
from newnormal.checks.findings import Finding, Level, Remedies
from newnormal.checks.texts import shown
from newnormal.tabular import InputProfile

# What notes of these two have in them.
DUPLICATE, LATE = "the time of another", "out of order"
_TEXT = 0.9  # of a column's cells are no numbers: it is text


def reading_findings(
    found: InputProfile | None, facts: InputFacts, remedies: Remedies
) -> list[Finding]:
    """Return bad lines, bad cells, columns of text, and notes."""
    if found is None:
        return []
    findings = [*_lines(found), *_cells(found, facts, remedies)]
    reported = (DUPLICATE, LATE, found.first_bad or DUPLICATE)  # under codes of their own
    findings += [
        Finding("note", "reading", None, note)
        for note in found.notes
        if not any(each in note for each in reported)
    ]
    return findings


def note_of(found: InputProfile | None, part: str) -> str | None:
    """Return the note with this in it, if there is one."""
    notes = () if found is None else found.notes
    return next((note for note in notes if part in note), None)


def _lines(found: InputProfile) -> list[Finding]:
    if not found.bad_lines:
        return []
    some = "1 line holds" if found.bad_lines == 1 else f"{found.bad_lines:,} lines hold"
    first = "" if found.first_bad is None else f"; the first: {shown(found.first_bad)}"
    of = f", of {found.lines:,}" if found.lines else ""  # a stream's are not counted apart
    sentence = f"{some} no sample{of}{first}"
    return [Finding("warning", "bad_lines", None, sentence)]


def _cells(found: InputProfile, facts: InputFacts, remedies: Remedies) -> list[Finding]:
    findings = []
    missing = {channel.name: channel.missing for channel in facts.channels}
    for name, bad in found.bad_cells.items():
        example = shown(bad.example)
        if bad.count >= _TEXT * facts.samples:
            sentence = f"{name!r} holds text, such as {example!r}"
            refused = missing.get(name, 0) == facts.samples
            level: Level = "error" if refused else "warning"
            findings.append(Finding(level, "text", name, sentence, remedies.drop(name)))
            continue
        some = "1 cell that is" if bad.count == 1 else f"{bad.count:,} cells that are"
        sentence = f"{name!r} has {some} no number, such as {example!r} in line {bad.line}"
        word = example.strip()
        option = remedies.missing(word) if word and "," not in word else None
        findings.append(Finding("warning", "bad_cells", name, sentence, option))
    return findings
