"""`newnormal fit` of many streams: a fleet out, in a folder."""

import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from newnormal.cli.bars import stream_progress
from newnormal.cli.console import FAILED, say
from newnormal.cli.streams import stream_text
from newnormal.errors import InputError, StateError

if TYPE_CHECKING:
    from newnormal.base import BaseDetector
    from newnormal.fleet import Fleet
    from newnormal.tabular import StreamTables


def fit_fleet(
    detector: "BaseDetector",
    tables: "StreamTables",
    output: Path,
    fleet_alarms_per_day: float | None,
    workers: int | None,
) -> None:
    """Fit a fleet and write it; exit with a failure at the end if a stream could not be fitted."""
    from newnormal.checks import check_streams, summary_of
    from newnormal.fleet import Fleet

    count = len(tables.tables) + len(tables.errors)
    samples = sum(len(table.values) for table in tables.tables.values())
    for line in summary_of(check_streams(tables, detector=detector)).lines():
        say(line)
    say(f"fitting {count:,} streams on {samples:,} samples ...")
    fleet = Fleet(detector, fleet_alarms_per_day=fleet_alarms_per_day, workers=workers)
    with warnings.catch_warnings(), stream_progress() as on_progress:
        # Every stream that failed is named below.
        warnings.filterwarnings("ignore", message=r"\d+ of \d+ streams could not be fitted")
        try:
            fleet.fit(tables, on_progress=on_progress)
        except InputError:
            _report_failures(fleet)
            raise
    fleet.save(output)
    _report_failures(fleet)
    failed = len(fleet.failures_)
    say(
        f"wrote {output}: {len(fleet):,} of {count:,} streams"
        f"{f'; {failed:,} could not be fitted' if failed else ''}\n"
        f"next: newnormal watch {output} LIVE.csv"
    )
    if failed:
        sys.exit(FAILED)


def _report_failures(fleet: "Fleet") -> None:
    """Name each stream that could not be fitted, and why."""
    for name, error in fleet.failures_.items():
        say(f"error: {stream_text(name)}: {error.message}")


def check_folder(output: Path) -> None:
    """Raise a StateError if a fleet cannot be written there: before it is fitted."""
    from newnormal.fleet.folder.names import MANIFEST
    from newnormal.state import targets

    if output.is_dir() and any(output.iterdir()) and not (output / MANIFEST).exists():
        raise StateError(
            f"cannot write {output}: expected a new folder or that of a fleet, "
            "found a folder with other files",
            hint="choose another name",
        )
    if output.exists() and not output.is_dir():
        raise StateError(
            f"cannot write {output}: expected a folder, found a file",
            hint="a fleet is a folder: choose another name",
        )
    if not output.parent.is_dir():  # not made: its name may be a slip
        raise StateError(
            f"cannot write {output}: found no folder {output.parent}",
            hint="choose a folder that exists",
        )
    targets.check_folder(output)
