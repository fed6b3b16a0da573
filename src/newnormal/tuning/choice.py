"""What the self-tuning detector chose, and why."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
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
_LEAST = 40 * WINDOW  # samples with anything observed, below which there is none
_LONGEST = 20_000  # samples rehearsed on at most, the newest
_ROUNDS = 4
_RATES = (0.0, 0.001, 0.003, 0.01)
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
                math.inf if each["memory"] is None else float(each["memory"]),
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

    held_out = history[-min(max(int(len(history) * _HELD_OUT), 1), _LONGEST) :]
    early = history[: len(history) - len(held_out)]
    if _enough(early, 1 - _HELD_OUT) and _enough(held_out, _HELD_OUT):
        model, fitted, _ = train(early, Plan())
        choice, votes = _rehearsed(model, fitted, held_out, seed, len(history))
        model, fitted, losses = train(history, choice.plan)
    else:
        plan = Plan()
        model, fitted, losses = train(history, plan)
        votes = _clean(model.hear(history, fitted, plan.rates))
        members = _members(plan, [math.nan] * len(plan.votes), [True] * len(plan.votes))
        choice = Choice(plan, members, 0, math.nan, math.nan, len(history))
    return Chosen(choice, model, fitted, losses, _scores(choice.plan, votes))


def _enough(part: Floats, share: float) -> bool:
    """Whether a part of history has its share of the samples that a rehearsal takes."""
    return int((~np.isnan(part)).any(axis=1).sum()) >= share * _LEAST


def _rehearsed(
    model: Committee, fitted: Floats32, held_out: Floats, seed: int, samples: int
) -> tuple[Choice, Floats]:
    """Return what held-out history speaks for, and the votes heard on it as it was."""
    plan = replace(model.plan, rates=_rates(model, fitted, held_out))
    played = [
        (faulty, model.hear(series, fitted, plan.rates))
        for series, faulty in plays(held_out, _ROUNDS, seed)
    ]
    found = np.mean(
        [[average_precision(faulty, vote) for vote in votes] for faulty, votes in played], axis=0
    )
    heard = found >= _ENOUGH * found.max()

    usual = _clean(model.hear(held_out, fitted, plan.rates)[heard])
    related = _related(usual.mean(axis=0))
    final = replace(
        plan,
        rates=_silenced(plan, heard.tolist()),
        votes=tuple(vote for vote, keep in zip(plan.votes, heard, strict=True) if keep),
        smoothing=_SMOOTHING if _RELATED[0] <= related < _RELATED[1] else 0.0,
    )
    together = np.mean(
        [average_precision(faulty, _scores(final, votes[heard])) for faulty, votes in played]
    )
    members = _members(plan, found.tolist(), heard.tolist())
    return Choice(final, members, len(held_out), float(together), related, samples), usual


def _silenced(plan: Plan, heard: list[bool]) -> tuple[float, ...]:
    """Return the rates, 0 where nobody hears the autoencoder that would learn."""
    votes = zip(plan.votes, heard, strict=True)
    learning = {vote.expert for vote, keep in votes if keep and not vote.linear}
    return tuple(rate if j in learning else 0.0 for j, rate in enumerate(plan.rates))


def _training(samples: int, seed: int, epochs: int | None, batch: int | None) -> Training:
    batch = _BATCH if batch is None else batch
    stride = -(-samples // _WINDOWS)
    steps = max(((samples - WINDOW) // stride + 1) / batch, 1)
    settled = min(max(math.ceil(_STEPS / steps), 2), _EPOCHS)
    return Training(stride, settled if epochs is None else epochs, batch, seed)


def _clean(votes: Floats) -> Floats:
    return votes[:, ~np.isnan(votes).any(axis=0)]


def _scores(plan: Plan, votes: Floats) -> Floats:
    """Return the committee's scores from its votes (V, T); NaN where there are none."""
    say = np.array([vote.weight for vote in plan.votes])
    smooth: Floats = say @ votes / say.sum()
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
        votes = _clean(model.hear(held_out, fitted, (rate,) * J))
        for v, vote in enumerate(model.plan.votes):
            if not vote.linear:
                losses[at, vote.expert] = votes[v].mean()
    return tuple(_RATES[at] for at in np.argmin(losses, axis=0))


def _related(scores: Floats) -> float:
    if len(scores) < 3 or scores[1:].std() == 0 or scores[:-1].std() == 0:
        return 0.0
    return float(np.corrcoef(scores[:-1], scores[1:])[0, 1])


def _members(plan: Plan, found: list[float], heard: list[bool]) -> tuple[Member, ...]:
    total = sum(vote.weight for vote, keep in zip(plan.votes, heard, strict=True) if keep)
    return tuple(
        Member(
            plan.memories[vote.expert],
            vote.linear,
            0.0 if vote.linear else plan.rates[vote.expert],
            each,
            vote.weight / total if keep else 0.0,
        )
        for vote, each, keep in zip(plan.votes, found, heard, strict=True)
    )


_WIDTH = 80  # of a terminal
_COLUMNS = """\
memory     half-life of the trend that a member subtracts before it looks
learns at  its learning rate: the one that expected the held-out samples best
found      average precision on the planted faults; 1 puts them above all else
say        its part of the score; a member that finds less than a third of what
           the best one finds is not heard
"""


def _explain(choice: Choice) -> str:
    about = (
        f"A committee, chosen from {choice.samples:,} samples of history; no setting was given. "
    )
    if choice.rehearsed:
        about += (
            f"Its members were trained on all but the newest {choice.rehearsed:,}, rehearsed on "
            "those, with faults planted and with changes that are no faults, and trained on all."
        )
    else:
        about += (
            f"Nothing was rehearsed: that takes {_LEAST} samples that are not missing, the newest "
            f"{_HELD_OUT:.0%} among them."
        )
    rows = [("member", "memory", "learns at", "found", "say"), *map(_described, choice.members)]
    if choice.rehearsed:
        rows.append(("together", "", "", f"{choice.together:.2f}", ""))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    table = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    return "\n".join(
        [
            *_wrapped(about),
            "",
            *(f"  {line}" for line in table),
            "",
            *([_COLUMNS] if choice.rehearsed else []),
            *_wrapped(_about_smoothing(choice)),
        ]
    )


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, width=_WIDTH)


def _described(member: Member) -> tuple[str, ...]:
    return (
        "linear subspace" if member.linear else "autoencoder",
        "endless" if math.isinf(member.memory) else f"{member.memory:g} samples",
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
