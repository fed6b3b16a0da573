"""`newnormal fleet`: the folder of a fleet, and its streams one by one."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from newnormal.cli.console import FAILED, put, say
from newnormal.cli.help import Command
from newnormal.cli.options import Classes, Stream, argument, is_fleet, option, with_shared
from newnormal.cli.reading import load, load_fleet
from newnormal.errors import StateError
from newnormal.texts import shown

if TYPE_CHECKING:
    from newnormal.fleet import Fleet

fleet_app = typer.Typer(help="Check the folder of a fleet; take streams out and put them in.")

Folder = Annotated[
    Path, typer.Argument(metavar="FOLDER", help="A fleet, written by `newnormal fit --by`.")
]


@fleet_app.command(cls=Command)
@with_shared
def check(
    folder: Folder,
    repair: bool = option(
        "Repair it; what is taken away goes to FOLDER/damaged.", "--repair", default=False
    ),
    *,
    classes: Classes,
) -> None:
    """Verify every file of a fleet, and say what a repair would do.

    In the folder of a `watch` or of a service these are the detectors; `newnormal serve verify`
    verifies its log and its store as well.
    """
    from newnormal.fleet.folder.check import check as verify
    from newnormal.fleet.folder.names import files_of

    model, threshold = classes
    report = verify(files_of(folder), repair=repair, model=model, threshold=threshold)
    put(str(report))
    if not report.ok:
        sys.exit(FAILED)


@fleet_app.command(cls=Command)
@with_shared
def extract(
    folder: Folder,
    stream: Stream,
    output: Path = option(
        "Where the detector goes.", "--output", "-o", metavar="FILE", default=...
    ),
    *,
    classes: Classes,
) -> None:
    """Write one stream as an ordinary state file; it stays in the fleet."""
    from newnormal import state as state_file

    state_file.check_target(output)
    load_fleet(folder, classes).take_out(stream, output)
    say(f"wrote {output}")


@fleet_app.command(cls=Command)
@with_shared
def insert(
    folder: Folder,
    stream: Stream,
    state: Path = argument(
        "A detector's file, of `fit` or `extract`.", metavar="STATE", default=...
    ),
    *,
    classes: Classes,
) -> None:
    """Add a stream from an ordinary state file; it goes on from where that is."""
    detector = load(state, classes)
    with _changed(folder, classes) as fleet:
        fleet.add(stream, detector)
    say(f"added {shown(stream)} to {shown(folder)}: {len(fleet):,} streams")


@fleet_app.command(cls=Command)
@with_shared
def remove(folder: Folder, stream: Stream, *, classes: Classes) -> None:
    """Remove a stream. `extract` keeps it."""
    with _changed(folder, classes) as fleet:
        fleet.remove(stream)
    say(f"removed {shown(stream)} from {shown(folder)}: {len(fleet):,} streams")


@contextmanager
def _changed(folder: Path, classes: Classes) -> "Iterator[Fleet]":
    """Read a fleet, and write it once its streams were changed."""
    from newnormal.engine.folder import is_engine_folder

    if not is_fleet(folder) or is_engine_folder(folder):
        raise StateError(
            f"{folder}: expected the folder of a fleet, found none",
            hint="`newnormal fit HISTORY --by COLUMN -o FOLDER` makes one; `newnormal put` changes "
            "the streams of a service",
        )
    fleet = load_fleet(folder, classes)
    yield fleet
    fleet.save(folder)
