"""Means over streams and collections of streams, seed by seed; and how far one has come."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import TypeAlias

from newnormal.experiments.paper import Figure

__all__ = ["Values", "covered", "macro", "shared"]

# What one row of a table has of a measure, by stream and seed.
Values: TypeAlias = Mapping[str, Mapping[int, float]]


def shared(rows: Iterable[Values], streams: Sequence[str]) -> list[str]:
    """Return the streams that every row has which has any of them: rows are compared on those.

    Examples
    --------
    >>> one, two, none = {"a": {1: 0.5}, "b": {1: 0.5}}, {"b": {1: 0.5}}, {}
    >>> shared([one, two, none], ["a", "b", "c"])
    ['b']
    """
    taking_part = [row for row in rows if any(row.get(stream) for stream in streams)]
    return [
        stream for stream in streams if taking_part and all(row.get(stream) for row in taking_part)
    ]


def macro(values: Values, collections: Iterable[Sequence[str]]) -> Figure | None:
    """Return the mean over collections of the mean over their streams, and its spread over seeds.

    A collection counts once, however many streams it has. The seeds are those that all streams
    have; None where there is no such seed.

    Examples
    --------
    >>> values = {"a": {1: 0.0}, "b": {1: 0.5, 2: 1.0}, "c": {1: 1.0}}
    >>> macro(values, [["a", "b"], ["c"]])
    Figure(mean=0.625, std=None)
    """
    groups = [streams for streams in collections if streams]
    everyone = [values.get(stream, {}).keys() for streams in groups for stream in streams]
    seeds = sorted(set.intersection(*map(set, everyone))) if everyone else []
    if not seeds:
        return None
    return Figure.of(
        [
            fmean(fmean(values[stream][seed] for stream in group) for group in groups)
            for seed in seeds
        ]
    )


def covered(start: float, end: float, here: float) -> float | None:
    """Return which share of the way from `start` up to `end` has been made; None without a way.

    Examples
    --------
    >>> covered(0.25, 0.75, 0.5), covered(0.25, 0.75, 1.0), covered(0.5, 0.5, 1.0)
    (0.5, 1.5, None)
    """
    return None if end <= start else (here - start) / (end - start)
