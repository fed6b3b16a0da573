"""Files that grow: forms, rotation of all kinds, kills, and the real service under load."""

import gzip
import json
import os
import random
import shutil
import threading
import time
import tracemalloc
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from newnormal.arrivals.arrival import Arrival
from newnormal.engine.store import Store
from newnormal.errors import InputError, StateError
from newnormal.io.sources.files import FilesSource
from newnormal.io.sources.folders import file_name
from newnormal.testing import check_source
from tests.connectors.programs import Newnormal
from tests.connectors.rotating import BEGIN, HEADER, Rotating, line
from tests.connectors.stories import sample_count
from tests.counts import count
from tests.errors import raised
from tests.service.seeds import each_seed
from tests.waiting import until

SECOND = 10**9
Sample = tuple[str, int, dict[str, float]]  # stream, s since BEGIN, values


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look at the folders at each call."""
    monkeypatch.setattr(FilesSource, "pause", 0.0)


def following(*paths: str | Path, **options: Any) -> FilesSource:
    return FilesSource("plant", {"paths": [str(each) for each in paths], **options})


def samples(arrivals: Sequence[Arrival]) -> list[Sample]:
    return [
        (
            each.stream,
            int(moment) // SECOND - BEGIN,
            {
                name: float(value)
                for name, value in zip(each.channels, row, strict=True)
                if not np.isnan(value)
            },
        )
        for each in arrivals
        for moment, row in zip(each.times, each.values, strict=True)
    ]


def drained(source: FilesSource, limit: int = 5000) -> list[Sample]:
    """Return what a source gives until it is quiet."""
    found: list[Sample] = []
    quiet = 0
    while quiet < 4:
        some = samples(source.next_batch(limit))
        found += some
        quiet = 0 if some else quiet + 1
    return found


def counts(found: Sequence[Sample]) -> list[int]:
    return [int(values["count"]) for _, _, values in found]


def lines(*numbers: int) -> str:
    return "".join(map(line, numbers))


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", "time,x,y\n2026-01-01T00:00:01Z,1.5,2\n2026-01-01T00:00:02Z,,3\n"),
        ("a.csv", "x;Zeit;y\r\n1,5;01.01.2026 00:00:01;2\r\n;01.01.2026 00:00:02;3,0\r\n"),
        ("a.log", "Plant 7\n\nts\tx\ty\n1767225601\t1.5\t2\n1767225602\tNaN\t3\n"),
        ("a.jsonl", '{"time": 1767225601, "x": 1.5, "y": 2}\n{"time": 1767225602, "y": 3}\n'),
        ("a.txt", '\ufeff{"ts":1767225601,"x":1.5,"y":2,"s":"a"}\n\n{"ts":1767225602,"y":3}\n'),
        ("a", "time,state,x,y\n1767225601,OK,1.5,2\n1767225602,BAD,,3\n"),
    ],
)
def test_the_form_of_files_is_found(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text, newline="")
    source = following(tmp_path)
    assert drained(source) == [("a", 1, {"x": 1.5, "y": 2.0}), ("a", 2, {"y": 3.0})]
    assert source.notice() == ""


def test_options_say_how_files_are_written(tmp_path: Path) -> None:
    text = "when|note|x|Größe|z\n2026-01-01 01:00:01|1|-|2|7\n2026-01-01 01:00:02|1|1.5|3|7\n"
    (tmp_path / "a.dat").write_bytes(text.encode("latin-1"))
    source = following(
        tmp_path / "a.dat",
        stream="hall 1/{folder}/{name}",
        tz="Europe/Berlin",
        time="when",
        na=["-"],
        drop=["z"],
        delimiter="|",
        encoding="latin-1",
        columns=["x", "Größe"],
        format="csv",
        decimal=".",
    )
    name = f"hall 1/{tmp_path.name}/a"
    assert drained(source) == [(name, 1, {"Größe": 2.0}), (name, 2, {"x": 1.5, "Größe": 3.0})]


def test_columns_name_the_streams(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(
        f"time,hall,machine,x,y\n{BEGIN},1,a,1,\n{BEGIN},1,b,,2\n{BEGIN + 1},1,a,3,\n"
        f"{BEGIN + 1},,,5,\n{BEGIN + 2},1,a,,\n"
    )
    source = following(tmp_path, by=["hall", "machine"])
    found = source.next_batch(5000)
    assert samples(found) == [
        ("1/a", 0, {"x": 1.0}),
        ("1/a", 1, {"x": 3.0}),
        ("1/a", 2, {}),
        ("1/b", 0, {"y": 2.0}),
    ]
    # A column in which a stream never had a value is no channel of it.
    assert [each.channels for each in found] == [("x",), ("y",)]
    assert source.notice() == (
        "1 line was skipped: a.csv line 5: columns 'hall', 'machine': expected the name of a "
        "stream, found none"
    )


def test_text_that_is_no_utf8_is_that_of_windows(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(f"time,Wärme\n{BEGIN},1\n".encode("cp1252"))
    assert drained(following(tmp_path)) == [("a", 0, {"Wärme": 1.0})]


def test_a_channel_that_had_a_value_stays_one_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(f"time,x,y\n{BEGIN},1,2\n")
    source = following(tmp_path)
    drained(source)
    again = following(tmp_path)
    assert again.resume(source.snapshot())
    append(path, f"{BEGIN + 1},,4\n")
    (arrival,) = again.next_batch(10)
    assert arrival.channels == ("x", "y") and np.isnan(arrival.values[0, 0])


def test_the_name_of_a_stream_is_that_of_the_file_without_its_rotation(tmp_path: Path) -> None:
    names = {
        "press-1.csv": "press-1",
        "press-2.csv-20260101": "press-2",
        "press-3_2026-01-01.csv": "press-3",
        "press-4.csv.17": "press-4",
        "press-5.log": "press-5",
        "20260101_1200.csv": tmp_path.name,
        "press.6.csv": "press.6",
    }
    for at, name in enumerate(names):
        (tmp_path / name).write_text(f"time,x\n{BEGIN + at},1\n{BEGIN + at + 100},1\n")
    found = {stream: second for stream, second, _ in drained(following(tmp_path))[::2]}
    assert found.keys() == set(names.values())


def test_new_files_and_folders_are_found(tmp_path: Path) -> None:
    source = following(tmp_path / "*" / "**", tmp_path / "[ab]?.csv", stream="{folder}/{name}")
    assert drained(source) == []
    (tmp_path / "one" / "two").mkdir(parents=True)
    for name in (
        *("one/a.csv", "one/two/b.csv", "a1.csv", "c1.csv", "one/.hidden.csv", "one/x.csv.xz"),
    ):
        (tmp_path / name).write_text(f"time,x\n{BEGIN},1\n{BEGIN + 1},2\n")
    (tmp_path / "one" / "link.csv").symlink_to(tmp_path / "one" / "a.csv")
    found = {stream for stream, _, _ in drained(source)}
    assert found == {f"{tmp_path.name}/a1", "one/a", "two/b"}


def test_only_complete_lines_are_read(tmp_path: Path) -> None:
    path = tmp_path / "plant.csv"
    path.write_text(HEADER + line(0) + line(1)[:5])
    source = following(tmp_path)
    assert counts(drained(source)) == [0]
    append(path, line(1)[5:] + line(2)[:-1])
    assert counts(drained(source)) == [1]
    append(path, "\n")
    assert counts(drained(source)) == [2]
    assert drained(source) == [] and source.notice() == ""


def test_a_file_is_looked_at_once_a_second(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FilesSource, "pause", 1.0)
    (tmp_path / "plant.csv").write_text(HEADER + line(0))
    source = following(tmp_path)
    scans: list[float] = []
    scan = source._tailing.scan

    def counted() -> None:
        scans.append(time.monotonic())
        scan()

    monkeypatch.setattr(source._tailing, "scan", counted)
    waits: list[float] = []
    monkeypatch.setattr(source._ended, "wait", waits.append)
    assert counts(samples(source.next_batch(10))) == [0]
    assert source.next_batch(10) == [] and source.next_batch(10) == []
    assert len(scans) == 1 and all(0.5 < each <= 1.0 for each in waits)


def test_bad_lines_are_counted_and_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "plant.csv"
    path.write_text(HEADER + line(0) + "1,2\n" + line(1) + "never,3,4,OK\n" + line(2))
    source = following(tmp_path)
    assert counts(drained(source)) == [0, 1, 2]
    said = "2 lines were skipped: plant.csv line 5: column 'time': expected a time, found 'never'"
    assert source.notice().startswith(said)
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + 3601)
    assert source.notice() == ""  # an hour later nobody needs to know


def test_a_line_that_is_too_long_is_skipped(tmp_path: Path) -> None:
    path = tmp_path / "plant.csv"
    long = b"x" * 2_500_000
    path.write_bytes(HEADER.encode() + line(0).encode() + long)
    source = following(tmp_path)
    assert counts(drained(source)) == [0]
    place = source.snapshot()
    with path.open("ab") as file:
        file.write(b"y" * 100_000 + b"\n" + lines(1, 2).encode() + b"z" * 1_100_000 + b"\n")
        file.write(line(3).encode())
    for each in (source, following(tmp_path)):
        if each is not source:
            assert each.resume(place)
        assert counts(drained(each)) == [1, 2, 3]
    assert source.notice() == (
        "2 lines were skipped: plant.csv line 6: expected a line of at most 1,000,000 bytes, "
        "found a longer one"
    )


def test_zeros_of_a_file_that_was_cut_short_are_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "plant.csv"
    path.write_text(HEADER + lines(*range(500)))
    source = following(path)
    assert len(drained(source)) == 500
    with path.open("r+b") as file:  # a program that does not append goes on where it was
        file.truncate(0)
        file.seek(8000)
        file.write(lines(500, 501).encode())
    assert counts(drained(source)) == [500, 501] and source.notice() == ""


def test_files_are_read_from_their_ends_where_that_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "plant.csv"
    path.write_text(HEADER + lines(*range(300)) + line(300)[:7])
    with gzip.open(tmp_path / "plant.csv.1.gz", "wt") as packed:
        packed.write(HEADER + lines(900))
    source = following(tmp_path, start="end")
    assert drained(source) == []
    append(path, line(300)[7:] + "bad\n" + line(301))
    (tmp_path / "other.csv").write_text(HEADER + line(0))
    found = drained(source)
    assert [(stream, values["count"]) for stream, _, values in sorted(found, key=str)] == [
        ("other", 0.0),
        ("plant", 300.0),
        ("plant", 301.0),
    ]
    assert "plant.csv line 303: " in source.notice()
    only_header = tmp_path / "late.csv"
    only_header.write_text(HEADER)
    late = following(only_header, start="end")
    assert drained(late) == []
    append(only_header, lines(1, 2))
    assert counts(drained(late)) == [1, 2]


def test_a_last_line_without_an_end_is_taken_once_a_newer_file_has_lines(tmp_path: Path) -> None:
    old, new = tmp_path / "plant-20260101.csv", tmp_path / "plant-20260102.csv"
    old.write_text(HEADER + lines(0, 1).rstrip())
    source = following(tmp_path)
    assert counts(drained(source)) == [0]
    new.write_text(HEADER + line(2))
    assert counts(drained(source)) == [2]  # the old one was written just now: it may go on
    os.utime(old, (BEGIN, BEGIN))
    assert counts(drained(source)) == [1] and drained(source) == []
    append(old, "\n" + line(3))  # it goes on all the same
    assert counts(drained(source)) == [3] and source.notice() == ""


def test_files_that_cannot_be_read_are_named_and_the_others_go_on(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(HEADER + line(0))
    (tmp_path / "b.bin").write_bytes(bytes(range(256)) * 100)
    source = following(tmp_path)
    assert counts(drained(source)) == [0]
    assert source.notice() == (
        "1 file is not read: b.bin: expected lines of CSV or JSON, found binary data"
    )
    (tmp_path / "b.bin").write_text("x,y\n1,2\n3,4\n")
    drained(source)
    assert source.notice().endswith("b.bin: expected a column of times, found none")
    (tmp_path / "b.bin").write_text(HEADER + lines(1, 2, 3))
    assert counts(drained(source)) == [1, 2, 3] and source.notice() == ""
    (tmp_path / "c.csv").write_bytes(HEADER.encode("utf-16"))
    drained(source)
    assert source.notice().endswith(
        "c.csv: expected text in UTF-8 or an encoding of 8 bits, found UTF-16"
    )
    (tmp_path / "c.csv").unlink()
    (tmp_path / "d.csv.gz").write_bytes(gzip.compress((HEADER + line(9)).encode())[:-9])
    assert drained(source) == []
    assert "d.csv.gz: expected gzip data up to its end, found it cut short" in source.notice()
    (tmp_path / "d.csv.gz").write_bytes(gzip.compress((HEADER + line(9)).encode()))
    assert counts(drained(source)) == [9] and source.notice() == ""


def test_what_is_removed_before_it_was_read_is_told(tmp_path: Path) -> None:
    path = tmp_path / "plant.csv"
    path.write_text(HEADER + lines(*range(100)))
    source = following(path)
    assert len(source.next_batch(10)[0].times) == 10
    path.unlink()
    assert drained(source) == []
    left = len(lines(*range(10, 100)))
    assert source.notice() == f"{path} was removed before its last {left:,} bytes were read"


@pytest.mark.parametrize("pattern", ["plant.csv", "*.csv", "plant.csv*", ""])
def test_each_kind_of_rotation_gives_every_line_once(tmp_path: Path, pattern: str) -> None:
    path = tmp_path / "plant.csv"
    first, second = tmp_path / "plant.csv.1", tmp_path / "plant.csv.2"
    path.write_text(HEADER + lines(0, 1))
    source = following(tmp_path / pattern)
    assert counts(drained(source)) == [0, 1]
    with path.open("a") as file:  # the program goes on while the file is renamed
        path.rename(first)
        file.write(line(2))
    path.write_text(HEADER + line(3))
    assert counts(drained(source)) == [2, 3]
    append(path, line(4))
    first.rename(second)
    shutil.copy(path, first)  # copied and cut short, before it was read
    os.truncate(path, 0)
    append(path, line(5))
    assert counts(drained(source)) == [4, 5]
    append(path, line(6))
    with gzip.open(f"{first}.gz", "wb") as packed:  # renamed and compressed, before it was read
        packed.write(path.read_bytes())
    first.unlink()
    path.unlink()
    path.write_text(line(7))
    assert counts(drained(source)) == [6, 7]
    assert source.notice() == ""


def test_dated_files_are_read_in_their_order(tmp_path: Path) -> None:
    for day, numbers in ((3, (6, 7)), (1, (0, 1)), (2, (2, 3, 4, 5))):
        (tmp_path / f"plant-2026010{day}.csv").write_text(HEADER + lines(*numbers))
    assert counts(drained(following(tmp_path), limit=3)) == list(range(8))
    numbered = tmp_path / "numbered"
    numbered.mkdir()
    for number in range(12):
        (numbered / f"plant.csv.{12 - number}").write_text(HEADER + line(number))
    (numbered / "plant.csv").write_text(HEADER + line(12))
    assert counts(drained(following(numbered))) == list(range(13))


def test_a_file_that_is_written_anew_with_a_line_more_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FilesSource, "pause", 0.05)
    path = tmp_path / "plant.csv"
    source = following(path)
    for number in range(5):
        path.write_text(HEADER + lines(*range(number + 1)))
        assert counts(drained(source)) == [number]
    for number, seen in ((5, ""), (6, HEADER + lines(0, 1))):  # while it is being written
        path.write_text(seen)
        assert source.next_batch(10) == []
        path.write_text(HEADER + lines(*range(number + 1)))
        assert counts(drained(source)) == [number]


def test_a_file_with_another_text_behind_the_same_beginning_is_a_new_one(tmp_path: Path) -> None:
    path = tmp_path / "plant.csv"
    names = [f"column_{at}" for at in range(500)]
    header = ",".join(["time", "count", *names]) + "\n"
    assert len(header) > 4096
    row = "{},{}" + ",1" * len(names) + "\n"
    path.write_text(header + "".join(row.format(BEGIN + at, at) for at in range(3)))
    source = following(path)
    assert counts(drained(source)) == [0, 1, 2]
    with path.open("r+") as file:
        file.write(header + "".join(row.format(BEGIN + at, at) for at in range(10, 15)))
    assert counts(drained(source)) == list(range(10, 15))


def test_a_file_that_is_renamed_to_something_else_keeps_its_stream(tmp_path: Path) -> None:
    path, other = tmp_path / "plant.csv", tmp_path / "january.csv"
    path.write_text(HEADER + lines(0, 1))
    source = following(tmp_path)
    assert counts(drained(source)) == [0, 1]
    append(path, line(2))
    path.rename(other)
    path.write_text(HEADER + line(3))
    found = drained(source)
    assert counts(found) == [2, 3] and {stream for stream, _, _ in found} == {"plant"}


def test_what_is_written_to_an_old_file_comes_before_a_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, old = tmp_path / "plant.csv", tmp_path / "plant.csv.1"
    path.write_text(HEADER + line(0))
    source = following(tmp_path)
    assert counts(drained(source)) == [0]
    path.rename(old)
    path.write_text(HEADER + line(2))
    scan = source._tailing.scan

    def late() -> None:
        scan()
        monkeypatch.setattr(source._tailing, "scan", scan)
        append(old, line(1))  # after the folder was looked at

    monkeypatch.setattr(source._tailing, "scan", late)
    assert counts(drained(source)) == [1, 2]


def test_a_file_between_two_others_has_its_place(tmp_path: Path) -> None:
    for day, numbers in ((1, (0, 1, 2)), (3, (5, 6))):
        (tmp_path / f"plant-2026010{day}.csv").write_text(HEADER + lines(*numbers))
    source = following(tmp_path)
    assert counts(samples(source.next_batch(1))) == [0]
    (tmp_path / "plant-20260102.csv").write_text(HEADER + lines(3, 4))
    assert counts(drained(source)) == [1, 2, 3, 4, 5, 6]


def test_a_compressed_file_is_not_read_while_it_is_made(tmp_path: Path) -> None:
    path, packed = tmp_path / "plant.csv.1", tmp_path / "plant.csv.1.gz"
    path.write_text(HEADER + lines(0, 1))
    source = following(tmp_path)
    assert counts(drained(source)) == [0, 1]
    text = gzip.compress(path.read_bytes())
    packed.write_bytes(text[:30])
    assert drained(source) == []
    packed.write_bytes(text)
    assert drained(source) == [] and drained(following(tmp_path)) != []
    path.unlink()
    assert drained(source) == [] and source.notice() == ""


def test_files_that_have_the_same_lines_are_two(tmp_path: Path) -> None:
    for name in ("press-1.csv", "press-2.csv"):
        (tmp_path / name).write_text(HEADER + lines(0, 1))
    assert sorted(stream for stream, _, _ in drained(following(tmp_path))) == [
        "press-1", "press-1", "press-2", "press-2",
    ]  # fmt: skip


OPERATIONS = {
    "append": 8, "rename": 2, "copy": 2, "copy_slowly": 1, "compress": 2, "rewrite": 1,
    "poll": 8, "kill": 2, "crash": 1,
}  # fmt: skip


class Following:
    """A source as the service has it: what it gave is kept together with its place, or not."""

    def __init__(self, pattern: Path) -> None:
        self._pattern = pattern
        self.kept: dict[str, list[int]] = {}
        self._place: dict[str, Any] | None = None
        self.source = following(pattern)

    def poll(self, limit: int) -> int:
        found = samples(self.source.next_batch(limit))
        assert len(found) <= limit
        for stream, second, values in found:
            assert values["count"] == second
            self.kept.setdefault(stream, []).append(second)
        if found:
            self._place = json.loads(json.dumps(self.source.snapshot()))
        return len(found)

    def kill(self) -> None:
        self.source.close()
        self.source = following(self._pattern)
        if self._place is not None:
            assert self.source.resume(self._place)


def random_rotation(folder: Path, seed: int) -> None:
    """Let several files be written, rotated and followed at random."""
    rng = random.Random(seed)
    pattern = folder / rng.choice(["*.csv", "", "*.csv*"])
    files = [Rotating(folder, seed, f"plant{at}.csv") for at in range(rng.choice([1, 1, 2]))]
    source = Following(pattern)
    while len(source.kept) < len(files):
        for each in files:
            each.append()
        poll(rng, source, files)
    for operation in rng.choices(list(OPERATIONS), list(OPERATIONS.values()), k=rng.randrange(40)):
        each = rng.choice(files)
        if operation == "poll":
            poll(rng, source, files)
        elif operation == "copy_slowly":
            each.copy_slowly(lambda: poll(rng, source, files))
        elif operation in ("kill", "crash"):
            if operation == "crash":  # what was given is not in the log
                source.source.next_batch(rng.choice([3, 5000]))
            source.kill()
        else:
            getattr(each, operation)()
    for each in files:
        each.close()
    quiet = 0
    while quiet < 5:
        quiet = 0 if source.poll(5000) else quiet + 1
    source.source.close()
    assert source.kept == {f"plant{at}": each.written for at, each in enumerate(files)}
    assert source.source.notice() == ""


def poll(rng: random.Random, source: Following, files: Sequence[Rotating]) -> None:
    source.poll(rng.choice([1, 7, 100, 5000]))
    for each in files:
        each.look()


@pytest.mark.cases(150, 20_000)
def test_random_rotations_and_kills_lose_no_line(tmp_path: Path, cases: range) -> None:
    def case(seed: int) -> None:
        folder = tmp_path / str(seed)
        folder.mkdir()
        random_rotation(folder, seed)
        shutil.rmtree(folder)

    each_seed(cases, case)


def test_it_keeps_what_sources_promise(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    for folder in (one, two):
        folder.mkdir()
        (folder / "a.csv").write_text(HEADER + lines(*range(20)))
        (folder / "b.jsonl").write_text(
            f'{{"time": {BEGIN}, "x": 1}}\n{{"time": {BEGIN + 1}, "x": 2}}\n'
        )
        with gzip.open(folder / "a.csv.1.gz", "wt") as packed:
            packed.write(HEADER + lines(*range(100, 120)))
    check_source(lambda: following(one), other=lambda: following(two))


def test_the_paths_may_change(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(HEADER + line(0))
    source = following(tmp_path / "a.csv")
    assert counts(drained(source)) == [0]
    more = following(tmp_path / "a.csv", tmp_path / "b.csv")
    assert more.resume(source.snapshot())
    (tmp_path / "b.csv").write_text(HEADER + line(1))
    assert counts(drained(more)) == [1]


@pytest.mark.parametrize(
    "snapshot",
    [
        {},
        {"paths": 1, "files": ""},
        {"paths": ["x"], "files": "!"},
        {"paths": ["x"], "files": "e30="},
    ],
)
def test_a_place_that_is_none_is_refused(snapshot: dict[str, Any]) -> None:
    assert raised(StateError, lambda: following("x").resume(snapshot)).message == (
        "source plant: expected the positions of files, found something else"
    )


def test_files_are_found_again_on_another_disk(tmp_path: Path) -> None:
    """Devices and inodes are others after a backup was restored; the texts are the same."""
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    (old / "a.csv").write_text(HEADER + lines(*range(50)))
    (old / "a.csv.1").write_text(HEADER + lines(*range(100, 150)))
    source = following(old)
    place: dict[str, Any] = {}
    for _ in range(2):
        source.next_batch(30)
        place = source.snapshot()
    old.rename(new)
    shutil.copytree(new, old)
    again = following(old)
    assert again.resume(place)
    assert counts(drained(again)) == list(range(10, 50))


@pytest.mark.cases(300, 1_000, whole=True)
def test_a_thousand_files_take_little_memory_and_no_handles(tmp_path: Path, cases: range) -> None:
    number = len(cases)
    for at in range(number):
        (tmp_path / f"press-{at}.csv").write_text(HEADER + lines(0, 1, 2))
    source = following(tmp_path)
    handles = len(os.listdir("/proc/self/fd"))
    tracemalloc.start()
    try:
        assert len(drained(source)) == 3 * number
        used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert used / number < 25_000  # bytes a file
    assert len(os.listdir("/proc/self/fd")) <= handles
    assert len(source.snapshot()["files"]) / number < 200  # bytes a file, of each batch's place
    for at in range(number):
        with (tmp_path / f"press-{at}.csv").open("a") as file:
            file.write(line(3))
    assert len(source.next_batch(5000)) == number
    again = following(tmp_path)
    assert again.resume(source.snapshot()) and drained(again) == []


def test_files_have_their_turns(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / f"{name}.csv").write_text(HEADER + lines(*range(2000)))
    source = following(tmp_path)
    turns = ["".join(sorted(each.stream for each in source.next_batch(600))) for _ in range(5)]
    assert set("".join(turns[:2])) == {"a", "b", "c"} and len(set(turns)) > 1


@pytest.mark.cases(150, 20_000)
def test_arbitrary_bytes_never_stop_it(tmp_path: Path, cases: range) -> None:
    path = tmp_path / "a.csv"
    pieces = [b"\0", b"\xff", b"\n", b",", b'"', b"{", b"time,x\n", b"1767225600,1\n", b"\r", b" "]

    def case(seed: int) -> None:
        rng = random.Random(seed)
        source = following(tmp_path)
        path.write_bytes(b"")
        for _ in range(5):
            some = b"".join(rng.choices(pieces, k=rng.randrange(30))) + rng.randbytes(20)
            with path.open("r+b" if rng.random() < 0.3 else "ab") as file:
                file.write(some)
            drained(source, limit=rng.choice([1, 100]))
            source.notice()
            again = following(tmp_path)
            again.resume(source.snapshot())
            source = again

    each_seed(cases, case)


def test_check_says_what_it_found(tmp_path: Path) -> None:
    source = following(tmp_path / "none" / "*.csv")
    assert source.check() == f"no file yet that {tmp_path}/none/*.csv names"
    for number, name in enumerate(("a.csv", "b.csv", "b.csv.1")):
        (tmp_path / name).write_text(HEADER + line(number))
    source = following(tmp_path)
    assert source.check() == "3 files of 2 streams, 129 bytes; the columns are count, wave, status"
    assert sorted(counts(drained(source))) == [0, 1, 2]  # nothing was taken by the check
    (tmp_path / "c.csv").write_text("x,y\n1,2\n")
    error = raised(InputError, source.check)
    assert error.message == f"{tmp_path}/c.csv: expected a column of times, found none"


def test_the_names_of_rotated_files() -> None:
    assert file_name("a.csv.1.gz")[:5] == ("a", ".csv", "", 0, 1)
    assert file_name("a-2026-01-31-2.log")[:5] == ("a", ".log", "20260131", 2, 0)
    assert file_name("press-1.csv")[:5] == ("press-1", ".csv", "", 0, 0)
    assert file_name("a.csv.bak")[:5] == ("a", ".csv", "", 0, 1)
    assert file_name("messages")[:5] == ("messages", "", "", 0, 0)


STORY = """
[streams]
history = 100000
[retention]
samples = "36500d"
log = "1d"
[sources.logs]
kind = "files"
paths = ["{folder}/*.csv"]
"""


class Writer(threading.Thread):
    """Writes lines to a file and rotates it in all ways, until it is told to end."""

    def __init__(self, folder: Path, seed: int) -> None:
        super().__init__(daemon=True)
        self.file = Rotating(folder, seed, f"plant{seed}.csv")
        self._rng = random.Random(seed)
        self._ended = threading.Event()

    def run(self) -> None:
        while not self._ended.wait(0.002):
            self.file.append()
            if self._rng.random() < 0.005:
                self._rng.choice([self.file.rename, self.file.compress])()
        self.file.close()

    def end(self) -> list[int]:
        self._ended.set()
        self.join(20.0)
        return self.file.written


def test_the_service_is_killed_under_load_and_stores_each_line_once(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    service = Newnormal(tmp_path / "service", STORY.format(folder=logs))
    found = service.check()
    assert "ok      source logs: no file yet that" in found.stdout, found.stdout
    writers = [Writer(logs, seed) for seed in (1, 2)]
    with service:
        for each in writers:
            each.start()
        for _ in range(count(2, 20)):
            before = sample_count(service)
            until(lambda before=before: sample_count(service) > before + 300, "samples")  # type: ignore[misc]
            service.kill()
            service.start()
        expected = {f"plant{at}": each.end() for at, each in enumerate(writers, 1)}
        total = sum(map(len, expected.values()))
        until(lambda: sample_count(service) == total, f"{total} samples")
        with service.client() as client:
            streams = {name: client.stream(name) for name in expected}
        service.stop()
    with closing(Store(service.folder / "data" / "store.sqlite")) as store:
        for name, numbers in expected.items():
            stream = streams[name]
            assert {stream["counts"].get(each, 0) for each in ("late", "duplicate")} == {0}
            rows = store.samples.rows(stream["id"], 0, len(numbers) - 1)
            assert (rows.times // SECOND - BEGIN).tolist() == numbers
            assert rows.values[:, rows.channels.index("count")].tolist() == numbers
