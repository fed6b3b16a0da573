"""One fit, judged as each row of an ablation under each of its thresholds."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from newnormal.datasets import Dataset, load
from newnormal.experiments.paper import Setting
from newnormal.experiments.rows import FROZEN, Fitted, Row
from newnormal.metrics import Confusion, adjusted_confusion, auprc, auroc, best_f1, confusion
from newnormal.types import Ints, Verdicts

__all__ = ["Run", "Task", "forget_data", "judge"]


@dataclass(frozen=True)
class Task:
    """One fit and all that is judged with it."""

    setting: Setting
    root: Path
    seed: int
    rows: tuple[Row, ...]

    def __str__(self) -> str:
        return f"{self.setting.name}, seed {self.seed}"


@dataclass(frozen=True, kw_only=True)
class Run:
    """One row of the ablation, judged once over the test part.

    Attributes
    ----------
    measures
        Which of F1 and F1-PA the paper used this threshold for.
    oracle
        Whether the threshold was chosen with the test labels.
    learned, restored
        Learning steps taken, and times the guard against divergence stepped in.
    best_f1, best_f1_threshold
        The best F1 any threshold gives on this run's own scores: an oracle.
    """

    dataset: str
    row: str
    seed: int
    measures: tuple[str, ...]
    rule: str
    oracle: bool
    tau: float
    f1: float
    precision: float
    recall: float
    accuracy: float
    tp: int
    fp: int
    fn: int
    tn: int
    adjusted_f1: float
    adjusted_precision: float
    adjusted_recall: float
    adjusted_accuracy: float
    adjusted_tp: int
    adjusted_fp: int
    adjusted_fn: int
    adjusted_tn: int
    auroc: float
    auprc: float
    best_f1: float
    best_f1_threshold: float
    learned: int
    restored: int


def judge(task: Task) -> list[Run]:
    """Fit once, then judge the test part as each row, under each of its thresholds."""
    setting = task.setting
    data = _load(setting.name, task.root)
    fitted = Fitted.on(data.train, setting, task.seed)
    frozen = fitted.as_row(FROZEN, np.inf).run(data.test)
    oracle = best_f1(data.labels, frozen.scores).threshold
    runs = []
    for row in task.rows:
        for rule, serves in setting.thresholds[row.name].distinct().items():
            tau = fitted.threshold(rule, oracle)
            detector = fitted.as_row(row, tau)
            verdicts = detector.run(data.test)
            runs.append(
                Run(
                    dataset=setting.name,
                    row=row.name,
                    seed=task.seed,
                    measures=serves,
                    rule=str(rule),
                    oracle=rule.oracle,
                    tau=tau,
                    learned=detector.counters["learned"],
                    restored=detector.counters["restored"],
                    **_measured(data.labels, verdicts),
                )
            )
    return runs


def _measured(labels: Ints, verdicts: Verdicts) -> dict[str, Any]:
    plain = confusion(labels, verdicts.anomalous)
    adjusted = adjusted_confusion(labels, verdicts.anomalous)
    best = best_f1(labels, verdicts.scores)
    return {
        **_ratios_and_counts(plain),
        **{f"adjusted_{name}": value for name, value in _ratios_and_counts(adjusted).items()},
        "auroc": auroc(labels, verdicts.scores),
        "auprc": auprc(labels, verdicts.scores),
        "best_f1": best.value,
        "best_f1_threshold": best.threshold,
    }


def _ratios_and_counts(counts: Confusion) -> dict[str, float]:
    ratios = ("f1", "precision", "recall", "accuracy")
    return {name: getattr(counts, name) for name in ratios} | asdict(counts)


def forget_data() -> None:
    """Let go of the data set kept for the next seed."""
    _load.cache_clear()


@lru_cache(maxsize=1)
def _load(name: str, root: Path) -> Dataset:
    return load(name, root)
