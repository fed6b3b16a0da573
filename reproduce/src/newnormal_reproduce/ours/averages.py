"""Means over streams and collections of streams, seed by seed, and how pages write them."""

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import TypeAlias

from newnormal_reproduce.engine.published import Figure

# The values of a measure in one row of a table, by stream and seed.
Values: TypeAlias = Mapping[str, Mapping[int, float]]


def shared(rows: Iterable[Values], streams: Sequence[str]) -> list[str]:
    """Return the streams on which rows are compared: those of every row that has any of them.

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

    Every collection has the same weight. The seeds are those that all streams have; None if there
    is no such seed.

    >>> values = {"a": {1: 0.0}, "b": {1: 0.5, 2: 1.0}, "c": {1: 1.0}}
    >>> macro(values, [["a", "b"], ["c"]])
    Figure(mean=0.625, std=None)
    """
    groups = [streams for streams in collections if streams]
    all_models = [values.get(stream, {}).keys() for streams in groups for stream in streams]
    seeds = sorted(set.intersection(*map(set, all_models))) if all_models else []
    if not seeds:
        return None
    return Figure.of(
        [
            fmean(fmean(values[stream][seed] for stream in group) for group in groups)
            for seed in seeds
        ]
    )


def covered(start: float, end: float, here: float) -> float | None:
    """Return the share of the distance from `start` up to `end` at `here`; None if there is none.

    >>> covered(0.25, 0.75, 0.5), covered(0.25, 0.75, 1.0), covered(0.5, 0.5, 1.0)
    (0.5, 1.5, None)
    """
    return None if end <= start else (here - start) / (end - start)


def listed(names: Sequence[str]) -> str:
    """Return names as a list in English.

    >>> listed(["a", "b", "c"]), listed(["a"])
    ('a, b and c', 'a')
    """
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def percent(figure: Figure) -> str:
    """Return a share as a percentage.

    >>> percent(Figure(0.0125, 0.001)), percent(Figure(0.5, None))
    ('1.2% ± 0.1', '50.0%')
    """
    spread = "" if figure.std is None else f" ± {100 * figure.std:.1f}"
    return f"{figure.mean:.1%}{spread}"


def two(figure: Figure) -> str:
    """Return a figure with two decimals.

    >>> two(Figure(1.0, 0.125)), two(Figure(0.5, None))
    ('1.00 ± 0.12', '0.50')
    """
    return f"{figure.mean:.2f}" + ("" if figure.std is None else f" ± {figure.std:.2f}")


def short(kind: str) -> str:
    """Return the name of a kind of generated stream without the common prefix.

    >>> short("drift/wave-level")
    'wave-level'
    """
    return kind.partition("/")[2]
