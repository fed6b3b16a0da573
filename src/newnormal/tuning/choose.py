"""How `Detector` chooses its settings, from its history alone.

`choose` is the whole of it: train on early history, test on held-out history with planted faults
(`scenarios`), decide which votes count and how fast each expert learns, and train on all of
history.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from newnormal.models.base import OnEpoch, Training
from newnormal.models.committee import Committee, Plan
from newnormal.tuning.scenarios import average_precision, scenarios
from newnormal.types import Floats, Floats32

__all__ = [
    "HELD_OUT",
    "LATENT",
    "LEAST",
    "SMOOTHED",
    "WINDOW",
    "Choice",
    "Chosen",
    "Member",
    "choose",
]

WINDOW = 5
LATENT = 16
_BATCH = 64
_STEPS = 3000  # training steps an expert gets: enough for the losses to settle on all sets tried
_EPOCHS = 200  # at most
_WINDOWS = 96_000  # at most; a longer history is trained on at a larger stride

HELD_OUT = 0.3  # share of history kept for the test
LEAST = 40 * WINDOW  # samples with anything observed, below which there is no test
_LONGEST = 20_000  # samples held out at most, the newest
_ROUNDS = 4
_RATES = (0.0, 0.001, 0.003, 0.01)
_ENOUGH = 1 / 3  # a vote that finds less than this share of what the best finds gets weight 0
# The autocorrelation of scores that are smoothed. Where neighbouring scores do not correlate,
# smoothing blurs; where they are nearly the same, there is nothing left to smooth.
SMOOTHED = (0.25, 0.85)
_SMOOTHING = 1.0  # samples of half-life


@dataclass(frozen=True)
class Member:
    """One vote that was tested.

    Attributes
    ----------
    memory
        Half-life of the trend it subtracts, in samples.
    linear
        Whether it is a linear subspace, not an autoencoder.
    lr
        The learning rate it was given; 0 for a linear subspace.
    average_precision
        On the planted faults; NaN where nothing was tested.
    weight
        Its part of the score; 0 if it does not count.
    """

    memory: float
    linear: bool
    lr: float
    average_precision: float
    weight: float


@dataclass(frozen=True)
class Choice:
    """What was chosen, and what the choice rests on.

    Attributes
    ----------
    plan
        What the committee is made of.
    members
        Every vote that was tested, whether it counts or not.
    held_out
        Samples of history that the test used; 0 where history was too short.
    ensemble_ap
        Average precision of the committee on the planted faults; NaN without a test.
    autocorrelation
        Correlation of neighbouring scores on held-out history; NaN without a test.
    samples
        Samples of history.
    left_out
        Values of history that were left out, a sentence a channel.
    """

    plan: Plan
    members: tuple[Member, ...]
    held_out: int
    ensemble_ap: float
    autocorrelation: float
    samples: int
    left_out: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return it as values of JSON."""
        members = [
            {name: _finite(value) for name, value in asdict(member).items()}
            for member in self.members
        ]
        return {
            "plan": self.plan.to_json(),
            "members": members,
            "held_out": self.held_out,
            "ensemble_ap": _finite(self.ensemble_ap),
            "autocorrelation": _finite(self.autocorrelation),
            "samples": self.samples,
            "left_out": list(self.left_out),
        }

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> Choice:
        """Return what `to_json` was made from."""
        members = tuple(
            Member(
                math.inf if each["memory"] is None else float(each["memory"]),
                bool(each["linear"]),
                float(each["lr"]),
                _number(each["average_precision"]),
                float(each["weight"]),
            )
            for each in facts["members"]
        )
        return cls(
            Plan.from_json(facts["plan"]),
            members,
            int(facts["held_out"]),
            _number(facts["ensemble_ap"]),
            _number(facts["autocorrelation"]),
            int(facts["samples"]),
            tuple(map(str, facts.get("left_out", ()))),
        )


@dataclass(frozen=True, eq=False)
class Chosen:
    """A committee, trained, with the scores that a threshold is taken from."""

    choice: Choice
    model: Committee
    fitted: Floats32
    losses: list[float]
    scores: Floats


def choose(
    history: Floats,
    *,
    seed: int,
    epochs: int | None = None,
    batch: int | None = None,
    on_epoch: OnEpoch | None = None,
) -> Chosen:
    """Decide from scaled history (T, C) alone, and train what was decided.

    Parameters
    ----------
    history
        Standardised; NaN where missing.
    seed
        Of training and of what is planted.
    epochs, batch
        How training goes through the history; None: as many epochs as make it settle.
    on_epoch
        Called after each epoch of each expert.
    """

    def train(part: Floats, plan: Plan) -> tuple[Committee, Floats32, list[float]]:
        model = Committee(WINDOW, history.shape[1], LATENT, plan)
        training = _training(len(part), seed, epochs, batch, on_epoch)
        return model, *model.fit(part, training)

    held_out = history[-min(max(int(len(history) * HELD_OUT), 1), _LONGEST) :]
    early = history[: len(history) - len(held_out)]
    if _enough(early, 1 - HELD_OUT) and _enough(held_out, HELD_OUT):
        model, fitted, _ = train(early, Plan())
        choice, votes = _tested(model, fitted, held_out, seed, len(history))
        model, fitted, losses = train(history, choice.plan)
    else:
        plan = Plan()
        model, fitted, losses = train(history, plan)
        votes = _clean(model.votes(history, fitted, plan.rates))
        members = _members(plan, [math.nan] * len(plan.votes), [True] * len(plan.votes))
        choice = Choice(plan, members, 0, math.nan, math.nan, len(history))
    return Chosen(choice, model, fitted, losses, _scores(choice.plan, votes))


def _enough(part: Floats, share: float) -> bool:
    """Whether a part of history has its share of the samples that a test takes."""
    return int((~np.isnan(part)).any(axis=1).sum()) >= share * LEAST


def _tested(
    model: Committee, fitted: Floats32, held_out: Floats, seed: int, samples: int
) -> tuple[Choice, Floats]:
    """Return what held-out history suggests, and the votes that count on it as it was."""
    plan = replace(model.plan, rates=_rates(model, fitted, held_out))
    tested = [
        (faulty, model.votes(series, fitted, plan.rates))
        for series, faulty in scenarios(held_out, _ROUNDS, seed)
    ]
    precision = np.mean(
        [[average_precision(faulty, vote) for vote in votes] for faulty, votes in tested], axis=0
    )
    counts = precision >= _ENOUGH * precision.max()

    normal = _clean(model.votes(held_out, fitted, plan.rates)[counts])
    autocorrelation = _autocorrelation(normal.mean(axis=0))
    counted = zip(plan.votes, counts.tolist(), strict=True)
    final = replace(
        plan,
        rates=_rates_in_use(plan, counts.tolist()),
        votes=tuple(vote if keep else replace(vote, weight=0.0) for vote, keep in counted),
        smoothing=_SMOOTHING if SMOOTHED[0] <= autocorrelation < SMOOTHED[1] else 0.0,
    )
    ensemble_ap = np.mean(
        [average_precision(faulty, _scores(final, votes[counts])) for faulty, votes in tested]
    )
    members = _members(plan, precision.tolist(), counts.tolist())
    choice = Choice(final, members, len(held_out), float(ensemble_ap), autocorrelation, samples)
    return choice, normal


def _rates_in_use(plan: Plan, counts: list[bool]) -> tuple[float, ...]:
    """Return the rates, 0 where the vote of the autoencoder that would learn does not count."""
    votes = zip(plan.votes, counts, strict=True)
    learning = {vote.expert for vote, keep in votes if keep and not vote.linear}
    return tuple(rate if j in learning else 0.0 for j, rate in enumerate(plan.rates))


def _training(
    samples: int,
    seed: int,
    epochs: int | None,
    batch: int | None,
    on_epoch: OnEpoch | None = None,
) -> Training:
    batch = _BATCH if batch is None else batch
    stride = -(-samples // _WINDOWS)
    steps = max(((samples - WINDOW) // stride + 1) / batch, 1)
    settled = min(max(math.ceil(_STEPS / steps), 2), _EPOCHS)
    epochs = settled if epochs is None else epochs
    return Training(stride, epochs, batch, seed, on_epoch=on_epoch)


def _clean(votes: Floats) -> Floats:
    return votes[:, ~np.isnan(votes).any(axis=0)]


def _scores(plan: Plan, votes: Floats) -> Floats:
    """Return the committee's scores from the votes that count; NaN where there are none."""
    weights = np.array([plan.votes[at].weight for at in plan.counted])
    smooth: Floats = weights @ votes / weights.sum()
    keep = 0.0 if plan.smoothing == 0 else 0.5 ** (1 / plan.smoothing)
    judged = np.flatnonzero(~np.isnan(smooth))
    for before, t in pairwise(judged):
        smooth[t] = keep * smooth[before] + (1 - keep) * smooth[t]
    scores: Floats = np.exp(np.minimum(smooth, 700.0))
    return scores


def _rates(model: Committee, fitted: Floats32, held_out: Floats) -> tuple[float, ...]:
    """Return the rate at which each expert, learning as it goes, expects held-out history best."""
    J = len(model.plan.memories)
    losses = np.full((len(_RATES), J), np.inf)
    for at, rate in enumerate(_RATES):
        votes = _clean(model.votes(held_out, fitted, (rate,) * J))
        for v, vote in enumerate(model.plan.votes):
            if not vote.linear:
                losses[at, vote.expert] = votes[v].mean()
    return tuple(_RATES[at] for at in np.argmin(losses, axis=0))


def _autocorrelation(scores: Floats) -> float:
    if len(scores) < 3 or scores[1:].std() == 0 or scores[:-1].std() == 0:
        return 0.0
    return float(np.corrcoef(scores[:-1], scores[1:])[0, 1])


def _members(plan: Plan, precision: list[float], counts: list[bool]) -> tuple[Member, ...]:
    total = sum(vote.weight for vote, keep in zip(plan.votes, counts, strict=True) if keep)
    return tuple(
        Member(
            plan.memories[vote.expert],
            vote.linear,
            0.0 if vote.linear else plan.rates[vote.expert],
            each,
            vote.weight / total if keep else 0.0,
        )
        for vote, each, keep in zip(plan.votes, precision, counts, strict=True)
    )


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)
