"""Copy all that a service keeps, while it runs, and put a copy back when it is stopped."""

import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from newnormal.engine.database import database_errors, open_to_read
from newnormal.engine.store.checking import FLEET, LOG, MODELS, STORE, FolderReport, check
from newnormal.errors import StateError
from newnormal.fleet.folder.lock import FolderLock, InUseError
from newnormal.fleet.folder.manifest import Manifest
from newnormal.fleet.folder.names import is_ours
from newnormal.fleet.folder.recovery import consistent
from newnormal.fleet.folder.writer import leftovers
from newnormal.state.files import sync_folder

_TRIES = 3  # two checkpoints of the service while one copy is made need another try
_PARTS = (LOG, STORE, FLEET, MODELS)


def backup(folder: Path, target: Path) -> FolderReport:
    """Copy the folder of a service, which may be running, and return the report of the copy.

    The target is a folder that is not there yet; it appears once the copy is whole.
    """
    if not (folder / STORE).is_file() or not (folder / LOG).is_file():
        raise StateError(
            f"expected the folder of a service, found no {STORE} or no {LOG} in {folder}",
            hint="give the folder that `newnormal serve` keeps its data in",
        )
    if target.exists():
        raise StateError(f"{target} is there already", hint="choose another name for the copy")
    for last in range(_TRIES):
        with _beside(target) as copy:
            _copy(folder, copy)
            report = check(copy)
            if report.ok:
                os.replace(copy, target)
                sync_folder(target.parent)
                report.folder = target
                return report
        if last == _TRIES - 1:
            raise StateError(
                f"the copy of {folder} cannot be used: {report.problems[0]}",
                hint=f"newnormal serve verify {folder} says whether the original is damaged",
            )
    raise AssertionError


def restore(folder: Path, source: Path, *, overwrite: bool = False) -> FolderReport:
    """Put a copy that `backup` made in the place of what a stopped service has; return its report.

    The copy is verified first, and stays as it is. With `overwrite`, what the folder has is moved
    to a folder in there, ``before-restore-1`` or a higher number.
    """
    report = check(source)
    if not report.ok:
        raise StateError(
            f"the copy {source} cannot be used: {report.problems[0]}",
            hint=f"newnormal serve verify {source} lists all of it",
        )
    folder.mkdir(parents=True, exist_ok=True)
    old = [path for part in _PARTS for path in sorted(folder.glob(f"{part}*"))]
    if old and not overwrite:
        raise StateError(
            f"{folder} holds the data of a service already",
            hint="--overwrite moves them to a folder in there",
        )
    try:
        lock = FolderLock(folder).acquire()
    except InUseError as error:
        raise StateError(
            f"a service is running in {folder}", hint="stop it, then restore"
        ) from error
    try:
        with _beside(folder / "restored") as copy:
            _copy(source, copy)
            if old:
                kept = _free_name(folder)
                kept.mkdir(mode=0o700)
                for path in old:
                    os.replace(path, kept / path.name)
            for path in sorted(copy.iterdir()):
                os.replace(path, folder / path.name)
            sync_folder(folder)
    finally:
        lock.release()
    report.folder = folder
    return report


@contextmanager
def _beside(target: Path) -> Iterator[Path]:
    """Give an empty folder on the same disk, and remove it if it is still there afterwards."""
    made = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        shutil.rmtree(made, ignore_errors=True)
        made.mkdir(mode=0o700, parents=True)
        yield made
    except OSError as error:
        raise StateError(
            f"cannot write {target}: {error.strerror or error}",
            hint="choose a folder that can be written to, on a disk with room",
        ) from error
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _free_name(folder: Path) -> Path:
    number = 1
    while (folder / f"before-restore-{number}").exists():
        number += 1
    return folder / f"before-restore-{number}"


def _copy(folder: Path, target: Path) -> None:
    """Copy everything: detectors first, which count on the store, and the log behind both.

    The log has all that came after the others; models come last, as each is on the disk before the
    log has it.
    """
    if (folder / FLEET).is_dir() and any((folder / FLEET).iterdir()):
        consistent(folder / FLEET, lambda manifest: _copy_fleet(folder, target, manifest))
    _copy_database(folder / STORE, target / STORE)
    _copy_database(folder / LOG, target / LOG)
    (target / MODELS).mkdir()
    if (folder / MODELS).is_dir():
        for path in sorted((folder / MODELS).glob("*.nn")):
            with suppress(FileNotFoundError):  # its stream was removed meanwhile
                _copy_file(path, target / MODELS / path.name)
    sync_folder(target / MODELS)
    sync_folder(target)


def _copy_fleet(folder: Path, target: Path, manifest: Manifest) -> None:
    """Copy the files that a manifest names, and it; a file that is gone is a FileNotFoundError."""
    shutil.rmtree(target / FLEET, ignore_errors=True)
    (target / FLEET).mkdir()
    needless = {path.name for path in leftovers(folder / FLEET, manifest)}
    for path in sorted((folder / FLEET).iterdir()):
        if is_ours(path.name) and path.name not in needless and path.suffix != ".tmp":
            _copy_file(path, target / FLEET / path.name)
    manifest.write(target / FLEET)
    sync_folder(target / FLEET)


def _copy_file(source: Path, target: Path) -> None:
    shutil.copyfile(source, target)
    with target.open("rb") as file:
        os.fsync(file.fileno())


def _copy_database(source: Path, target: Path) -> None:
    """Copy a database as it is at one moment, also while it is written to."""
    with (
        closing(open_to_read(source)) as reader,
        database_errors(target),
        closing(sqlite3.connect(target, isolation_level=None)) as writer,
    ):
        target.chmod(0o600)
        reader.backup(writer)
        # One file, which can be read also where nothing can be written.
        writer.execute("PRAGMA journal_mode=DELETE").fetchall()
    with target.open("rb") as file:
        os.fsync(file.fileno())
