"""A Parquet file as CSV text."""

from collections.abc import Iterator, Sequence
from io import BytesIO
from typing import TYPE_CHECKING, BinaryIO

from newnormal.errors import InputError, extra
from newnormal.tabular.reading import Reading
from newnormal.texts import listed

if TYPE_CHECKING:
    import polars as pl

MAGIC = b"PAR1"
_ENCRYPTED = b"PARE"
_ROWS = 16_384  # written at a time


def translate(file: BinaryIO, reading: Reading, by: Sequence[str]) -> Iterator[bytes]:
    """Return a Parquet file's rows as CSV text; times with a zone have their offset.

    Raise an InputError if it cannot be read, or has columns of lists or structs that are not left
    out. Raise a MissingExtraError if polars is not installed.
    """
    content = file.read()
    if content.startswith(_ENCRYPTED):
        raise InputError("expected Parquet, found an encrypted file", hint="save it unencrypted")
    with extra("parquet", "polars"):
        import polars as pl
    try:
        frame = pl.read_parquet(BytesIO(content))
    except (pl.exceptions.PolarsError, OSError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise InputError(f"expected Parquet, found: {reason[:200]}") from None
    except BaseException as error:  # a panic of polars on damaged files is no Exception
        if type(error).__name__ != "PanicException":
            raise
        raise InputError("expected Parquet, found a damaged file") from None
    del content
    frame = frame.select(_taken(frame, reading, by))
    nested = [name for name, kind in frame.schema.items() if kind.is_nested() or kind == pl.Binary]
    if nested:
        raise InputError(
            f"expected columns of numbers, texts and times, found lists, structs or bytes in "
            f"{listed(nested)}",
            hint="leave them out with --drop NAME (drop=)",
        )
    if not frame.width or not frame.height:
        raise InputError("expected samples, found an empty table")
    return _written(frame)


def _taken(frame: "pl.DataFrame", reading: Reading, by: Sequence[str]) -> list[str]:
    """Return the columns without those dropped; these and those not chosen need no text."""
    kept = [name for name in frame.columns if name not in reading.drop]
    if reading.columns is None:
        return kept
    chosen = {*reading.columns, *reading.time, *by, reading.label}
    return [name for name in kept if name in chosen or not frame.schema[name].is_nested()]


def _written(frame: "pl.DataFrame") -> Iterator[bytes]:
    texts = [_text(frame.schema[name], name) for name in frame.columns]
    for start in range(0, frame.height, _ROWS):
        part = frame.slice(start, _ROWS).select(texts)
        yield part.write_csv(include_header=start == 0).encode()


def _text(kind: "pl.DataType", name: str) -> "pl.Expr":
    import polars as pl

    column = pl.col(name)
    if kind.is_float() or kind.is_decimal():
        column = column.cast(pl.Float64).fill_nan(None)  # a float32 as the float64 that it is
    elif isinstance(kind, pl.Datetime):
        zone = {None: "", "UTC": "Z"}.get(kind.time_zone, "%:z")
        column = column.dt.strftime(f"%Y-%m-%dT%H:%M:%S%.f{zone}")
    elif kind == pl.Duration:
        column = column.dt.total_microseconds() / 1e6
    elif kind == pl.Time:
        column = column.dt.strftime("%H:%M:%S")
    elif kind in (pl.String, pl.Categorical, pl.Enum):
        column = column.cast(pl.String).str.replace_all(r"[\r\n]+", " ")
    return column
