"""Verify all that a service keeps: its log, store, detectors and models. It may be running."""

import json
import sqlite3
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from pathlib import Path

from newnormal.engine.database import Mark, checksum, database_errors, open_to_read
from newnormal.engine.log.entries import FitTaken, unpack
from newnormal.engine.log.sqlite_log import LOG_MIGRATIONS, read_trimmed, record_crc
from newnormal.engine.store.connection import SEALED, damage_text, is_intact, reached, selected
from newnormal.engine.store.levels import BLOCK, complete, covers
from newnormal.engine.store.schema import MIGRATIONS
from newnormal.engine.store.stream_reader import unpack_block
from newnormal.errors import NewnormalError, StateError
from newnormal.fleet.folder.check import check as check_fleet
from newnormal.fleet.folder.manifest import read_manifest
from newnormal.state.codec import read as read_state

LOG, STORE, FLEET, MODELS = "log.sqlite", "store.sqlite", "fleet", "models"
_TRIES = 3  # a service that runs may go on from one file to the next
_NAMED = 20  # problems of one kind that are listed


@dataclass
class FolderReport:
    """What `check` found: how many samples are kept exactly, and problems, each in a sentence."""

    folder: Path
    streams: int = 0
    samples: int = 0
    records: int = 0
    models: int = 0
    problems: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether a service can use the folder, and nothing is lost."""
        return not self.problems

    def __str__(self) -> str:
        lines = [
            f"{self.folder}: {self.streams:,} streams, {self.samples:,} samples,"
            f" {self.records:,} records of the log, {self.models:,} models"
        ]
        lines += self.problems[:_NAMED]
        if len(self.problems) > _NAMED:
            lines.append(f"and {len(self.problems) - _NAMED:,} more problems")
        lines.append("restore a backup" if self.problems else "no problem found")
        return "\n".join(lines)


@dataclass
class _Positions:
    """How far each part is, which must fit together."""

    checkpoints: list[int] = field(default_factory=list)
    known: int = 0  # the newest one that anything has
    first: int = 1
    last: int = 0
    fleet: int = 0


def check(folder: Path) -> FolderReport:
    """Verify every record, block and file of a running service or of a backup; only read it."""
    if not (folder / STORE).is_file() and not (folder / LOG).is_file():
        raise StateError(
            f"expected the folder of a service, found neither {STORE} nor {LOG} in {folder}",
            hint="give the folder that `newnormal serve` keeps its data in",
        )
    for _ in range(_TRIES):
        report = _checked(folder)
        if report.ok:
            break
    return report


def _checked(folder: Path) -> FolderReport:
    report, positions, models = FolderReport(folder), _Positions(), set[str]()
    # In this order: what the log has is newer than what the others count on.
    parts: tuple[Callable[[], None], ...] = (
        lambda: _fleet(folder, report, positions),
        lambda: _store(folder / STORE, report, positions, models),
        lambda: _log(folder / LOG, report, positions, models),
        lambda: _models(folder / MODELS, report, models),
    )
    for verify in parts:
        try:
            verify()
        except NewnormalError as error:
            report.problems.append(error.message)
    if report.ok:
        report.problems += _together(positions)
    return report


def _together(positions: _Positions) -> Iterator[str]:
    if positions.fleet and positions.fleet not in positions.checkpoints:
        yield (
            f"expected the state of the service at position {positions.fleet}, where its detectors"
            f" are, found {', '.join(map(str, positions.checkpoints)) or 'none'}"
        )
    if positions.first > positions.fleet + 1:
        yield (
            f"expected the log from position {positions.fleet + 1} on,"
            f" found it from {positions.first} on"
        )
    newest = max(positions.known, positions.fleet, *positions.checkpoints)
    if positions.last < newest:
        yield f"expected the log up to position {newest} at least, found it up to {positions.last}"


def _database(path: Path, newest: int) -> sqlite3.Connection:
    reader = open_to_read(path)
    try:
        with database_errors(path):
            reader.execute("BEGIN")
            answers = [text for (text,) in reader.execute("PRAGMA integrity_check")]
            if answers != ["ok"]:
                raise StateError(f"{path}: the database is damaged: {'; '.join(answers[:3])}")
            (version,) = reader.execute("SELECT max(version) FROM migrations").fetchone()
            if not 1 <= (version or 0) <= newest:
                raise StateError(f"{path}: expected version 1 to {newest}, found {version}")
    except BaseException:
        reader.close()
        raise
    return reader


def _log(path: Path, report: FolderReport, positions: _Positions, models: set[str]) -> None:
    positions.known = max(positions.known, Mark.read(path))
    with closing(_database(path, len(LOG_MIGRATIONS))) as reader, database_errors(path):
        trimmed = read_trimmed(reader, path)
        positions.first, positions.last = trimmed + 1, trimmed
        rows = reader.execute("SELECT position, crc, record FROM records ORDER BY position")
        for position, crc, record in rows:
            if position != positions.last + 1:
                missing = f"{positions.last + 1} to {position - 1}"
                report.problems.append(f"{path}: records {missing} are missing")
            positions.last = position
            report.records += 1
            if record_crc(position, record) != crc:
                report.problems.append(f"{path}: the record at position {position} is damaged")
                continue
            try:
                entries = unpack(record)
            except NewnormalError as error:
                report.problems.append(f"{path}: position {position}: {error.message}")
                continue
            if position > positions.fleet:
                models |= {entry.model for entry in entries if isinstance(entry, FitTaken)}


def _store(path: Path, report: FolderReport, positions: _Positions, models: set[str]) -> None:
    marked = Mark.read(path)
    with closing(_database(path, len(MIGRATIONS))) as reader, database_errors(path):
        positions.known = max(positions.known, reached(reader, path, marked)[1])
        rows = reader.execute(
            "SELECT stream, level, number, count, begin, end, crc, data FROM blocks"
            " WHERE stream NOT IN (SELECT stream FROM forgotten) ORDER BY stream, level, number"
        )
        kept: set[int] = set()
        for stream, blocks in groupby(rows, key=lambda row: row[0]):
            kept.add(stream)
            counts: dict[int, int] = {}
            first = 0
            for level, of_level in groupby(blocks, key=lambda row: row[1]):
                listed = [*_facts(path, report, of_level)]
                counts[level] = _level(path, report, stream, level, listed)
                begin = listed[0][0] * covers(level)
                if level == 0:
                    first = begin
                elif begin > first:
                    report.problems.append(
                        f"{path}: stream {stream}: samples are kept from {first} on, points of"
                        f" level {level} from sample {begin} on"
                    )
            level = 1
            while (expected := complete(counts.get(0, 0), level)) or level in counts:
                if counts.get(level, 0) != expected:
                    report.problems.append(
                        f"{path}: stream {stream}: expected {expected} points of level {level},"
                        f" found {counts.get(level, 0)}"
                    )
                level += 1
        report.streams = max(report.streams, len(kept))  # those of the fleet may keep no samples
        rows = reader.execute(
            "SELECT stream, level, number, count, begin, end, crc, data FROM undo"
        )
        for _ in _facts(path, report, rows):  # blocks that a recovery may put back
            pass
        for position, crc, state in reader.execute("SELECT * FROM checkpoints ORDER BY position"):
            if checksum(state) != crc:
                report.problems.append(f"{path}: the checkpoint at position {position} is damaged")
                continue
            positions.checkpoints.append(position)
            if position == positions.fleet:
                models |= _models_of(state)
        report.problems += _damaged_rows(path, reader)


def _damaged_rows(path: Path, reader: sqlite3.Connection) -> Iterator[str]:
    for table in SEALED:
        damaged = (row for row in reader.execute(selected(table)) if not is_intact(row))
        yield from (damage_text(path, table, row) for row in damaged)


def _models_of(state: bytes) -> set[str]:
    """Return the models that the state of the service has; none if it is not as expected."""
    try:
        streams = json.loads(zlib.decompress(state))["streams"]
        files = {model["file"] for stream in streams for model in stream["models"]}
        return files - {""}  # that of a detector which the fleet alone has
    except (LookupError, TypeError, ValueError, zlib.error):
        return set()


def _facts(
    path: Path,
    report: FolderReport,
    rows: Iterator[tuple[int, int, int, int, int, int, int, bytes]],
) -> Iterator[tuple[int, int, int, int]]:
    """Give number, rows and times of blocks, after a look at what is in them."""
    for stream, level, number, count, begin, end, crc, data in rows:
        try:
            times = unpack_block(path, stream, level, number, crc, data)["times"]
            facts = (len(times), int(times[0]), int(times[-1]))
            if facts != (count, begin, end) or (times[1:] <= times[:-1]).any():
                report.problems.append(
                    f"{path}: block {number} of level {level} of stream {stream} is not as it is"
                    " listed"
                )
        except StateError as error:
            report.problems.append(error.message)
        yield number, count, begin, end


def _level(
    path: Path,
    report: FolderReport,
    stream: int,
    level: int,
    blocks: list[tuple[int, int, int, int]],
) -> int:
    """Verify that blocks follow each other; return how many rows there have been."""
    for before, after in pairwise(blocks):
        if after[0] != before[0] + 1 or before[1] != BLOCK or after[2] <= before[3]:
            report.problems.append(
                f"{path}: block {before[0]} of level {level} of stream {stream} is followed by"
                f" {after[0]}, or is not full, or its times overlap"
            )
    if level == 0:
        report.samples += sum(block[1] for block in blocks)
    number, count, *_ = blocks[-1]
    return number * BLOCK + count


def _fleet(folder: Path, report: FolderReport, positions: _Positions) -> None:
    fleet = folder / FLEET
    if not fleet.is_dir() or not any(fleet.iterdir()):
        return
    for last in range(_TRIES):
        before = read_manifest(fleet)
        of_fleet = check_fleet(fleet)
        if of_fleet.ok or read_manifest(fleet) == before or last == _TRIES - 1:
            break
    positions.fleet, report.streams = before.position, max(report.streams, of_fleet.streams)
    report.problems += [
        f"{fleet}: {problem.text}" for problem in of_fleet.problems if not problem.left_by_kill
    ]


def _models(folder: Path, report: FolderReport, named: set[str]) -> None:
    files = sorted(folder.glob("*.nn")) if folder.is_dir() else []
    for path in files:
        report.models += 1
        try:
            read_state(path)
        except NewnormalError as error:
            report.problems.append(error.message)
    there = {path.name for path in files}
    report.problems += [f"{folder}: no file {name}" for name in sorted(named - there)]
