"""A sheet of an Excel workbook as CSV text."""

import re
import warnings
from collections.abc import Iterator
from datetime import date, datetime, time, timedelta
from io import BytesIO
from typing import Any, BinaryIO

from newnormal.errors import InputError, extra
from newnormal.tabular.exports.wide import csv_line
from newnormal.texts import listed

OLE = bytes.fromhex("D0CF11E0A1B11AE1")
ZIP = b"PK\x03\x04"

_LINES = 4_096  # written at a time
_MOST_ROWS = 1_048_576  # of a sheet; a damaged one may number a row far beyond
_ENCRYPTED = "EncryptedPackage".encode("utf-16-le")
# What a number format says in quotes, in brackets or behind a backslash is no part of a date.
_QUOTED = re.compile(r'"[^"]*"|\\.|\[(?!h+\]|m+\]|s+\])[^\]]*\]', re.IGNORECASE)


def translate(file: BinaryIO, sheet: str | None) -> tuple[str, Iterator[bytes]]:
    """Return the name of the sheet that is read and its rows as CSV text.

    Rows are given as they are, titles and units too. Dates are ISO 8601, errors such as #N/A are
    empty cells, empty rows and columns behind the last one are left out. Without a `sheet` it is
    the first that has cells.
    """
    content = file.read()
    if content.startswith(OLE):
        raise _ole(content)
    if not content.startswith(ZIP):
        raise InputError(
            "expected an Excel workbook (.xlsx), found something else",
            hint="if it is text, leave out --input-format excel (format=)",
        )
    _check_archive(content)
    with extra("excel", "openpyxl"):
        import openpyxl
    try:
        with warnings.catch_warnings():  # of styles and extensions, which do not matter here
            warnings.simplefilter("ignore")
            book = openpyxl.load_workbook(BytesIO(content), read_only=True, data_only=True)
            name, lines = _sheet(book, sheet)
    except InputError:
        raise
    except Exception as error:  # noqa: BLE001 - openpyxl raises anything for a damaged file
        raise _damaged(error) from None
    return name, _padded(lines)


def _ole(content: bytes) -> InputError:
    if _ENCRYPTED in content:
        return InputError(
            "expected an Excel workbook, found one that is protected by a password",
            hint="save it without a password, or as CSV",
        )
    return InputError(
        "expected an Excel workbook (.xlsx), found the old format .xls",
        hint="save it as .xlsx or CSV",
    )


def _damaged(error: Exception) -> InputError:
    reason = " ".join(str(error).split()) or type(error).__name__
    return InputError(
        f"expected an Excel workbook, found a damaged one: {reason[:200]}",
        hint="open it in Excel and save it again, or save it as CSV",
    )


def _check_archive(content: bytes) -> None:
    import zipfile

    try:
        with zipfile.ZipFile(BytesIO(content)) as archive:
            names = archive.namelist()
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
        raise _damaged(error) from None
    if any(name.startswith("xl/") for name in names):
        if any(name.lower() == "xl/workbook.bin" for name in names):
            raise InputError(
                "expected an Excel workbook (.xlsx), found the binary format .xlsb",
                hint="save it as .xlsx or CSV",
            )
        return
    if "content.xml" in names:
        raise InputError(
            "expected an Excel workbook (.xlsx), found one of LibreOffice (.ods)",
            hint="save it as .xlsx or CSV",
        )
    raise InputError(
        f"expected an Excel workbook, found an archive that holds {listed(names)}",
        hint="unpack it first",
    )


def _sheet(book: Any, wanted: str | None) -> tuple[str, list[tuple[int, str]]]:
    sheets = {worksheet.title: worksheet for worksheet in book.worksheets}
    if wanted is not None:
        alike = [name for name in sheets if name.strip().lower() == wanted.strip().lower()]
        name = wanted if wanted in sheets else alike[0] if len(alike) == 1 else None
        if name is None:
            raise InputError(
                f"expected a sheet called {wanted!r}, found only {listed(list(sheets))}",
                hint="name one of these with --sheet (sheet=)",
            )
        if not (lines := _lines(sheets[name])):
            raise InputError(f"sheet {name!r}: expected cells, found none")
        return name, lines
    for name, sheet in sheets.items():
        lines = _lines(sheet)
        if lines:
            return name, lines
    raise InputError(f"expected cells, found none in sheets {listed(list(sheets))}")


def _lines(sheet: Any) -> list[tuple[int, str]]:
    """Return for each row up to the last that is not empty its number of cells and its text.

    Empty rows stay, so that the number of a line is that of its row.
    """
    sheet.reset_dimensions()  # programs other than Excel often write wrong ones
    lines: list[tuple[int, str]] = []
    empty = 0
    for row in sheet.iter_rows(max_row=_MOST_ROWS):
        cells = [_text(cell) for cell in row]
        while cells and cells[-1] == "":
            cells.pop()
        if cells:
            lines.extend([(0, "")] * empty)
            lines.append((len(cells), csv_line(cells)))
            empty = 0
        else:
            empty += 1
    return lines


def _padded(lines: list[tuple[int, str]]) -> Iterator[bytes]:
    width = max(count for count, _ in lines)
    for start in range(0, len(lines), _LINES):
        part = lines[start : start + _LINES]
        yield "".join(
            [f"{text}{',' * (width - count) if count else ''}\n" for count, text in part]
        ).encode()


def _text(cell: Any) -> str:
    value = cell.value
    if value is None or cell.data_type == "e":
        return ""
    if isinstance(value, str):
        return "" if value.isspace() else value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    return _moment(value, cell.number_format)


def _moment(value: Any, number_format: str | None) -> str:
    if isinstance(value, timedelta):
        return _clock(value)
    if isinstance(value, datetime) and value.time() == time() and not _has_clock(number_format):
        value = value.date()
    if isinstance(value, datetime | time):
        return value.isoformat(timespec="milliseconds" if value.microsecond else "seconds")
    return value.isoformat() if isinstance(value, date) else str(value)


def _has_clock(number_format: str | None) -> bool:
    text = _QUOTED.sub("", number_format or "").lower()
    return "h" in text or "s" in text


def _clock(value: timedelta) -> str:
    """Return a duration as HH:MM:SS.

    >>> _clock(timedelta(hours=26, seconds=5))
    '26:00:05'
    """
    seconds = round(value.total_seconds())
    sign, seconds = ("-", -seconds) if seconds < 0 else ("", seconds)
    return f"{sign}{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
