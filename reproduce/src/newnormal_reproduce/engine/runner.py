"""From trials to outcomes: read what is on disk, compute the rest in several processes.

::

    runner = Runner("data", cache="results/.newnormal-cache", processes=2)
    stream = runner.streams.about("SMD/1-4")
    rule = stream.setting.thresholds["DT+TTA"].f1
    trials = [runner.trial(stream, "mlp", "DT+TTA", rule, seed) for seed in (2021, 2022)]
    outcomes, failures = runner.run(trials)
    outcomes[trials[0]].judgement.scores        # one a test sample
    runner.detector(outcomes[trials[0]])        # ready to run again
"""

import shutil
import tempfile
import weakref
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

from newnormal_reproduce.engine.arrays import AnyDetector
from newnormal_reproduce.engine.evaluation import Evaluator
from newnormal_reproduce.engine.fit import TrialFit
from newnormal_reproduce.engine.published import Rule, options
from newnormal_reproduce.engine.series import LabelledFile
from newnormal_reproduce.engine.store import ResultStore
from newnormal_reproduce.engine.streams import (
    DataStream,
    DataStreams,
    Roots,
    forget_data,
    load_stream,
)
from newnormal_reproduce.engine.sweep import Failure, Progress, sweep
from newnormal_reproduce.engine.trial import Trial, TrialOutcome
from newnormal_reproduce.engine.variants import variant_named


class RunnerOptions(TypedDict, total=False):
    """As the parameters of `Runner` with the same names."""

    cache: str | PathLike[str] | None
    processes: int
    compute: bool
    progress: Progress | None
    overrides: Mapping[str, Mapping[str, Any]] | None
    series: Sequence[LabelledFile]


class TrialResults(NamedTuple):
    """An outcome or an error for each trial."""

    outcomes: dict[Trial, TrialOutcome]
    failures: dict[Trial, str]


@dataclass(frozen=True)
class _FitTask:
    """The trials that share a fit, and the paths of their results."""

    stream: DataStream
    fit_path: Path
    trials: tuple[tuple[Trial, Path], ...]

    def __str__(self) -> str:
        trial = self.trials[0][0]
        return f"{trial.dataset}, {trial.model}, seed {trial.seed}"


class Runner:
    """Runs trials and stores their outcomes.

    Parameters
    ----------
    roots
        A folder that holds data sets, or several; the first that has a data set is used.
    cache
        Folder of results, made if it does not exist. None: a temporary one, removed with the
        runner.
    processes
        How many processes to use, each with one thread. 1: this process.
    compute
        Whether to compute what is not on disk; if not, the results leave it out.
    progress
        Called with the number of trials done, the number in all, and which was done last.
    overrides
        Options of the detector by model, such as ``{"thoc": {"batch": 8}}``. Options for one data
        set alone, under ``"thoc@CreditCard"``, have precedence.
    series
        Labelled files of a user, each a further stream.

    `computed`: how many results were computed, not read. `failed`: what had no result, and why: the
    data sets, by model and reason.
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
        series: Sequence[LabelledFile] = (),
    ) -> None:
        self.streams = DataStreams(roots, series)
        if cache is None:
            cache = tempfile.mkdtemp(prefix="newnormal-")
            weakref.finalize(self, shutil.rmtree, cache, ignore_errors=True)
        self.store = ResultStore(Path(cache))
        self.processes = processes
        self.compute = compute
        self.progress = progress
        self.overrides = overrides or {}
        self._overrides = _by_stream(self.overrides, self.streams)
        self.computed = 0
        self.failed: dict[tuple[str, str], list[str]] = {}

    def trial(
        self,
        stream: DataStream,
        model: str,
        variant: str,
        rule: Rule,
        seed: int,
        *,
        steady: bool = False,
        **changed: Any,
    ) -> Trial:
        """Return a trial with the paper's settings for the model on the stream.

        `changed`, and then the runner's overrides for the model, replace options of the detector.
        """
        replaced = {
            **changed,
            **self._overrides.get((model, None), {}),
            **self._overrides.get((model, stream.name), {}),
        }
        chosen = replace(options(model, stream.setting), **replaced)
        if chosen.stride and chosen.window % chosen.stride:
            chosen = replace(chosen, stride=chosen.window)
        return Trial(
            dataset=stream.name,
            model=model,
            variant=variant_named(variant).name,
            rule=rule,
            seed=seed,
            options=chosen,
            steady=steady,
        )

    def run(self, trials: Iterable[Trial]) -> TrialResults:
        """Compute the trials that are not on disk, and return the results of all.

        A runner that does not compute leaves out what is not on disk; that is no failure.
        """
        wanted = list(dict.fromkeys(trials))
        outcomes: dict[Trial, TrialOutcome] = {}
        failures: dict[Trial, str] = {}
        left: dict[tuple[Path, str], list[tuple[Trial, Path]]] = {}
        for trial in wanted:
            stream = self.streams.about(trial.dataset)
            try:
                path = self.store.path(trial, stream)
            except Exception as error:  # noqa: BLE001 - a missing model fails its own trials only
                failures[trial] = f"{type(error).__name__}: {error}"
                continue
            if (outcome := self.store.read(path)) is not None:
                # The file may be of a trial that differs in what does not affect the result.
                outcomes[trial] = replace(outcome, trial=trial)
            elif self.compute:
                key = self.store.fit_path(trial, stream), stream.name
                left.setdefault(key, []).append((trial, path))
        tasks = [
            _FitTask(self.streams.about(name), fit_path, tuple(group))
            for (fit_path, name), group in left.items()
        ]
        for result in self._sweep(tasks, len(wanted), len(outcomes)):
            if isinstance(result, Failure):
                failures |= {trial: result.error for trial, _ in result.task.trials}
            else:
                outcomes |= result.outcomes
                failures |= result.failures
        for trial, why in failures.items():
            self.note_failure(trial.model, why, trial.dataset)
        self.computed += sum(trial in outcomes for group in left.values() for trial, _ in group)
        return TrialResults(
            {trial: outcomes[trial] for trial in wanted if trial in outcomes},
            {trial: failures[trial] for trial in wanted if trial in failures},
        )

    def note_failure(self, what: str, why: str, where: str = "") -> None:
        """Add to `failed`; a reason may begin with ``failed:``, as pages have it."""
        places = self.failed.setdefault((what, why.removeprefix("failed: ")), [])
        if where and where not in places:
            places.append(where)

    def has_fit(self, outcome: TrialOutcome) -> bool:
        """Return whether the fit of an outcome is on disk, or may be computed again."""
        stream = self.streams.about(outcome.trial.dataset)
        return self.compute or ResultStore.has_fit(self.store.fit_path(outcome.trial, stream))

    def fit(self, outcome: TrialOutcome) -> TrialFit:
        """Return the fit of an outcome; fit again if it is not on disk."""
        stream = self.streams.about(outcome.trial.dataset)
        return _fit(self.store.fit_path(outcome.trial, stream), outcome.trial, stream)

    def detector(self, outcome: TrialOutcome) -> AnyDetector:
        """Return the detector of an outcome as it was before the test part."""
        trial = outcome.trial
        variant = variant_named(trial.variant)
        return self.fit(outcome).as_variant(
            variant, outcome.tau, decay=trial.options.decay, lr=outcome.lr
        )

    def _sweep(
        self, tasks: Sequence[_FitTask], total: int, done: int
    ) -> list[TrialResults | Failure[_FitTask]]:
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
                on_done=lambda task: progress(str(task), len(task.trials)),
            )
        finally:
            forget_data()


def _by_stream(
    overrides: Mapping[str, Mapping[str, Any]], streams: DataStreams
) -> dict[tuple[str, str | None], Mapping[str, Any]]:
    """Return options by model and stream; None means every stream."""
    options_by_stream: dict[tuple[str, str | None], Mapping[str, Any]] = {}
    for key, changed in overrides.items():
        model, _, dataset = key.partition("@")
        for name in streams.named([dataset]) if dataset else [None]:
            options_by_stream[model, name] = {**options_by_stream.get((model, name), {}), **changed}
    return options_by_stream


def _work(task: _FitTask) -> TrialResults:
    """Fit, or read the fit; then evaluate trial by trial, and store each outcome at once."""
    data = load_stream(task.stream.name, task.stream.root)
    evaluator = Evaluator(_fit(task.fit_path, task.trials[0][0], task.stream), data)
    outcomes, failures = {}, {}
    for trial, path in task.trials:
        try:
            outcome, judgement = evaluator.evaluate(trial, path)
            ResultStore.write(outcome, judgement)
            outcomes[trial] = outcome
        except Exception as error:  # noqa: BLE001 - one failed trial must not lose the others
            failures[trial] = f"{type(error).__name__}: {error}"
    return TrialResults(outcomes, failures)


def _fit(path: Path, trial: Trial, stream: DataStream) -> TrialFit:
    fit = ResultStore.read_fit(path, trial.model)
    if fit is None:
        fit = TrialFit.on(load_stream(stream.name, stream.root).train, trial)
        ResultStore.write_fit(path, fit)
    return fit
