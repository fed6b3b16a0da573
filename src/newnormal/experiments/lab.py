"""From units to outcomes: what is on disk is read, what is not is computed, in several processes.

::

    lab = Lab("data", cache="results/.newnormal-cache", processes=2)
    stream = lab.streams.about("SMD/1-4")
    units = [lab.unit(stream, model, row, stream.setting.thresholds[row].f1, seed) ...]
    outcomes, failures = lab.run(units)
    outcomes[units[0]].judgement.scores      # one a test sample
    lab.detector(outcomes[units[0]])         # ready to run again, for what else it says
"""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

from newnormal.detector import BaseDetector
from newnormal.experiments.judging import Bench
from newnormal.experiments.paper import Rule, options
from newnormal.experiments.rows import Fitted, row_named
from newnormal.experiments.store import Store
from newnormal.experiments.streams import Roots, Stream, Streams, forget_data, load_stream
from newnormal.experiments.sweep import Failure, Progress, sweep
from newnormal.experiments.unit import Outcome, Unit
from newnormal.metrics import auroc

__all__ = ["Lab", "LabOptions", "Results"]


class LabOptions(TypedDict, total=False):
    """As `Lab`'s parameters of the same names."""

    cache: str | PathLike[str] | None
    processes: int
    compute: bool
    progress: Progress | None
    overrides: Mapping[str, Mapping[str, Any]] | None


class Results(NamedTuple):
    """What came of some units: an outcome or an error each."""

    outcomes: dict[Unit, Outcome]
    failures: dict[Unit, str]


@dataclass(frozen=True)
class _Task:
    """The units that share a fit, and where what comes of them goes."""

    stream: Stream
    fit_path: Path
    units: tuple[tuple[Unit, Path], ...]

    def __str__(self) -> str:
        unit = self.units[0][0]
        return f"{unit.dataset}, {unit.model}, seed {unit.seed}"


class Lab:
    """Where experiments are run.

    Needs the extra ``eval``.

    Parameters
    ----------
    roots
        A folder that holds data sets, or several; the first that has a data set gives it.
    cache
        Folder of results, made where it is not there. None: a temporary one, gone with the lab.
    processes
        How many to run in, each with one thread. 1: in this process.
    compute
        Whether to compute what is not on disk; if not, it is left out of the results.
    progress
        Called with how many units are done, how many there are, and which came last.
    overrides
        Options of the detector by model, such as ``{"thoc": {"batch": 8}}``; those for one data
        set alone, under ``"thoc@CreditCard"``, go before.
    """

    def __init__(
        self,
        roots: Roots,
        *,
        cache: str | PathLike[str] | None = None,
        processes: int = 1,
        compute: bool = True,
        progress: Progress | None = None,
        overrides: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        auroc([0, 1], [0, 1])  # without scikit-learn, say so now and not after the first fit
        self.streams = Streams(roots)
        if cache is None:
            cache = tempfile.mkdtemp(prefix="newnormal-")
            weakref.finalize(self, shutil.rmtree, cache, ignore_errors=True)
        self.store = Store(Path(cache))
        self.processes = processes
        self.compute = compute
        self.progress = progress
        self.overrides = overrides or {}
        self._overrides = _by_stream(self.overrides, self.streams)
        self.computed = 0

    def unit(
        self,
        stream: Stream,
        model: str,
        row: str,
        rule: Rule,
        seed: int,
        *,
        steady: bool = False,
        **own: Any,
    ) -> Unit:
        """Return a unit with the paper's settings for the model on the stream.

        `own` and then the lab's overrides for the model replace options of the detector.
        """
        asked = {
            **own,
            **self._overrides.get((model, None), {}),
            **self._overrides.get((model, stream.name), {}),
        }
        chosen = replace(options(model, stream.setting), **asked)
        if chosen.stride and chosen.window % chosen.stride:
            chosen = replace(chosen, stride=chosen.window)
        return Unit(
            dataset=stream.name,
            model=model,
            row=row_named(row).name,
            rule=rule,
            seed=seed,
            options=chosen,
            steady=steady,
        )

    def run(self, units: Iterable[Unit]) -> Results:
        """Compute those units that are not on disk, and return what came of all.

        A lab that does not compute leaves out what is not on disk: that is no failure.
        """
        wanted = list(dict.fromkeys(units))
        outcomes: dict[Unit, Outcome] = {}
        failures: dict[Unit, str] = {}
        left: dict[tuple[Path, str], list[tuple[Unit, Path]]] = {}
        for unit in wanted:
            stream = self.streams.about(unit.dataset)
            try:
                path = self.store.path(unit, stream)
            except Exception as error:  # noqa: BLE001 - a model that cannot be had is one row's
                failures[unit] = f"{type(error).__name__}: {error}"
                continue
            outcome = self.store.read(path)
            if outcome is not None:
                # The file may be of a unit that differs in what does not count.
                outcomes[unit] = replace(outcome, unit=unit)
            elif self.compute:
                key = self.store.fit_path(unit, stream), stream.name
                left.setdefault(key, []).append((unit, path))
        tasks = [
            _Task(self.streams.about(name), fit_path, tuple(group))
            for (fit_path, name), group in left.items()
        ]
        for result in self._swept(tasks, len(wanted), len(outcomes)):
            if isinstance(result, Failure):
                failures |= {unit: result.error for unit, _ in result.task.units}
            else:
                outcomes |= result.outcomes
                failures |= result.failures
        self.computed += sum(unit in outcomes for group in left.values() for unit, _ in group)
        return Results(
            {unit: outcomes[unit] for unit in wanted if unit in outcomes},
            {unit: failures[unit] for unit in wanted if unit in failures},
        )

    def has_detector(self, outcome: Outcome) -> bool:
        """Return whether `detector` need not fit, or may."""
        stream = self.streams.about(outcome.unit.dataset)
        return self.compute or self.store.fit_path(outcome.unit, stream).is_file()

    def detector(self, outcome: Outcome) -> BaseDetector:
        """Return the detector of an outcome as it was before it judged the test part."""
        unit = outcome.unit
        stream = self.streams.about(unit.dataset)
        fitted = _fitted(self.store.fit_path(unit, stream), unit, stream)
        row = row_named(unit.row)
        return fitted.as_row(row, outcome.tau, decay=unit.options.decay, lr=outcome.lr)

    def _swept(
        self, tasks: Sequence[_Task], total: int, done: int
    ) -> list[Results | Failure[_Task]]:
        def progress(what: str, more: int = 0) -> None:
            nonlocal done
            done += more
            if self.progress is not None:
                self.progress(done, total, what)

        progress("starting")
        try:
            return sweep(
                _work,
                tasks,
                processes=self.processes,
                on_done=lambda task: progress(str(task), len(task.units)),
            )
        finally:
            forget_data()


def _by_stream(
    overrides: Mapping[str, Mapping[str, Any]], streams: Streams
) -> dict[tuple[str, str | None], Mapping[str, Any]]:
    """Return options by model and stream; None stands for every stream."""
    found: dict[tuple[str, str | None], Mapping[str, Any]] = {}
    for place, asked in overrides.items():
        model, _, dataset = place.partition("@")
        for name in streams.chosen([dataset], []) if dataset else [None]:
            found[model, name] = {**found.get((model, name), {}), **asked}
    return found


def _work(task: _Task) -> Results:
    """Fit, or read the fit; then judge unit by unit, keeping each as it is done."""
    data = load_stream(task.stream.name, task.stream.root)
    bench = Bench(_fitted(task.fit_path, task.units[0][0], task.stream), data)
    outcomes, failures = {}, {}
    for unit, path in task.units:
        try:
            outcome, judgement = bench.judge(unit, path)
            Store.write(outcome, judgement)
            outcomes[unit] = outcome
        except Exception as error:  # noqa: BLE001 - one failed unit must not lose the others
            failures[unit] = f"{type(error).__name__}: {error}"
    return Results(outcomes, failures)


def _fitted(path: Path, unit: Unit, stream: Stream) -> Fitted:
    fitted = Store.read_fit(path)
    if fitted is None:
        fitted = Fitted.on(load_stream(stream.name, stream.root).train, unit)
        Store.write_fit(path, fitted)
    return fitted
