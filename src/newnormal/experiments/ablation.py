"""The paper's ablation: its MLP frozen, detrended (DT), adapted (TTA) and both, on its data sets.

table:Ablation, table:Ablation_Full and table:Appendix:DetailExpAb, and the MLP's columns of
table:Main_Exp. The threshold decides what is learned, so a row that adapts is run once for each
threshold rule the paper used with it, and every figure stands with its threshold.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from os import PathLike
from pathlib import Path

from newnormal import datasets as benchmarks
from newnormal.errors import DatasetError, ParameterError
from newnormal.experiments import page
from newnormal.experiments.comparison import Comparison, paper_figure
from newnormal.experiments.judging import Run, Task, forget_data, judge
from newnormal.experiments.paper import SEEDS, Figure, Setting, settings
from newnormal.experiments.rows import ROWS, Row, rows_named
from newnormal.experiments.sweep import Failure, Progress, sweep
from newnormal.metrics import auroc

__all__ = ["Ablation", "ablation"]


@dataclass(frozen=True)
class Ablation:
    """What came of it: runs, data sets that are not there, and runs that failed.

    Attributes
    ----------
    runs
        One a data set, seed, row and threshold.
    absent
        Where to get each data set that was not found, by name.
    failures
        What went wrong, by task.
    command
        The command that does this again.
    """

    runs: tuple[Run, ...]
    absent: dict[str, str]
    failures: tuple[Failure[Task], ...]
    command: str

    def comparisons(self) -> list[Comparison]:
        """Return each measure of each row beside the paper's.

        A row that adapts has AUROC and AUPRC for each of its thresholds. The paper prints one
        figure and does not say for which; it is set beside the run with the threshold for F1,
        because on MSL P-15, TTA, the other's AUROC is 0.1 below, in its own appendix as well.
        """
        return [
            compared
            for setting in settings()
            for row in ROWS
            for compared in _compare(setting, row, self.runs)
        ]

    def csv(self) -> str:
        """Return a line a run, and a line for each data set not found and each failure."""
        text = io.StringIO()
        names = ["status", *(field.name for field in fields(Run)), "note"]
        table = csv.DictWriter(text, names, lineterminator="\n")
        table.writeheader()
        for run in self.runs:
            table.writerow(
                {"status": "ok"} | {name: _cell(value) for name, value in asdict(run).items()}
            )
        for name, hint in self.absent.items():
            table.writerow({"status": "absent", "dataset": name, "note": hint})
        for failure in self.failures:
            task = failure.task
            table.writerow(
                {
                    "status": "failed",
                    "dataset": task.setting.name,
                    "seed": task.seed,
                    "note": failure.error,
                }
            )
        return text.getvalue()

    def markdown(self) -> str:
        """Return the page: tables of ours, the paper's and the difference."""
        return page.ablation(
            self.comparisons(),
            self.runs,
            not_run=self.absent
            | {str(failure.task): f"failed: {failure.error}" for failure in self.failures},
            command=self.command,
        )

    def write(self, folder: str | PathLike[str]) -> tuple[Path, Path]:
        """Write ``ablation.md`` and ``ablation.csv`` into a folder, and return their paths."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        paths = folder / "ablation.md", folder / "ablation.csv"
        for path, text in zip(paths, (self.markdown(), self.csv()), strict=True):
            path.write_text(text, encoding="utf-8", newline="\n")
        return paths


def ablation(
    roots: str | PathLike[str] | Iterable[str | PathLike[str]],
    *,
    datasets: Sequence[str] | None = None,
    seeds: Sequence[int] = SEEDS,
    rows: Sequence[str] | None = None,
    processes: int = 1,
    progress: Progress | None = None,
) -> Ablation:
    """Run the paper's ablation on those of its data sets that are under the given folders.

    Each data set and seed is fitted once; its rows share the weights. Needs the extra ``eval``.

    Parameters
    ----------
    roots
        A folder that holds data sets, or several; the first that has a data set gives it.
    datasets
        Names such as ``"SMD/1-4"``; None: the paper's nine.
    seeds
        One fit each.
    rows
        Rows to run: ``"frozen"``, ``"DT"``, ``"TTA"``, ``"DT+TTA"``; None: all four.
    processes
        How many to run in; 2 need about half the time on two cores.
    progress
        Called after each fit and its runs with how many are done, how many there are, and which.
    """
    auroc([0, 1], [0, 1])  # without scikit-learn, say so now and not after the first fit
    folders = _folders(roots)
    wanted, chosen = settings(datasets), rows_named(rows)
    if not seeds:
        raise ParameterError(
            "seeds: expected at least one, found none", hint="the paper's are 2021 to 2025"
        )
    places = {name: folder for folder in reversed(folders) for name in benchmarks.available(folder)}
    tasks = [
        Task(setting, places[setting.name], seed, chosen)
        for setting in wanted
        if setting.name in places
        for seed in seeds
    ]
    try:
        results = sweep(judge, tasks, processes=processes, progress=progress)
    finally:
        forget_data()
    return Ablation(
        runs=tuple(run for result in results if not isinstance(result, Failure) for run in result),
        absent={
            setting.name: _where(setting.name) for setting in wanted if setting.name not in places
        },
        failures=tuple(result for result in results if isinstance(result, Failure)),
        command=_command(datasets, seeds, rows),
    )


def _compare(setting: Setting, row: Row, runs: Iterable[Run]) -> Iterable[Comparison]:
    mine = [run for run in runs if (run.dataset, run.row) == (setting.name, row.name)]
    for order, (rule, serves) in enumerate(setting.thresholds[row.name].distinct().items()):
        under = [run for run in mine if run.rule == str(rule)]
        if not under:
            continue
        # Scores of a row that does not adapt are the same under any threshold.
        ranking = ("auroc", "auprc") if order == 0 or row.adapt else ()
        for measure in serves + ranking:
            yield Comparison(
                dataset=setting.name,
                row=row.name,
                measure=measure,
                rule=rule,
                tau=Figure.of([run.tau for run in under]),
                ours=Figure.of([getattr(run, measure) for run in under]),
                paper=paper_figure(setting.name, row.name, measure)
                if order == 0 or measure in serves
                else None,
            )


def _folders(roots: str | PathLike[str] | Iterable[str | PathLike[str]]) -> list[Path]:
    folders = [Path(roots)] if isinstance(roots, str | PathLike) else [*map(Path, roots)]
    for folder in folders:
        if not folder.is_dir():
            raise DatasetError(
                f"expected a folder with data sets, found no folder {str(folder)!r}",
                hint="`newnormal data list` says which data sets there are and where to get them",
            )
    return folders


def _where(name: str) -> str:
    owner = name.partition("/")[0]
    return next(entry.hint for entry in benchmarks.catalogue() if entry.name == owner)


def _command(
    datasets: Sequence[str] | None, seeds: Sequence[int], rows: Sequence[str] | None
) -> str:
    command = "newnormal reproduce ablation --data DIR"
    if datasets is not None:
        command += f" --datasets {','.join(datasets)}"
    if tuple(seeds) != SEEDS:
        command += f" --seeds {','.join(map(str, seeds))}"
    if rows is not None:
        command += f" --rows {','.join(rows)}"
    return command


def _cell(value: object) -> object:
    if isinstance(value, float):
        return f"{value:.6g}"
    return " ".join(value) if isinstance(value, tuple) else value
