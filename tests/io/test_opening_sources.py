"""Files and pipes of every kind as sources: places, resuming, following, FIFOs."""

import gzip
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from newnormal import InputError, StateError
from newnormal.io.sources.lines import FileInput, LineInput, LineOptions, PipeInput, Recent
from newnormal.tabular import Problem, Reading
from newnormal.tabular.text import raw_bytes
from tests.errors import raised
from tests.present import present

NAMES = ("a °C", "b")
LINES = ["time,a °C,b", *(f"2026-01-01T00:{i // 60:02}:{i % 60:02},{i},-{i}" for i in range(400))]
TEXT = "\n".join(LINES) + "\n"
OPTIONS = LineOptions(NAMES)

FORMS = {
    "utf-8": TEXT.encode(),
    "with a mark": TEXT.encode("utf-8-sig"),
    "crlf": TEXT.replace("\n", "\r\n").encode(),
    "cr": TEXT.replace("\n", "\r").encode(),
    "latin-1": TEXT.encode("latin-1"),
    "utf-16": TEXT.encode("utf-16"),
    "utf-16 without a mark": TEXT.encode("utf-16-le"),
    "gzip": gzip.compress(TEXT.encode()),
    "gzip of latin-1": gzip.compress(TEXT.encode("latin-1")),
}


def file(folder: Path, data: bytes, name: str = "plant.csv") -> str:
    path = folder / name
    path.write_bytes(data)
    return str(path)


def rest(source: LineInput, limit: int = 64) -> list[float]:
    """Return the first channel of all that is left."""
    found: list[float] = []
    while (batch := source.next_batch(limit)) is not None:
        assert not batch.problems
        found += batch.values[:, 0].tolist()
    return found


def taken(source: LineInput, count: int) -> dict[str, Any]:
    """Read some samples, and return the place behind them."""
    found = 0
    while found < count:
        batch = present(source.next_batch(count - found))
        found += len(batch)
    return source.snapshot()


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("limit", [1, 3, 1000])
def test_a_file_of_any_form_is_read_in_batches_of_any_size(
    tmp_path: Path, name: str, limit: int
) -> None:
    source = FileInput(file(tmp_path, FORMS[name]), OPTIONS)
    assert rest(source, limit) == list(range(400))
    assert source.next_batch(limit) is None
    source.close()
    source.close()


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("size", [200, 5000])
def test_a_place_is_resumed_exactly_however_the_bytes_came(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, size: int
) -> None:
    monkeypatch.setattr(raw_bytes, "READ_BYTES", size)
    source = FileInput(file(tmp_path, FORMS[name]), OPTIONS)
    place = taken(source, 233)
    source.close()
    again = FileInput(str(tmp_path / "plant.csv"), OPTIONS)
    assert again.resume(place)
    assert again.snapshot() == place
    assert rest(again) == list(range(233, 400))
    assert again.resume(place)  # in the middle, as --strict does
    assert rest(again) == list(range(233, 400))
    again.close()


@pytest.mark.parametrize("name", ["utf-8", "latin-1", "gzip"])
def test_a_moved_file_goes_on_and_stays_the_input_that_it_was(tmp_path: Path, name: str) -> None:
    source = FileInput(file(tmp_path, FORMS[name]), OPTIONS)
    place, identity = taken(source, 100), source.identity
    source.close()
    (tmp_path / "archive").mkdir()
    moved = tmp_path / "archive" / "may.csv"
    (tmp_path / "plant.csv").rename(moved)
    again = FileInput(str(moved), OPTIONS)
    assert again.resume(place)
    assert again.identity == identity
    assert again.snapshot() == place
    assert rest(again) == list(range(100, 400))
    again.close()


def test_a_file_that_was_compressed_meanwhile_goes_on(tmp_path: Path) -> None:
    source = FileInput(file(tmp_path, FORMS["utf-8"]), OPTIONS)
    place = taken(source, 100)
    source.close()
    again = FileInput(file(tmp_path, FORMS["gzip"], "plant.csv.gz"), OPTIONS)
    assert again.resume(place)
    assert rest(again) == list(range(100, 400))
    again.close()


@pytest.mark.parametrize("name", ["utf-8", "latin-1", "gzip"])
def test_another_text_is_another_input_read_from_its_start(tmp_path: Path, name: str) -> None:
    source = FileInput(file(tmp_path, FORMS[name]), OPTIONS)
    place = taken(source, 300)
    source.close()
    line = LINES[290]
    for text in (TEXT.replace(line, line.replace(",2", ",3")), TEXT.replace("01-01", "01-02")):
        data = text.encode("latin-1" if name == "latin-1" else "utf-8")
        again = FileInput(file(tmp_path, gzip.compress(data) if name == "gzip" else data), OPTIONS)
        assert not again.resume(place)
        assert len(rest(again)) == 400
        again.close()
    shorter = FileInput(file(tmp_path, "\n".join(LINES[:200]).encode()), OPTIONS)
    assert not shorter.resume(place)
    shorter.close()


def test_a_place_with_no_sample_before_it_belongs_to_its_path(tmp_path: Path) -> None:
    one, two = (file(tmp_path, TEXT.encode(), name) for name in ("one.csv", "two.csv"))
    source = FileInput(one, OPTIONS)
    start = source.snapshot()
    source.next_batch(1)
    header = source.snapshot()
    assert (start["offset"], header["line"]) == (0, 1)
    source.close()
    for place in (start, header):
        for path, same in ((one, True), (two, False)):
            again = FileInput(path, OPTIONS)
            assert again.resume(place) is same
            again.close()


@pytest.mark.parametrize("wrong", [{"encoding": 3}, {"newline": "x"}, {"encoding": "no such"}])
def test_a_place_that_cannot_be_is_refused(tmp_path: Path, wrong: dict[str, Any]) -> None:
    source = FileInput(file(tmp_path, TEXT.encode()), OPTIONS)
    with pytest.raises(StateError, match=r"position: .*expected an encoding") as caught:
        source.resume({**taken(source, 5), **wrong})
    assert "delete the folder to" in str(caught.value)
    source.close()


def test_what_was_ascii_may_grow_into_latin_1(tmp_path: Path) -> None:
    path = file(tmp_path, b"a,b,place\n1,2,Rome\n")
    options = LineOptions(("a", "b"), Reading(drop=("place",)))
    source = FileInput(path, options)
    place = taken(source, 1)
    source.close()
    with open(path, "ab") as more:
        more.write("3,4,Köln\n5,6,Zürich\n".encode("latin-1"))
    again = FileInput(path, options)
    assert again.resume(place)
    assert rest(again) == [3, 5]
    again.close()


def test_a_long_line_is_one_bad_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(raw_bytes, "READ_BYTES", 10_000)
    data = b"a,b\n1,2\n" + b"9" * 300_000 + b"\n3,4\n5,6\n"
    options = LineOptions(("a", "b"), Reading(longest_line=50_000))
    for name, content in (("plain.csv", data), ("packed.csv", gzip.compress(data))):
        source = FileInput(file(tmp_path, content, name), options)
        found: list[float] = []
        problems: list[Problem] = []
        places: list[dict[str, Any]] = []
        while (batch := source.next_batch(1)) is not None:
            found += batch.values[:, 0].tolist()
            problems += batch.problems
            places.append(source.snapshot())
        source.close()
        assert found == [1, 3, 5]
        (problem,) = problems
        assert problem.number == 3
        assert problem.error.message == (
            "expected a line of at most 50,000 bytes, found a longer one"
        )
        ends = {place["line"]: place for place in places}
        assert [ends[line]["offset"] for line in range(1, 6)] == [4, 8, 300_009, 300_013, 300_017]
        for line, left in ((2, [3, 5]), (3, [3, 5]), (4, [5])):
            again = FileInput(str(tmp_path / name), options)
            assert again.resume(ends[line])
            lines = []
            while (batch := again.next_batch(9)) is not None:
                lines += batch.values[:, 0].tolist()
            assert lines == left
            again.close()


def test_lines_of_many_streams_keep_their_place_behind_a_long_one(tmp_path: Path) -> None:
    options = LineOptions(reading=Reading(longest_line=10), by=("s",))
    source = FileInput(file(tmp_path, b"s,x\na,1\n" + b"9" * 99 + b"\nb,2\n"), options)
    batch = present(source.next_batch(10))
    assert batch.names == ("a", "b")
    assert [problem.number for problem in batch.problems] == [3]
    assert source.snapshot()["offset"] == 4 + 4 + 100 + 4
    source.close()


def test_a_compressed_file_cannot_be_followed(tmp_path: Path) -> None:
    path = file(tmp_path, FORMS["gzip"])
    assert str(raised(InputError, lambda: FileInput(path, LineOptions(NAMES, follow=True)))) == (
        f"{path}: expected text that grows, to follow it, found gzip\n"
        "hint: leave --follow out: it is read to its end"
    )


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1", "utf-16-le"])
def test_a_file_in_any_encoding_is_followed_as_it_grows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, encoding: str
) -> None:
    monkeypatch.setattr("newnormal.io.sources.lines.POLL_S", 0)
    data = TEXT.encode(encoding)
    path = file(tmp_path, b"")
    source = FileInput(path, LineOptions(NAMES, follow=True))
    found: list[float] = []
    with open(path, "ab") as growing:
        for start in range(0, len(data), 999):  # also inside of lines and characters
            growing.write(data[start : start + 999])
            growing.flush()
            for _ in range(3):
                batch = present(source.next_batch(1000))
                found += batch.values[:, 0].tolist()
    assert found == list(range(400))
    source.close()


def test_a_compressed_file_that_is_cut_short_gives_its_lines_and_then_the_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(raw_bytes, "READ_BYTES", 100)
    monkeypatch.setattr("newnormal.tabular.text.opening.HEAD", 1000)
    source = FileInput(file(tmp_path, FORMS["gzip"][:-20]), OPTIONS)
    found: list[int] = []
    with pytest.raises(InputError, match=r"plant\.csv: expected gzip data up to its end, found it"):
        found.extend(map(len, iter(lambda: source.next_batch(10), None)))
    assert 300 < sum(found) <= 400
    source.close()


def test_the_last_line_of_a_compressed_file_is_finished(tmp_path: Path) -> None:
    said: list[str] = []
    options = LineOptions(NAMES, unfinished=True, report=said.append)
    source = FileInput(file(tmp_path, gzip.compress(TEXT.rstrip().encode())), options)
    assert len(rest(source)) == 400
    assert said == []
    source.close()


@pytest.fixture
def fifo(tmp_path: Path) -> Path:
    if os.name != "posix":
        pytest.skip("has no FIFOs")
    path = tmp_path / "fifo"
    os.mkfifo(path)
    return path


def test_a_fifo_is_read_like_a_pipe_and_has_no_place(fifo: Path) -> None:
    source = FileInput(str(fifo), OPTIONS)
    source.close()  # opened when it is read: no writer was cut off
    source = FileInput(str(fifo), OPTIONS)
    writer = threading.Thread(target=fifo.write_bytes, args=(FORMS["latin-1"],))
    writer.start()
    assert rest(source) == list(range(400))
    writer.join()
    place = source.snapshot()
    assert source.repeats
    source.close()
    again = FileInput(str(fifo), OPTIONS)
    assert again.resume(place)
    assert not again.resume({"path": str(fifo), "offset": 0, "line": 0})
    again.close()


def test_a_place_of_a_fifo_is_none_of_a_file(tmp_path: Path) -> None:
    source = FileInput(file(tmp_path, TEXT.encode()), OPTIONS)
    assert not source.resume({"path": source.identity, "stream": True, "layout": {}})
    source.close()


@pytest.fixture
def pipe(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Return the writing end of standard input."""
    reading, writing = os.pipe()
    with os.fdopen(reading, encoding="utf-8") as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        yield writing


@pytest.mark.parametrize("name", FORMS)
def test_standard_input_may_have_any_form(pipe: int, name: str) -> None:
    os.write(pipe, FORMS[name])  # less than a pipe holds
    os.close(pipe)
    source = PipeInput("-", OPTIONS)
    assert rest(source) == list(range(400))
    source.close()


def test_a_line_of_a_pipe_is_given_out_as_soon_as_it_has_come(pipe: int) -> None:
    source = PipeInput("-", LineOptions(("a",)))
    for text, expected in ((b"a\n", []), (b"1\n", [1.0]), (b"2\n3", [2.0]), (b"\n", [3.0])):
        os.write(pipe, text)
        assert present(source.next_batch(10)).values[:, 0].tolist() == expected
    os.close(pipe)
    assert source.next_batch(10) is None


def test_recent_bytes_are_kept_for_every_place_and_no_others() -> None:
    data = bytes(range(256)) * 20
    recent, offset = Recent(100), 0
    for start in range(0, len(data), 64):
        recent.add(data[start : start + 64])
        offset = max(offset, start - 30)
        recent.forget(offset)
        assert recent.before(offset) == data[max(offset - 100, 0) : offset]
        assert recent.before(start + 64) == data[max(start - 36, 0) : start + 64]
    for _ in range(1000):
        recent.add(b"x" * 64)
        recent.forget(offset, between=True)
    assert recent.before(offset) == data[offset - 100 : offset]
    assert recent.before(len(data) + 64_000) == b"x" * 100
    assert sum(len(piece) for _, piece in recent._pieces) < 500
