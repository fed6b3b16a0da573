"""What a file's name tells about its format."""

from os import PathLike
from pathlib import PurePath

from newnormal.tabular.reading import Format
from newnormal.tabular.text.compression import COMPRESSED

ENDINGS: dict[str, Format] = {
    ".csv": "csv",
    ".tsv": "csv",
    ".txt": "csv",
    ".dat": "csv",
    ".log": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".parquet": "parquet",
    ".xlsx": "excel",
    ".xlsm": "excel",
}


def format_of_name(path: str | PathLike[str]) -> Format | None:
    """Return the format that a file's name tells, None if it tells none.

    >>> format_of_name("plant.ndjson"), format_of_name("2026.CSV.gz"), format_of_name("plant")
    ('jsonl', 'csv', None)
    """
    endings = [ending.lower() for ending in PurePath(path).suffixes]
    if endings and endings[-1] in COMPRESSED:
        endings.pop()
    return ENDINGS.get(endings[-1]) if endings else None


def stem_of(path: str | PathLike[str]) -> str:
    """Return a file's name without the endings of its format and of its compression.

    >>> stem_of("hosts/web-1.eu.csv.gz"), stem_of("plant.xlsx")
    ('web-1.eu', 'plant')
    """
    name = PurePath(path)
    if name.suffix.lower() in COMPRESSED:
        name = name.with_suffix("")
    return name.stem if name.suffix.lower() in ENDINGS else name.name
