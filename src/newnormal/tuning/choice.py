"""What the self-tuning detector chose, and why."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from newnormal.models.base import OnEpoch, Training
from newnormal.models.committee import Committee, Plan
from newnormal.tuning.rehearsal import average_precision, plays
from newnormal.types import Floats, Floats32

__all__ = ["LATENT", "WINDOW", "Choice", "Member", "choose"]

WINDOW = 5
LATENT = 16
_BATCH = 64
_STEPS = 3000  # training steps an expert gets: enough for the losses to settle on all sets tried
_EPOCHS = 200  # at most
_WINDOWS = 96_000  # at most; a longer history is trained on at a larger stride

_HELD_OUT = 0.3  # share of history kept for the rehearsal
_LEAST = 40 * WINDOW  # samples below which there is none
_LONGEST = 20_000  # samples rehearsed on at most, the newest
_ROUNDS = 4
_RATES = (0.0, 0.001, 0.003, 0.01)
_USUAL_RATE = 0.003
_ENOUGH = 1 / 3  # a vote that finds less than this share of what the best finds is not heard
# Where neighbouring scores tell nothing about each other, smoothing blurs; where they are nearly
# the same, there is nothing left to smooth.
_RELATED = (0.25, 0.85)
_SMOOTHING = 1.0  # samples of half-life


@dataclass(frozen=True)
class Member:
    """One look that was rehearsed.

    Attributes
    ----------
    memory
        Half-life of the trend it subtracts, in samples.
    linear
        Whether it is a linear subspace, not an autoencoder.
    lr
        The learning rate it was given; 0 for a linear subspace.
    found
        Average precision on the planted faults; NaN where nothing was rehearsed.
    weight
        Its say; 0 if it is not heard.
    """

    memory: float
    linear: bool
    lr: float
    found: float
    weight: float


@dataclass(frozen=True)
class Choice:
    """What was chosen, and what the choice rests on.

    Attributes
    ----------
    plan
        Who sits in the committee.
    members
        Every look that was rehearsed, heard or not.
    rehearsed
        Samples of held-out history that the rehearsal used; 0 where history was too short.
    together
        Average precision of the committee on the planted faults; NaN without a rehearsal.
    related
        Correlation of neighbouring scores on held-out history; NaN without a rehearsal.
    samples
        Samples of history.
    """

    plan: Plan
    members: tuple[Member, ...]
    rehearsed: int
    together: float
    related: float
    samples: int

    def explain(self) -> str:
        """Say in plain words and one table what was chosen and why."""
        return _explain(self)

    def to_json(self) -> dict[str, Any]:
        """Return it as values JSON knows."""
        members = [
            {name: _finite(value) for name, value in asdict(member).items()}
            for member in self.members
        ]
        return {
            "plan": self.plan.to_json(),
            "members": members,
            "rehearsed": self.rehearsed,
            "together": _finite(self.together),
            "related": _finite(self.related),
            "samples": self.samples,
        }

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> Choice:
        """Return what `to_json` was made from."""
        members = tuple(
            Member(
                float(each["memory"]),
                bool(each["linear"]),
                float(each["lr"]),
                _number(each["found"]),
                float(each["weight"]),
            )
            for each in facts["members"]
        )
        return cls(
            Plan.from_json(facts["plan"]),
            members,
            int(facts["rehearsed"]),
            _number(facts["together"]),
            _number(facts["related"]),
            int(facts["samples"]),
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
        return model, *model.fit(part, _training(len(part), seed, epochs, batch), on_epoch)

    plan = Plan()
    if len(history) < _LEAST:
        members = _members(plan, [math.nan] * len(plan.votes))
        model, fitted, losses = train(history, plan)
        choice = Choice(plan, members, 0, math.nan, math.nan, len(history))
        votes = _clean(_votes(model, fitted, history, plan.rates))
        return Chosen(choice, model, fitted, losses, _scores(plan, votes))

    held_out = history[-min(int(len(history) * _HELD_OUT), _LONGEST) :]
    early, weights, _ = train(history[: len(history) - len(held_out)], plan)
    plan = replace(plan, rates=_rates(early, weights, held_out))
    found, together = _rehearse(early, weights, held_out, plan, seed)
    heard = [each >= _ENOUGH * max(found) for each in found]
    votes_kept = tuple(vote for vote, keep in zip(plan.votes, heard, strict=True) if keep)
    members = _members(plan, found, heard)

    usual = _clean(_votes(early, weights, held_out, plan.rates)[heard])
    related = _related(usual.mean(axis=0))
    smooth = _SMOOTHING if _RELATED[0] <= related < _RELATED[1] else 0.0
    final = replace(plan, votes=votes_kept, smoothing=smooth)
    model, fitted, losses = train(history, final)
    choice = Choice(final, members, len(held_out), together, related, len(history))
    return Chosen(choice, model, fitted, losses, _scores(final, usual))


def _training(samples: int, seed: int, epochs: int | None, batch: int | None) -> Training:
    batch = _BATCH if batch is None else batch
    stride = -(-samples // _WINDOWS)
    steps = max(((samples - WINDOW) // stride + 1) / batch, 1)
    settled = min(max(math.ceil(_STEPS / steps), 2), _EPOCHS)
    return Training(stride, settled if epochs is None else epochs, batch, seed)


def _votes(model: Committee, fitted: Floats32, series: Floats, rates: tuple[float, ...]) -> Floats:
    """Return each vote on each sample of a scaled series, (V, T); NaN where it has none."""
    return model.hear(series, fitted, rates)


def _clean(votes: Floats) -> Floats:
    return votes[:, ~np.isnan(votes).any(axis=0)]


def _scores(plan: Plan, votes: Floats) -> Floats:
    """Return the committee's scores from its votes (V, T)."""
    say = np.array([vote.weight for vote in plan.votes])
    together: Floats = say @ votes / say.sum()
    keep = 0.0 if plan.smoothing == 0 else 0.5 ** (1 / plan.smoothing)
    smooth = together.copy()
    for t in range(1, len(smooth)):
        smooth[t] = keep * smooth[t - 1] + (1 - keep) * together[t]
    scores: Floats = np.exp(np.minimum(smooth, 700.0))
    return scores


def _rates(model: Committee, fitted: Floats32, held_out: Floats) -> tuple[float, ...]:
    """Return the rate at which each expert, learning as it goes, expects held-out history best."""
    J = len(model.plan.memories)
    losses = np.full((len(_RATES), J), np.inf)
    for at, rate in enumerate(_RATES):
        votes = _clean(_votes(model, fitted, held_out, (rate,) * J))
        for v, vote in enumerate(model.plan.votes):
            if not vote.linear:
                losses[at, vote.expert] = votes[v].mean()
    return tuple(_RATES[at] for at in np.argmin(losses, axis=0))


def _rehearse(
    model: Committee, fitted: Floats32, held_out: Floats, plan: Plan, seed: int
) -> tuple[list[float], float]:
    """Return how well each vote finds the planted faults, and how well all do together."""
    each, together = [], []
    for series, faulty in plays(held_out, _ROUNDS, seed):
        votes = _votes(model, fitted, series, plan.rates)
        each.append([average_precision(faulty, vote) for vote in votes])
        together.append(average_precision(faulty, votes.mean(axis=0)))
    return list(np.mean(each, axis=0)), float(np.mean(together))


def _related(scores: Floats) -> float:
    if len(scores) < 3 or scores[1:].std() == 0 or scores[:-1].std() == 0:
        return 0.0
    return float(np.corrcoef(scores[:-1], scores[1:])[0, 1])


def _members(plan: Plan, found: list[float], heard: list[bool] | None = None) -> tuple[Member, ...]:
    heard = [True] * len(plan.votes) if heard is None else heard
    total = sum(vote.weight for vote, keep in zip(plan.votes, heard, strict=True) if keep)
    return tuple(
        Member(
            plan.memories[vote.expert],
            vote.linear,
            0.0 if vote.linear else plan.rates[vote.expert],
            float(each),
            vote.weight / total if keep else 0.0,
        )
        for vote, each, keep in zip(plan.votes, found, heard, strict=True)
    )


def _explain(choice: Choice) -> str:
    lines = [
        f"A committee, chosen from {choice.samples:,} samples of history; nothing was given.",
    ]
    if choice.rehearsed:
        lines.append(
            f"The newest {choice.rehearsed:,} were held out: each member, trained on the rest, "
            f"was rehearsed on them with\nfaults planted and new normals that are none, and "
            f"learned at the rate that expected them best."
        )
    else:
        lines.append(f"With fewer than {_LEAST} samples nothing was rehearsed.")
    header = ("member", "memory", "learns at", "found", "say")
    rows = [header, *map(_described, choice.members)]
    if choice.rehearsed:
        rows.append(("together", "", "", f"{choice.together:.2f}", ""))
    widths = [max(len(row[at]) for row in rows) for at in range(len(header))]
    lines.append("")
    for row in rows:
        cells = zip(row, widths, strict=True)
        lines.append("  " + "  ".join(cell.ljust(width) for cell, width in cells).rstrip())
    lines.append("")
    lines.append(_about_smoothing(choice))
    return "\n".join(lines)


def _described(member: Member) -> tuple[str, ...]:
    return (
        "linear subspace" if member.linear else "autoencoder",
        f"{member.memory:g} samples",
        "-" if member.linear else f"{member.lr:g}" if member.lr else "not at all",
        "-" if math.isnan(member.found) else f"{member.found:.2f}",
        f"{member.weight:.0%}" if member.weight else "not heard",
    )


def _about_smoothing(choice: Choice) -> str:
    if not choice.rehearsed:
        return "The score is not smoothed."
    said = f"neighbouring scores correlate by {choice.related:.2f}"
    if choice.plan.smoothing:
        return f"The score is smoothed with a half-life of one sample: {said}."
    why = "too little to help each other" if choice.related < _RELATED[0] else "smooth already"
    return f"The score is not smoothed: {said}, {why}."


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)
