"""A trial, which is one stream, model, variant, threshold and seed; and its outcome."""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from newnormal.metrics import Report
from newnormal_reproduce.engine.arrays import Bools, Floats
from newnormal_reproduce.engine.published import Rule, TrialOptions


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One thing to compute, with everything that decides its result."""

    dataset: str  # the stream, such as "SMD/1-4"
    model: str  # as in `Competitor`; "default" is `newnormal.Detector`
    variant: str  # "frozen", "DT", "TTA" or "DT+TTA"
    rule: Rule  # of the threshold
    seed: int  # of the fit
    options: TrialOptions
    steady: bool = False  # as in `Line`

    def __str__(self) -> str:
        return f"{self.dataset}, {self.model} {self.variant} at {self.rule}, seed {self.seed}"

    def fit_facts(self) -> dict[str, Any]:
        """Return what decides the fitted weights, besides data and code."""
        facts = asdict(self.options)
        del facts["decay"], facts["lr"]
        return {**facts, "model": self.model, "seed": self.seed}

    def facts(self) -> dict[str, Any]:
        """Return the trial as JSON values."""
        return {**asdict(self), "rule": str(self.rule)}

    @classmethod
    def from_facts(cls, facts: Mapping[str, Any]) -> "Trial":
        """Return the trial of these `facts`."""
        return cls(
            **{
                **facts,
                "rule": Rule.parse(facts["rule"]),
                "options": TrialOptions(**facts["options"]),
            }
        )


class SampleVerdicts(NamedTuple):
    """The score, threshold and verdict of each test sample."""

    scores: Floats
    thresholds: Floats
    anomalous: Bools


@dataclass(frozen=True, kw_only=True)
class TrialOutcome:
    """The result of a trial."""

    trial: Trial
    tau: float  # the threshold
    lr: float  # the trial's, or a tenth, a hundredth ... of it if it is `steady`
    learned: int  # learning steps
    restored: int  # times the guard against divergence put good weights back
    fit_seconds: float
    seconds: float  # to judge the test part once
    report: Report
    path: Path  # of the file that holds all of it, scores included

    @property
    def judgement(self) -> SampleVerdicts:
        """Scores, thresholds and verdicts of every test sample, read from the file."""
        with np.load(self.path, allow_pickle=False) as file:
            return SampleVerdicts(file["scores"], file["thresholds"], file["anomalous"])

    def to_json(self) -> str:
        """Return everything but the arrays and the path."""
        facts = {field.name: getattr(self, field.name) for field in fields(self)}
        del facts["path"]
        facts["tau"] = repr(self.tau)  # may be infinite
        facts |= {"trial": self.trial.facts(), "report": self.report.as_dict()}
        return json.dumps(facts, allow_nan=False)

    @classmethod
    def from_json(cls, text: str, path: Path) -> "TrialOutcome":
        """Return the outcome that `to_json` wrote."""
        facts = json.loads(text)
        report: dict[str, Any] = {
            name: math.nan if value is None else value for name, value in facts["report"].items()
        }
        return cls(
            **{
                **facts,
                "trial": Trial.from_facts(facts["trial"]),
                "tau": float(facts["tau"]),
                "report": Report(**report),
                "path": path,
            }
        )
