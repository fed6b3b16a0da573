"""SMAP and MSL: telemetry of a satellite and a Mars rover, with anomalies experts labelled."""

import csv
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from newnormal.datasets.base import Dataset, Entry
from newnormal.datasets.reading import open_text, present, read_array, read_header, stems
from newnormal.errors import DatasetError

_LABELS = "labeled_anomalies.csv"


def _anomalies(folder: Path) -> list[tuple[str, str, list[list[int]]]]:
    """Return (channel, spacecraft, intervals) of each line of upstream's table."""
    path = folder / _LABELS
    read_header(path, ("chan_id", "spacecraft", "anomaly_sequences"))
    with open_text(path) as file:
        lines = list(csv.DictReader(file))
    try:
        return [
            (line["chan_id"], line["spacecraft"], json.loads(line["anomaly_sequences"]))
            for line in lines
        ]
    except (TypeError, ValueError) as error:
        raise DatasetError(
            f"{path}: expected intervals such as [[2149, 2349]] in anomaly_sequences, "
            f"found otherwise: {error}"
        ) from error


def _streams(spacecraft: str, folder: Path) -> set[str]:
    if not present(folder / _LABELS):
        return set()
    labelled = {channel for channel, craft, _ in _anomalies(folder) if craft == spacecraft}
    return labelled & stems(folder / "train", "*.npy") & stems(folder / "test", "*.npy")


def _read(spacecraft: str, folder: Path, stream: str) -> Dataset:
    owners = {channel: craft for channel, craft, _ in _anomalies(folder)}
    if owners.get(stream) != spacecraft:
        belongs = f"{stream} of {owners[stream]}" if stream in owners else "no such channel"
        raise DatasetError(
            f"{folder / _LABELS}: expected the channel {stream} of {spacecraft}, found {belongs}"
        )
    train = read_array(folder / "train" / f"{stream}.npy")
    test = read_array(folder / "test" / f"{stream}.npy")
    labels = np.zeros(len(test), dtype=np.int64)
    # SMAP's P-2 has two lines in the table; both count.
    for channel, _, intervals in _anomalies(folder):
        if channel == stream:
            for start, end in intervals:
                labels[start:end] = 1
    commands = train.shape[-1] - 1
    return Dataset(
        name=f"{spacecraft}/{stream}",
        train=train,
        test=test,
        labels=labels,
        channels=("telemetry", *(f"command {number}" for number in range(1, commands + 1))),
    )


def _entry(name: str, title: str) -> Entry:
    streams: Callable[[Path], set[str]] = partial(_streams, name)
    read: Callable[..., Dataset] = partial(_read, name)
    return Entry(
        name=name,
        title=title,
        source="https://github.com/khundman/telemanom (its data.zip and labeled_anomalies.csv)",
        licence="Caltech, BSD-style (3 clauses)",
        period="not published",
        split="upstream's train and test; an interval's end is not part of it",
        files=("train/{stream}.npy", "test/{stream}.npy", _LABELS),
        folders=("SMAP_MSL", name, "telemanom", "NASA"),
        list_streams=streams,
        read=read,
    )


SMAP = _entry("SMAP", "telemetry of the SMAP satellite (54 channels of 25 features)")
MSL = _entry("MSL", "telemetry of the Mars rover Curiosity, MSL (27 channels of 55 features)")
