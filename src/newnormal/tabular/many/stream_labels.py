"""Labels of many streams: read as one more channel, and then taken apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from newnormal.errors import InputError
from newnormal.tabular.many.splitting import StreamTables
from newnormal.tabular.table import Table
from newnormal.types import Ints


def label_beside(channels: str | Sequence[str], label: str) -> tuple[str, ...]:
    """Return channels, and the column of labels behind them."""
    names = (channels,) if isinstance(channels, str) else tuple(channels)
    return (*(name for name in names if name != label), label)


def split_labels(streams: StreamTables, label: str) -> StreamTables:
    """Return the streams with the channel `label` as their labels."""
    rows: dict[str, Ints] | None = None if streams.rows is None else {}
    labelled = StreamTables({}, rows, dict(streams.errors), streams.profile)
    for name, table in streams.tables.items():
        try:
            labelled.tables[name] = _split(table, label)
        except InputError as error:
            labelled.errors[name] = error
        else:
            if labelled.rows is not None and streams.rows is not None:
                labelled.rows[name] = streams.rows[name]
    return labelled


def _split(table: Table, label: str) -> Table:
    channels = table.channels or ()
    if label not in channels or len(channels) == 1:
        what = "channels beside the labels" if label in channels else "labels"
        raise InputError(f"column {label!r}: expected {what}, found none")
    column = channels.index(label)
    labels = table.values[:, column]
    if np.isnan(labels).all():
        raise InputError(f"column {label!r}: expected labels, found none")
    wrong = np.flatnonzero(~np.isin(labels, (0.0, 1.0)))
    if len(wrong):
        value = labels[wrong[0]]
        raise InputError(
            f"column {label!r}, sample {wrong[0]}: expected a label 0 or 1, "
            f"found {'none' if np.isnan(value) else f'{value:g}'}"
        )
    return replace(
        table,
        values=np.ascontiguousarray(np.delete(table.values, column, axis=1)),
        channels=tuple(name for name in channels if name != label),
        labels=labels.astype(np.int64),
    )
