"""Any input as lines: compression, encodings, ends of lines, long lines, and what is no text."""

import bz2
import codecs
import gzip
import io
import lzma
import os
import random
import sys
import threading
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from newnormal.errors import InputError, MissingExtraError, ParameterError
from newnormal.tabular import InputProfile, Reading, exports
from newnormal.tabular.text.encodings import LATIN, encoding_of
from newnormal.tabular.text.file_names import format_of_name
from newnormal.tabular.text.line_cutting import LineCutter, OversizedLine, RefusedLine, line_text
from newnormal.tabular.text.opening import open_input, text_lines

TEXT = "time,Größe\n" + "".join(f"2026-01-01T00:00:{i:02},{i}\n" for i in range(60))
LINES = TEXT.splitlines()


def lines_of(path: Path | str, found: InputProfile | None = None, **options: Any) -> list[str]:
    note = InputProfile() if found is None else found
    with text_lines(path, Reading.of(options), note) as chunks:
        return [line for chunk in chunks for line in chunk]


def written(folder: Path, data: bytes, name: str = "plant.csv") -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


def refusal(path: Path | str, **options: Any) -> str:
    with pytest.raises(InputError) as caught:
        lines_of(path, **options)
    return str(caught.value)


def zstd(data: bytes) -> bytes:
    zstandard = pytest.importorskip("zstandard")
    compressed: bytes = zstandard.ZstdCompressor(write_checksum=True).compress(data)
    return compressed


@pytest.mark.parametrize("name", ["plant.csv", "plant.csv.gz", "plant.dump"])
def test_gzip_is_read_whatever_it_is_called(tmp_path: Path, name: str) -> None:
    found = InputProfile()
    assert lines_of(written(tmp_path, gzip.compress(TEXT.encode()), name), found) == LINES
    assert (found.kind, found.written) == ("csv", {"compression": "gzip"})


def test_gzip_members_follow_one_another_and_zeros_pad_them(tmp_path: Path) -> None:
    members = b"".join(gzip.compress(f"{line}\n".encode()) for line in LINES)
    assert lines_of(written(tmp_path, members + bytes(512))) == LINES


def test_zstd_is_read_in_frames(tmp_path: Path) -> None:
    found = InputProfile()
    skipped = b"\x50\x2a\x4d\x18\x03\x00\x00\x00abc"
    frames = zstd(TEXT[:500].encode()) + skipped + zstd(TEXT[500:].encode())
    assert lines_of(written(tmp_path, frames, "a.jsonl.zst"), found) == LINES
    assert (found.kind, found.written) == ("jsonl", {"compression": "zstd"})


def test_without_zstd_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "zstandard", None)
    path = written(tmp_path, b"\x28\xb5\x2f\xfd\x00\x00\x00\x00")
    with pytest.raises(MissingExtraError, match=r'pip install "newnormal\[zstd\]"'):
        lines_of(path)


@pytest.mark.parametrize("compress", [gzip.compress, zstd])
def test_compressed_data_cut_or_damaged_is_an_input_error(tmp_path: Path, compress: Any) -> None:
    data = compress(random.Random(1).randbytes(2000).hex().encode())
    kind = "gzip" if compress is gzip.compress else "zstd"
    assert refusal(written(tmp_path, data[:-9])) == (
        f"expected {kind} data up to its end, found it cut short\n"
        f"hint: copy or write the file again; `{kind} -t FILE` checks it"
    )
    for at in (len(data) // 2, len(data) - 3):
        damaged = data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :]
        text = refusal(written(tmp_path, damaged))
        assert text.startswith(f"expected {kind} data"), text
    assert "damaged" in refusal(written(tmp_path, data + b"more"))


@pytest.mark.parametrize(
    ("data", "what", "command"),
    [(bz2.compress(b"a"), "bzip2", "bunzip2"), (lzma.compress(b"a"), "xz", "unxz")],
)
def test_other_compression_is_named(tmp_path: Path, data: bytes, what: str, command: str) -> None:
    assert refusal(written(tmp_path, data)) == (
        f"expected text, or compressed by gzip or zstd, found {what}\n"
        f"hint: decompress it first: {command} FILE"
    )


@pytest.mark.parametrize("compress", [gzip.compress, zstd])
def test_what_a_small_file_grows_to_is_never_held(tmp_path: Path, compress: Any) -> None:
    path = written(tmp_path, compress(b"a,b\n" + b"1" * 60_000_000 + b"\n1,2\n"))
    tracemalloc.start()
    found = lines_of(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found == ["a,b", "", "1,2"]
    assert peak < 30_000_000


@pytest.mark.parametrize(
    ("data", "encoding"),
    [
        (TEXT.encode(), None),
        (codecs.BOM_UTF8 + TEXT.encode(), None),
        (TEXT.encode("utf-16"), "UTF-16"),
        (codecs.BOM_UTF16_BE + TEXT.encode("utf-16-be"), "UTF-16"),
        (TEXT.encode("utf-32"), "UTF-32"),
        (TEXT.encode("utf-16-le"), "UTF-16-LE"),
        (TEXT.encode("utf-16-be"), "UTF-16-BE"),
        (TEXT.encode("utf-32-le"), "UTF-32-LE"),
        (TEXT.encode("latin-1"), LATIN),
        (gzip.compress(TEXT.encode("utf-16")), "UTF-16"),
    ],
)
def test_the_encoding_is_found(tmp_path: Path, data: bytes, encoding: str | None) -> None:
    found = InputProfile()
    assert lines_of(written(tmp_path, data), found) == LINES
    assert found.written.get("encoding") == encoding


def test_cp1252_has_latin_1_for_its_undefined_bytes(tmp_path: Path) -> None:
    assert lines_of(written(tmp_path, b"\x80\xe9\xe8\xe0,\x81\n")) == ["€éèà,\x81"]


def test_an_encoding_that_is_given_is_used(tmp_path: Path) -> None:
    path = written(tmp_path, "цена,1\n".encode("koi8-r"))
    assert lines_of(path, encoding="koi8-r") == ["цена,1"]
    with pytest.raises(ParameterError, match="expected an encoding such as"):
        lines_of(path, encoding="hex")


def test_a_line_that_is_wrong_in_the_given_encoding_is_refused(tmp_path: Path) -> None:
    first, second, third = lines_of(written(tmp_path, b"a,b\n\xff,1\n2,3\n"), encoding="ascii")
    assert (first, third) == ("a,b", "2,3")
    assert isinstance(second, RefusedLine)
    assert second.error.message == "expected ascii text"


@pytest.mark.parametrize("cut", range(4))
def test_a_character_cut_where_the_head_ends_is_no_wrong_one(tmp_path: Path, cut: int) -> None:
    text = "a" * (65_536 - cut) + "€uro,1\n"
    assert lines_of(written(tmp_path, text.encode())) == [text.rstrip()]


def test_wrong_bytes_behind_the_head_refuse_their_line_alone(tmp_path: Path) -> None:
    good = b"1,2\n" * 30_000
    found = lines_of(written(tmp_path, b"a,b\n" + good + b"caf\xe9,1\n" + good))
    assert len(found) == 60_002
    (at,) = [i for i, line in enumerate(found) if isinstance(line, RefusedLine)]
    assert at == 30_001
    line = found[at]
    assert isinstance(line, RefusedLine)
    assert str(line.error) == (
        "expected UTF-8 text, found byte 0xe9\n"
        "hint: name the encoding that it was written in: --encoding latin-1 (encoding=)"
    )


def test_utf8_with_some_wrong_bytes_is_not_taken_for_latin_1() -> None:
    assert encoding_of("Größe, Öl, Süd\n".encode() + b"\xe9\n", ended=True) == "UTF-8"
    assert encoding_of(b"time,a\n\xff\n1,2\n", ended=True) == "UTF-8"
    assert encoding_of(b"time,a\n1,2\n", ended=True) is None


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (bytes(range(256)) * 40, "expected text, found binary data"),
        (b"\x01\x02\x03\x04\x05\x06\x07\x08" * 9, "expected text, found binary data"),
        (b"PK\x03\x04rest", "expected an Excel workbook, found a damaged one"),
        (b"%PDF-1.7\n", "expected text, found a PDF"),
        (b"\xd0\xcf\x11\xe0\xa1", "expected text, found an old Excel or Word file"),
        (b"SQLite format 3\0", "expected text, found an SQLite database"),
        (
            gzip.compress(gzip.compress(b"a,b\n", mtime=0), mtime=0),
            "expected text, found binary data",
        ),
    ],
)
def test_what_is_no_text_is_named(tmp_path: Path, data: bytes, message: str) -> None:
    text = refusal(written(tmp_path, data))
    assert text.startswith(message), text
    assert "\nhint: " in text


def test_nuls_that_a_crash_left_do_not_make_text_binary(tmp_path: Path) -> None:
    path = written(tmp_path, b"time,a\n2026-01-01,1\n" + bytes(3000) + b"\n2026-01-02,2\n")
    assert lines_of(path)[::3] == ["time,a", "2026-01-02,2"]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("last", ["", "end"])
def test_ends_of_lines_and_blank_lines_are_found(tmp_path: Path, end: str, last: str) -> None:
    lines = ["a,b", "", "1,2", "", "", "3,4"]
    text = end.join(lines) + (end if last else "")
    assert lines_of(written(tmp_path, text.encode())) == lines


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_lines_are_the_same_however_the_bytes_arrive(end: bytes, size: int) -> None:
    lines = [b"time,a", b"", *(b"1" * n for n in range(30)), b"", b"last"]
    data = end.join(lines)
    limit = 20 + len(end) - 1
    pieces = [data[i : i + size] for i in range(0, len(data), size)]
    one, two = LineCutter(limit), LineCutter(limit)
    found = [line for piece in pieces for line in one.cut(piece)] + one.finish()
    texts = [text for piece in pieces for text in two.cut_texts(piece)]
    texts += [line_text(line) for line in two.finish()]
    expected = [b"" if len(line) > 20 else line for line in lines]
    assert [line.strip(b"\r") for line in found] == expected
    assert texts == [line.decode() for line in expected]
    assert [isinstance(line, OversizedLine) for line in found] == [len(line) > 20 for line in lines]
    assert [isinstance(text, RefusedLine) for text in texts] == [len(line) > 20 for line in lines]
    sizes = [line.size if isinstance(line, OversizedLine) else len(line) for line in found]
    assert sum(sizes) + len(found) - 1 == len(data)
    assert one.skipped == 9


def test_a_stray_carriage_return_in_a_file_of_line_feeds_is_no_end(tmp_path: Path) -> None:
    assert lines_of(written(tmp_path, b"a\rb,c\n1,2\n")) == ["a\rb,c", "1,2"]


def test_a_line_over_the_limit_is_refused_and_passed_over(tmp_path: Path) -> None:
    path = written(tmp_path, b"a,b\n" + b"1" * 200 + b"\n1,2\n")
    long = lines_of(path, longest_line=100)[1]
    assert isinstance(long, RefusedLine)
    assert str(long.error) == (
        "expected a line of at most 100 bytes, found a longer one\n"
        "hint: raise the limit: --longest-line BYTES (longest_line=)"
    )
    assert lines_of(path, longest_line=100)[::2] == ["a,b", "1,2"]
    assert lines_of(path, longest_line=200)[1] == "1" * 200


def test_a_line_without_an_end_is_read_once_and_never_held() -> None:
    """A gigabyte in pieces: its bytes are counted, and none is copied."""
    cutter, piece = LineCutter(), bytes(1 << 20)
    tracemalloc.start()
    assert all(cutter.cut(piece) == [] for _ in range(1 << 10))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    (line,) = cutter.cut(b"\n")
    assert isinstance(line, OversizedLine)
    assert line.size == 1 << 30
    assert peak < 4_000_000


def test_small_pieces_of_one_line_are_not_copied_again_and_again() -> None:
    cutter = LineCutter(longest=2_000_000)
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for _ in range(100_000):  # joined each time it would be 50 GB
        assert not cutter.cut(b"0123456789")
    assert tracemalloc.get_traced_memory()[0] - before < 4_000_000
    tracemalloc.stop()
    assert cutter.cut(b"\n") == [b"0123456789" * 100_000]


@pytest.mark.parametrize(
    ("name", "format"),
    [
        ("a.csv", "csv"),
        ("a.TSV.gz", "csv"),
        ("a.dat", "csv"),
        ("a.log", "csv"),
        ("b.jsonl.zst", "jsonl"),
        ("b.json", "jsonl"),
        ("c.parquet", "parquet"),
        ("d.xlsm", "excel"),
        ("e.2026", None),
        ("gz", None),
    ],
)
def test_a_name_tells_the_format(name: str, format: str | None) -> None:  # noqa: A002
    assert format_of_name(name) == format


@pytest.mark.parametrize(
    ("name", "data", "kind"),
    [
        ("a.csv", b"a,b\n", "csv"),
        ("a.jsonl", b'{"a": 1}\n', "jsonl"),
        ("a.log", b'{"a": 1}\n', "jsonl"),
        ("a.2026", b' \n {"a": 1}\n', "jsonl"),
        ("a.2026", "{}".encode("utf-16"), "jsonl"),
        ("a.parquet", b"a,b\n", "csv"),
        ("a", b"", None),
    ],
)
def test_the_content_tells_the_format_where_the_name_does_not(
    tmp_path: Path, name: str, data: bytes, kind: str | None
) -> None:
    with open_input(written(tmp_path, data, name)) as opened:
        assert opened.kind == kind
        assert opened.read() == (b"{}" if name == "a.2026" and b"\0" in data else data)


@pytest.mark.parametrize("compress", [bytes, gzip.compress])
def test_a_file_of_another_program_is_translated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compress: Any
) -> None:
    def recognised(head: bytes, reading: Reading) -> str | None:
        return "excel" if head.startswith(b"PK") else None

    def translate(kind: str, file: Any, reading: Reading, by: Any) -> Any:
        assert (kind, by) == ("excel", ("host",))
        assert file.seek(0, os.SEEK_END) == 100_002
        file.seek(0)
        return exports.ExportText(iter([b"a,b\n", b"1,%d\n" % len(file.read())]))

    monkeypatch.setattr(exports, "recognised", recognised)
    monkeypatch.setattr(exports, "translate", translate)
    path = written(tmp_path, compress(b"PK" + bytes(100_000)))
    found = InputProfile()
    with text_lines(path, Reading(), found, ("host",)) as chunks:
        assert [line for chunk in chunks for line in chunk] == ["a,b", "1,100002"]
    assert found.kind == "csv"
    assert found.written["format"] == "excel"
    with open_input(path, by=("host",)) as opened:
        assert not opened.plain


def test_what_cannot_be_opened_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    hint = "\nhint: give the path of a file, or - for standard input"
    found = "expected a file that can be read, found: "
    assert refusal(tmp_path / "none.csv") == f"{found}No such file or directory{hint}"
    assert refusal(tmp_path) == f"{found}Is a directory{hint}"
    assert refusal(tmp_path / "loop") == f"{found}Too many levels of symbolic links{hint}"
    assert refusal("a\0b") == f"{found}embedded null byte{hint}"


@pytest.mark.skipif(os.name != "posix", reason="has no FIFOs")
def test_a_fifo_is_read_to_its_writers_end(tmp_path: Path) -> None:
    path = tmp_path / "fifo"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_bytes, args=(gzip.compress(TEXT.encode()),))
    writer.start()
    assert lines_of(path) == LINES
    writer.join()


def test_standard_input_is_read_like_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in = io.TextIOWrapper(io.BytesIO(gzip.compress(TEXT.encode("latin-1"))))
    monkeypatch.setattr(sys, "stdin", stand_in)
    found = InputProfile()
    assert lines_of("-", found) == LINES
    assert found.written == {"compression": "gzip", "encoding": LATIN}
    assert found.kind == "csv"
    assert not stand_in.closed
