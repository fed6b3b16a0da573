"""What is asked of an experiment, and how all of them are run: find, compute, gather.

Each experiment says which streams and models it is usually about, and which lines a stream has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import NamedTuple, Unpack

from newnormal.errors import NewnormalError, ParameterError
from newnormal.experiments.entrants import Entrant, entrants
from newnormal.experiments.experiment import Draw, Experiment, Line, Page
from newnormal.experiments.lab import Lab, LabOptions
from newnormal.experiments.paper import SEEDS
from newnormal.experiments.rows import Row, rows_named
from newnormal.experiments.streams import Roots, Stream, Streams, where_to_get

__all__ = ["Asked", "Found", "Plan", "command", "find_streams"]


class Asked(LabOptions, total=False):
    """What narrows an experiment, as `Plan.of` says; and a lab's options, where none is given."""

    datasets: Sequence[str] | None
    models: Sequence[str] | None
    rows: Sequence[str] | None
    seeds: Sequence[int] | None
    extra: str | PathLike[str] | None


@dataclass(frozen=True)
class Plan:
    """What was asked of an experiment."""

    lab: Lab
    datasets: Sequence[str] | None
    models: Sequence[str] | None
    asked_rows: Sequence[str] | None
    seeds: tuple[int, ...]
    extra: str | PathLike[str] | None

    @classmethod
    def of(
        cls,
        roots: Roots | Lab,
        *,
        datasets: Sequence[str] | None = None,
        models: Sequence[str] | None = None,
        rows: Sequence[str] | None = None,
        seeds: Sequence[int] | None = None,
        extra: str | PathLike[str] | None = None,
        **lab_options: Unpack[LabOptions],
    ) -> Plan:
        """Return a plan; None stands for what the experiment usually has.

        Parameters
        ----------
        roots
            Folders that hold data sets, or a `Lab`.
        datasets
            Names such as ``"SMD/1-4"`` or ``"NAB"``.
        models
            Names of models, or classes by import path.
        rows
            Some of ``"frozen"``, ``"DT"``, ``"TTA"``, ``"DT+TTA"``.
        seeds
            One fit each; None: the paper's five.
        extra
            A TOML file of further models.
        **lab_options
            As `Lab`'s: cache, processes, compute, progress, overrides; for where `roots` is none.
        """
        lab = roots if isinstance(roots, Lab) else Lab(roots, **lab_options)
        rows_named(rows)
        if seeds is not None and not seeds:
            raise ParameterError(
                "seeds: expected at least one, found none", hint="the paper's are 2021 to 2025"
            )
        return cls(lab, datasets, models, rows, SEEDS if seeds is None else tuple(seeds), extra)

    @property
    def rows(self) -> tuple[Row, ...]:
        """The rows that may be run."""
        return rows_named(self.asked_rows)

    def entrants(self, usual: Sequence[str]) -> list[Entrant]:
        """Return who takes part."""
        return entrants(self.models, usual, self.extra)

    def streams(self, usual: Sequence[str]) -> list[str]:
        """Return the names of streams to look for."""
        return self.lab.streams.chosen(self.datasets, usual)

    def command(self, name: str) -> str:
        """Return the command that runs an experiment again."""
        return command(
            name,
            datasets=self.datasets,
            models=self.models,
            rows=self.asked_rows,
            seeds=None if self.seeds == SEEDS else self.seeds,
            extra=None if self.extra is None else [Path(self.extra).name],
            set=[
                f"{place}.{option}={value}"
                for place, options in self.lab.overrides.items()
                for option, value in options.items()
            ],
        ) + ("" if self.lab.compute else " --computed")

    def conduct(
        self,
        name: str,
        usual: Sequence[str],
        lines_of: Callable[[Stream], Iterable[Line]],
        *,
        pages: Mapping[str, Page],
        draw: Draw | None = None,
    ) -> Experiment:
        """Compute what the lines of each stream need, and return what came of it.

        Parameters
        ----------
        name
            The experiment.
        usual
            Names of streams, for where none are asked for.
        lines_of
            From a stream to its lines; those in rows that were not asked for are left out.
        pages, draw
            As `Experiment`'s.
        """
        found = find_streams(self.lab.streams, self.streams(usual))
        lines = [
            line for stream in found.streams for line in lines_of(stream) if line.row in self.rows
        ]
        asked = [(line, line.units(self.lab)) for line in lines]
        results = self.lab.run(unit for _, units in asked for unit in units)
        # Where the lab does not compute, that may be less than was asked for.
        came = results.outcomes.keys() | results.failures.keys()
        with_units = [
            (line, tuple(unit for unit in units if unit in came))
            for line, units in asked
            if not came.isdisjoint(units)
        ]
        shown = {line.stream.name for line, _ in with_units}
        nothing = [line.stream.name for line in lines if line.stream.name not in shown]
        return Experiment(
            name=name,
            lab=self.lab,
            lines=tuple(with_units),
            outcomes=results.outcomes,
            failures=results.failures,
            not_run={**found.not_run, **dict.fromkeys(nothing, "not computed")},
            command=self.command(name),
            pages=pages,
            draw=draw,
        )


class Found(NamedTuple):
    """The streams that were asked for and are there, and why others are not."""

    streams: list[Stream]
    not_run: dict[str, str]


def find_streams(streams: Streams, names: Sequence[str]) -> Found:
    """Read each of the streams named that is there."""
    found = Found([], {})
    for name in names:
        if not streams.has(name):
            found.not_run[name] = where_to_get(name)
            continue
        try:
            found.streams.append(streams.about(name))
        except NewnormalError as error:
            found.not_run[name] = f"failed: {type(error).__name__}: {error}"
    return found


def command(name: str, **options: Sequence[object] | None) -> str:
    """Return the command that runs an experiment with some options.

    >>> command("main", datasets=["SMD/1-4"], models=None, seeds=[1, 2], set=["a.b=1", "c.d=2"])
    'newnormal reproduce main --data DIR --datasets SMD/1-4 --seeds 1,2 --set a.b=1 --set c.d=2'
    """
    parts = [f"newnormal reproduce {name} --data DIR"]
    for option, values in options.items():
        if values and option == "set":
            parts += [f"--set {value}" for value in values]
        elif values:
            parts.append(f"--{option} {','.join(map(str, values))}")
    return " ".join(parts)
