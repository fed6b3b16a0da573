"""CreditCard: two days of European card payments, frauds labelled."""

from pathlib import Path

from newnormal.datasets.base import Dataset, Entry
from newnormal.datasets.reading import as_labels, one_stream, read_header, read_numbers

_FILE = "creditcard.csv"


def _read(folder: Path, stream: str) -> Dataset:  # noqa: ARG001 - there is only one
    path = folder / _FILE
    names = read_header(path, ("Time", "Amount", "Class"))
    features = [column for column, name in enumerate(names) if name not in ("Time", "Class")]
    table = read_numbers(path, skip=1, columns=[*features, names.index("Class")])
    half = len(table) // 2
    return Dataset(
        name="CreditCard",
        train=table[:half, :-1],
        test=table[half:, :-1],
        labels=as_labels(table[half:, -1], path),
        channels=tuple(names[column] for column in features),
    )


ENTRY = Entry(
    name="CreditCard",
    title="card payments of two days, 492 frauds among 284,807",
    source="https://www.kaggle.com/datasets/mlg-ulb/creditcardfraud",
    licence="ODbL 1.0, contents DbCL 1.0, as quoted by others",
    period="none: one sample a payment",
    split="Time dropped; the first half of the rows is train, its frauds included",
    files=(_FILE,),
    folders=("CreditCard",),
    list_streams=one_stream(_FILE),
    read=_read,
)
