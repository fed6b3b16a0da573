"""What is requested of an experiment, and how every experiment runs: find, compute, collect.

Each experiment defines its usual streams and models, and the lines of a stream.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import NamedTuple, Unpack

from newnormal.errors import NewnormalError, ParameterError
from newnormal_reproduce.engine.competitors import Competitor, competitors
from newnormal_reproduce.engine.experiment import Draw, Experiment, Line, Page
from newnormal_reproduce.engine.published import SEEDS
from newnormal_reproduce.engine.runner import Runner, RunnerOptions
from newnormal_reproduce.engine.streams import DataStream, DataStreams, Roots, where_to_get
from newnormal_reproduce.engine.sweep import Progress
from newnormal_reproduce.engine.variants import Variant, variants_named

_FAILED = "failed: "


class Request(RunnerOptions, total=False):
    """What narrows an experiment, as in `TrialPlan.of`, and options of a new `Runner`."""

    datasets: Sequence[str] | None
    models: Sequence[str] | None
    variants: Sequence[str] | None
    seeds: Sequence[int] | None
    extra: str | PathLike[str] | None


@dataclass(frozen=True)
class TrialPlan:
    """What is requested of an experiment."""

    runner: Runner
    datasets: Sequence[str] | None
    models: Sequence[str] | None
    requested_variants: Sequence[str] | None
    seeds: tuple[int, ...]
    extra: str | PathLike[str] | None

    @classmethod
    def of(
        cls,
        roots: Roots | Runner,
        *,
        datasets: Sequence[str] | None = None,
        models: Sequence[str] | None = None,
        variants: Sequence[str] | None = None,
        seeds: Sequence[int] | None = None,
        extra: str | PathLike[str] | None = None,
        **runner_options: Unpack[RunnerOptions],
    ) -> TrialPlan:
        """Return a plan; None means what the experiment usually has.

        Parameters
        ----------
        roots
            Folders that hold data sets, or a `Runner`.
        datasets
            Names such as ``"SMD/1-4"`` or ``"NAB"``.
        models
            Names of models, or classes by import path.
        variants
            Some of ``"frozen"``, ``"DT"``, ``"TTA"``, ``"DT+TTA"``.
        seeds
            One fit each; None: the paper's five.
        extra
            A TOML file of further models.
        **runner_options
            As in `Runner`: cache, processes, compute, progress, overrides, series. Ignored if
            `roots` is a `Runner`.
        """
        runner = roots if isinstance(roots, Runner) else Runner(roots, **runner_options)
        variants_named(variants)
        if seeds is not None and not seeds:
            raise ParameterError(
                "seeds: expected at least one, found none", hint="the paper's are 2021 to 2025"
            )
        chosen = SEEDS if seeds is None else tuple(seeds)
        return cls(runner, datasets, models, variants, chosen, extra)

    @property
    def variants(self) -> tuple[Variant, ...]:
        """The variants that may be run."""
        return variants_named(self.requested_variants)

    def competitors(self, usual: Sequence[str]) -> list[Competitor]:
        """Return the models that take part."""
        return competitors(self.models, usual, self.extra)

    def streams(self, usual: Sequence[str]) -> list[str]:
        """Return the names of streams to look for."""
        return self.runner.streams.chosen(self.datasets, usual)

    def command(self, name: str) -> str:
        """Return the command that runs an experiment again."""
        return command(
            name,
            datasets=self.datasets,
            models=self.models,
            variants=self.requested_variants,
            seeds=None if self.seeds == SEEDS else self.seeds,
            extra=None if self.extra is None else [Path(self.extra).name],
            set=[
                f"{place}.{option}={value}"
                for place, options in self.runner.overrides.items()
                for option, value in options.items()
            ],
            series=[str(file) for file in self.runner.streams.series.values()],
        ) + ("" if self.runner.compute else " --computed")

    def conduct(
        self,
        name: str,
        usual: Sequence[str],
        lines_of: Callable[[DataStream], Iterable[Line]],
        *,
        pages: Mapping[str, Page],
        draw: Draw | None = None,
    ) -> Experiment:
        """Compute the trials of each stream's lines, and return the experiment.

        `name`: the experiment. `usual`: names of streams to use if none are requested. `lines_of`:
        from a stream to its lines. Lines of variants that were not requested are left out. `pages`,
        `draw`: as in `Experiment`.
        """
        requested = find_streams(self.runner.streams, self.streams(usual))
        for missing, why in requested.not_run.items():
            if why.startswith(_FAILED):
                self.runner.note_failure(missing, why)
        lines = [
            line
            for stream in requested.streams
            for line in lines_of(stream)
            if line.variant in self.variants
        ]
        planned = [(line, line.trials(self.runner)) for line in lines]
        results = self.runner.run(trial for _, trials in planned for trial in trials)
        # A runner that does not compute may return fewer results than were planned.
        available = results.outcomes.keys() | results.failures.keys()
        with_trials = [
            (line, tuple(trial for trial in trials if trial in available))
            for line, trials in planned
            if not available.isdisjoint(trials)
        ]
        shown = {line.stream.name for line, _ in with_trials}
        nothing = [line.stream.name for line in lines if line.stream.name not in shown]
        return Experiment(
            name=name,
            runner=self.runner,
            lines=tuple(with_trials),
            outcomes=results.outcomes,
            failures=results.failures,
            not_run={**requested.not_run, **dict.fromkeys(nothing, "not computed")},
            command=self.command(name),
            pages=pages,
            draw=draw,
        )


class RequestedStreams(NamedTuple):
    """The requested streams that exist, and why others are missing."""

    streams: list[DataStream]
    not_run: dict[str, str]


def find_streams(
    streams: DataStreams, names: Sequence[str], progress: Progress | None = None
) -> RequestedStreams:
    """Read each of the named streams that exists."""
    requested = RequestedStreams([], {})
    for done, name in enumerate(names):
        if progress is not None:
            progress(done, len(names), name)
        if not streams.has(name):
            requested.not_run[name] = where_to_get(name)
            continue
        try:
            requested.streams.append(streams.about(name))
        except NewnormalError as error:
            requested.not_run[name] = f"{_FAILED}{type(error).__name__}: {error}"
    return requested


def command(name: str, data: str = " --data DIR", **options: Sequence[object] | None) -> str:
    """Return the command that runs an experiment with some options.

    >>> command("main", datasets=["SMD/1-4"], models=None, seeds=[1, 2], set=["a.b=1", "c.d=2"])
    'newnormal reproduce main --data DIR --datasets SMD/1-4 --seeds 1,2 --set a.b=1 --set c.d=2'
    """
    parts = [f"newnormal reproduce {name}{data}"]
    for option, values in options.items():
        if values and option in ("set", "series"):
            parts += [f"--{option} {value}" for value in values]
        elif values:
            parts.append(f"--{option} {','.join(map(str, values))}")
    return " ".join(parts)
