"""Training against the same training in PyTorch."""

from __future__ import annotations

import os

import torch

from benchmarks import eager
from benchmarks.report import NotMeasured, Row, Section, Target
from benchmarks.series import correlated
from benchmarks.timing import Task, in_turns
from newnormal import M2N2, NewnormalError
from newnormal.core.scaling import Scaler
from newnormal.datasets import load
from newnormal.models.base import Training
from newnormal.models.mlp import MLP
from newnormal.types import Floats

SHAPE = (23_706, 38)  # SMD 1-4's history
EQUAL = 1e-3  # relative, of the first epoch's loss
NUDGES = (1e-7, 1e-6, 1e-5)

NOTES = (
    "`M2N2.fit`, whole: validation, scaling, training, scoring the history for its "
    "threshold. Against it PyTorch's training alone, on windows scaled and cut beforehand: AdamW, "
    "the same initial weights, the same batches in the same order.",
    "Window 5, latent 16, batch 8.",
    "The first epoch's losses are checked to be equal. Later ones drift apart as rounding grows: "
    "the last row is PyTorch beside itself, started from weights larger by "
    f"{', '.join(f'{nudge:g}' for nudge in NUDGES)}, and has the largest difference of the three.",
)


def measure(quick: bool) -> Section:
    """Time both trainings, and compare their losses."""
    torch.set_num_threads(1)
    name, history = _history()
    training = Training(stride=5, epochs=2 if quick else 10, batch=8, seed=0)
    model = MLP(5, history.shape[1], 16)
    scaled = Scaler.fit(history).apply(history)
    detector = M2N2(window=5, latent=16, batch=training.batch, epochs=training.epochs)

    theirs = eager.train(model, scaled, training)
    ours = detector.fit(history).losses_
    if not abs(ours[0] / theirs[0] - 1) < EQUAL:
        raise NotMeasured(f"the first epoch's losses are {ours[0]:.6g} and {theirs[0]:.6g}")
    nudged = [eager.train(model, scaled, training, nudge) for nudge in NUDGES]
    us, them = in_turns(
        2 if quick else 5,
        Task(lambda: detector, lambda it: it.fit(history)),
        Task(lambda: model, lambda it: eager.train(it, scaled, training)),
    )
    rows = [
        Row(
            f"{name}, {training.epochs} epochs",
            {
                "PyTorch, s": them.best,
                "newnormal, s": us.best,
                "times faster": us.times_faster_than(them),
                "typically": us.typically_faster_than(them),
                "first loss differs by": abs(ours[0] / theirs[0] - 1),
                "lowest loss differs by": abs(min(ours) / min(theirs) - 1),
            },
            Target("times faster", 5, at_least=True),
        ),
        Row(
            "PyTorch beside itself",
            {
                "first loss differs by": max(abs(each[0] / theirs[0] - 1) for each in nudged),
                "lowest loss differs by": max(abs(min(each) / min(theirs) - 1) for each in nudged),
            },
        ),
    ]
    return Section("Fitting", NOTES, "history", rows)


def _history() -> tuple[str, Floats]:
    folder = os.environ.get("NEWNORMAL_DATA")
    if folder:
        try:
            return "SMD 1-4", load("SMD/1-4", root=folder).train
        except NewnormalError:
            pass
    return "synthetic, in the shape of SMD 1-4 (NEWNORMAL_DATA is not set)", correlated(*SHAPE)
