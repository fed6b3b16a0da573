"""A finished file, judged: of one stream or of a fleet's. Pictures and reports are made of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from newnormal.cli.bars import progress
from newnormal.cli.compiling import prepare
from newnormal.cli.console import say
from newnormal.cli.fleet_reading import fleet_tables, load_fleet, remembered
from newnormal.cli.options import Classes
from newnormal.cli.reading import load, read_table, say_profile
from newnormal.cli.reading_options import InputOptions
from newnormal.cli.streams import check_one_stream, check_streams, is_fleet, stream_text
from newnormal.errors import InputError

if TYPE_CHECKING:
    from newnormal.base import BaseDetector
    from newnormal.fleet import Fleet, FleetVerdicts
    from newnormal.reports.contents import Contents
    from newnormal.tabular import StreamTables, Table

_STANDARD_INPUT = "-"


class JudgedFile(NamedTuple):
    """The verdicts on a file, its name, and what was read of a fleet's streams."""

    verdicts: Any
    name: str
    tables: StreamTables | None = None
    as_fitted: bool = False  # MODEL had seen these times, and was judged with as it was fitted

    def contents(self, model: Path) -> Contents:
        """Return it as a report shows it."""
        from newnormal.reports.contents import Contents

        how = " as it was fitted" if self.as_fitted else ""
        return Contents.of(self.verdicts, f"{self.name} judged by {model.name}{how}")


def judge_file(
    model: Path, classes: Classes, source: str, options: InputOptions, frozen: bool
) -> JudgedFile:
    """Judge a file, with its labels where it has them; MODEL stays as it is.

    What a `watch` wrote has mostly seen the very file that is to be shown. Times do not come twice,
    so such a file is judged from where MODEL was fitted.
    """
    name = "standard input" if source == _STANDARD_INPUT else Path(source).name
    if is_fleet(model):
        options = options.after(remembered(model))
        check_streams(model, options.streams, source)
        return _fleet(model, classes, source, options, frozen)._replace(name=name)
    check_one_stream(model, options.streams)
    return _stream(model, classes, source, options, frozen)._replace(name=name)


def _stream(
    model: Path, classes: Classes, source: str, options: InputOptions, frozen: bool
) -> JudgedFile:
    """Judge a file of one stream."""
    from newnormal.runtime.judging import judge_series
    from newnormal.types import Observed

    detector = load(model, classes)
    prepare(detector)
    table = _with_labels(
        lambda chosen: read_table(source, chosen, detector.channels_),
        options,
        detector.reading_,
        source,
    )
    say_profile(table.profile)
    say(f"judging {len(table.values):,} samples ...")
    decided = Observed.decided_of(detector.past_)
    again = back_to_fit(model, detector, table, frozen)
    with progress("judging", len(table.values)) as on_samples:
        verdicts = judge_series(detector, table, frozen=frozen, on_samples=on_samples).verdicts
    if verdicts.observed is not None:
        verdicts = replace(verdicts, observed=replace(verdicts.observed, decided=decided))
    return JudgedFile(verdicts, "", as_fitted=again)


def back_to_fit(model: Path, detector: BaseDetector, table: Table, frozen: bool) -> bool:
    """Bring MODEL back to where it was fitted if it has seen these times; return whether."""
    again = not frozen and _has_seen(detector, table)
    if again:
        _say_again(model)
        detector.reset()
    return again


def _has_seen(detector: BaseDetector, table: Table) -> bool:
    """Whether a detector would take no sample of a table, since their times do not come after."""
    from newnormal.core.times import is_late

    newest = detector.last_time_
    if table.times is None or newest is None:
        return False
    return bool(is_late(table.times[:1], newest).any())


def _say_again(model: Path) -> None:
    say(
        f"{model} has seen these times: they are judged from where it was fitted, without what it "
        "learned and what was accepted since"
    )


def _fleet(
    model: Path, classes: Classes, source: str, options: InputOptions, frozen: bool
) -> JudgedFile:
    """Judge a file of a fleet's streams."""
    fleet = load_fleet(model, classes)
    tables = _with_labels(
        lambda chosen: fleet_tables(fleet, source, chosen), options, remembered(model), source
    )
    if frozen:
        scored = {name: fleet[name].score_frozen(table) for name, table in tables.tables.items()}
        return JudgedFile(scored, "", tables)
    fresh = fleet_back_to_fit(model, fleet, tables)
    verdicts = fresh.run(tables)
    if verdicts.observed is not None:
        decided = fleet.opened(tables.tables, past=True)
        verdicts.observed = replace(verdicts.observed, decided=decided)
    _say_errors(verdicts, tables)
    return JudgedFile(verdicts, "", tables, fresh is not fleet)


def fleet_back_to_fit(model: Path, fleet: Fleet, tables: StreamTables) -> Fleet:
    """Return a fleet whose streams are where they were fitted, if one has seen these times."""
    from newnormal.fleet import Fleet

    if not any(_has_seen(fleet[name], table) for name, table in tables.tables.items()):
        return fleet
    _say_again(model)
    fresh = Fleet(fleet.detector, fleet_alarms_per_day=fleet.fleet_alarms_per_day)
    for name in fleet:
        fresh.add(name, fleet[name].reset())
    return fresh


def _say_errors(verdicts: FleetVerdicts, tables: StreamTables) -> None:
    """Name the streams whose samples were not taken, and count them as left out."""
    for failure in verdicts.errors:
        if failure.stream not in tables.errors:
            tables.errors[failure.stream] = InputError(
                failure.error.message, hint=failure.error.hint
            )
            say(f"error: {stream_text(failure.stream)}: {failure.error.message}; skipped")
    if tables.errors and not any(True for _ in verdicts):
        name, error = next(iter(tables.errors.items()))
        raise InputError(f"no stream can be judged; {name}: {error.message}", hint=error.hint)


def _with_labels(
    read: Callable[[InputOptions], Any],
    options: InputOptions,
    facts: Mapping[str, Any] | None,
    source: str,
) -> Any:
    """Read a file with the labels that history had, too, if this file has them.

    Standard input, which cannot be read twice, is read with the labels that are named alone.
    """
    plain = options.after(facts)
    labelled = options.after(facts, label=True)
    if source == _STANDARD_INPUT or labelled.reading.label == plain.reading.label:
        return read(plain)
    try:
        return read(labelled)
    except InputError:
        return read(plain)
