"""How `Detector` chooses its settings, from its history alone.

`choose` is the whole of it: train on early history, test on held-out history with planted faults
(`scenarios`), decide which experts count and how fast each learns, and train on all of history.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from newnormal.core.rhythm import Rhythm
from newnormal.kernels.members import KINDS, LONG, RHYTHM
from newnormal.metrics.ranking import ranked_precision
from newnormal.models.base import OnEpoch, OnPhase, Training, scores
from newnormal.models.committee import Committee
from newnormal.models.experts import neutral_params, rest_of
from newnormal.models.members import fittable, length_of_shapes
from newnormal.models.plan import Plan
from newnormal.tuning.choice import COPIES, LEARNED_NOTHING, NO_RHYTHM, TOO_SHORT, Choice, Member
from newnormal.tuning.progress import FitProgress
from newnormal.tuning.scenarios import scenarios
from newnormal.types import Floats, Floats32

WINDOW = 5
LATENT = 16
_BATCH = 64
# Training steps an expert gets. On 25 real streams 3,000, 1,000, 400 and 100 gave the same average
# precision, .402, and all but 100 found as many events.
_STEPS = 400
_EPOCHS = 200  # at most
_WINDOWS = 96_000  # at most; a longer history is trained on at a larger stride

HELD_OUT = 0.3  # share of history kept for the test
LEAST = 40 * WINDOW  # samples with anything observed, below which there is no test
_LONGEST = 20_000  # samples held out at most, the newest
_ROUNDS = 4
_RATES = (0.0, 0.001, 0.003, 0.01)
_ENOUGH = (
    1 / 3
)  # an expert's vote that finds less than this share of what the best finds is dropped
_NOTHING = 0.9  # of the variance left by an autoencoder: it learned nothing


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
    on_phase: OnPhase | None = None,
    phases: Floats | None = None,
    rhythm: Rhythm | None = None,
    early_rhythm: Rhythm | None = None,
    notes: Sequence[str] = (),
) -> Chosen:
    """Decide from scaled history (T, C) alone, and train what was decided.

    `history`: standardised; NaN where missing.
    `seed`: of training and of what is planted.
    `epochs`, `batch`: how training goes through the history; None: as many epochs as make it
    settle.
    `on_epoch`: called after each epoch of each expert.
    `on_phase`: called with what is done now, and the share of all of it that is done.
    `phases`: of each sample of history in its rhythm, (T,), NaN where unknown; None: it has no
    rhythm.
    `rhythm`: what is expected at each phase.
    `early_rhythm`: the same from early history alone (`early_samples`), for the test; None:
    `rhythm`.
    `notes`: sentences for `Choice.notes`.
    """
    if phases is None or rhythm is None:
        phases = rhythm = early_rhythm = None
    early_rhythm = rhythm if early_rhythm is None else early_rhythm
    early, held_out = np.split(history, [early_samples(len(history))])
    progress = FitProgress(on_epoch, on_phase)

    def train(
        part: Floats, plan: Plan, tables: Rhythm | None
    ) -> tuple[Committee, Floats32, list[float]]:
        model = Committee(WINDOW, history.shape[1], LATENT, plan)
        training = _training(len(part), seed, epochs, batch, progress.on_epoch)
        steps = training.epochs * len(plan.memories)
        if part is early:
            progress.begin("learning early history", 0.0, 0.3, steps)
        else:
            progress.begin("learning all of history", 0.6 if tested else 0.0, 0.9, steps)
        own = None if phases is None else phases[: len(part)]
        return model, *model.fit(part, replace(training, phases=own, rhythm=tables))

    tested, plan, dropped = outline(history, rhythm is not None)
    if tested:
        model, fitted, _ = train(early, plan, early_rhythm)
        before = early[-LONG:]
        progress.begin("testing on the rest", 0.45, 0.6, _ROUNDS + 1)
        rest = _after(phases, len(early))
        choice = _tested(model, fitted, held_out, rest, dropped, seed, progress)
        own = _after(phases, len(early) - len(before))
        series = np.concatenate([before, held_out])
        known = _scores(model.with_plan(choice.plan), fitted, series, own)[len(before) :]
        model, fitted, losses = train(history, choice.plan, rhythm)
    else:
        model, fitted, losses = train(history, plan, rhythm)
        known = _scores(model, fitted, history, phases)
        nothing = [math.nan] * len(plan.weights)
        choice = Choice(plan, _members(plan, nothing, dropped), 0, math.nan, 0)
    choice = replace(choice, samples=len(history), notes=tuple(notes))
    return Chosen(choice, model, fitted, losses, known[~np.isnan(known)])


def early_samples(samples: int) -> int:
    """Return how many samples of history are early: those that the test is not made on."""
    return samples - min(max(int(samples * HELD_OUT), 1), _LONGEST)


def _after(phases: Floats | None, at: int) -> Floats | None:
    return None if phases is None else phases[at:]


def _enough(part: Floats, share: float) -> bool:
    """Whether a part of history has its share of the samples that a test takes."""
    return int((~np.isnan(part)).any(axis=1).sum()) >= share * LEAST


class Outline(NamedTuple):
    """What is known of a committee before any training."""

    tested: bool  # whether history is long enough for a test on held-out history
    plan: Plan  # what the committee is made of before the test
    dropped: list[str]  # why votes of the plan have weight 0, empty for the others


def outline(history: Floats, rhythm: bool) -> Outline:
    """Return what `choose` starts from, given history (T, C) and whether it has a rhythm.

    >>> found = outline(np.zeros((150, 1)), rhythm=False)
    >>> found.tested, found.dropped[-2:]
    (False, ['history is too short', 'no rhythm'])
    """
    early, held_out = np.split(history, [early_samples(len(history))])
    tested = _enough(early, 1 - HELD_OUT) and _enough(held_out, HELD_OUT)
    plan = Plan(shape_length=length_of_shapes(early if tested else history))
    enough = fittable(len(early) if tested else len(history), rhythm)
    short = ["" if each else TOO_SHORT for each in enough]
    short[RHYTHM] = "" if rhythm else NO_RHYTHM
    members = tuple(1.0 if each else 0.0 for each in enough)
    return Outline(tested, replace(plan, members=members), [""] * len(plan.votes) + short)


def _tested(
    model: Committee,
    fitted: Floats32,
    held_out: Floats,
    phases: Floats | None,
    dropped: list[str],
    seed: int,
    progress: FitProgress | None = None,
) -> Choice:
    """Return what held-out history suggests."""
    progress = FitProgress() if progress is None else progress
    plan = replace(model.plan, rates=_rates(model, fitted, held_out))
    progress.step()
    tested = []
    for series, faulty in scenarios(held_out, _ROUNDS, seed):
        tested.append((series, faulty, model.votes(series, fitted, plan.rates, phases)))
        progress.step()
    precision = np.mean(
        [[ranked_precision(faulty, vote) for vote in votes] for _, faulty, votes in tested], axis=0
    )
    precision[[at for at, why in enumerate(dropped) if why]] = np.nan
    left = _left(model, fitted, held_out, plan.rates)
    dropped = list(dropped)
    for at, vote in enumerate(plan.votes):
        if not vote.linear and left[vote.expert] >= _NOTHING:
            dropped[at] = LEARNED_NOTHING
        elif precision[at] < _ENOUGH * np.nanmax(precision):
            dropped[at] = COPIES
    # The experts count as much as one other member, however many of them are left.
    left_over = max(sum(not why for why in dropped[: len(plan.votes)]), 1)
    votes = tuple(
        replace(vote, weight=0.0 if why else 1 / left_over)
        for vote, why in zip(plan.votes, dropped, strict=False)
    )
    final = replace(plan, votes=votes, rates=_rates_in_use(plan, dropped))

    def precision_of(each: Plan) -> float:
        running = model.with_plan(each)
        precisions = [
            ranked_precision(faulty, _scores(running, fitted, series, phases))
            for series, faulty, _ in tested
        ]
        return float(np.mean(precisions))

    ensemble_ap = precision_of(final)
    members = _members(replace(final, rates=plan.rates), precision.tolist(), dropped)
    return Choice(final, members, len(held_out), float(ensemble_ap), 0)


def _left(model: Committee, fitted: Floats32, series: Floats, rates: Sequence[float]) -> Floats:
    """Return the share of what it is given that each autoencoder leaves, (J,).

    1 is what an autoencoder leaves that always gives 0, the mean.
    """
    plan = model.plan
    sums = np.zeros(len(plan.memories))
    running = model.with_rates(rates).experts_alone()
    for squares, _ in running.squares(series, fitted, learning=True):
        for at, vote in enumerate(plan.votes):
            if not vote.linear:
                sums[vote.expert] += squares[at].sum()
    given = np.array(
        [
            np.nansum((rest_of(series, memory) / scale) ** 2)
            for memory, scale in zip(plan.memories, model.params.scales, strict=True)
        ]
    )
    return np.where(given > 0, sums / np.where(given > 0, given, 1), 1.0)


def _scores(
    model: Committee, fitted: Floats32, series: Floats, phases: Floats | None = None
) -> Floats:
    """Return the scores of a scaled series (T, C) that is learned from as it goes."""
    return scores(model, neutral_params(model.channels, fitted, True), series, phases)


def _rates_in_use(plan: Plan, dropped: list[str]) -> tuple[float, ...]:
    """Return the rates, 0 where the vote of the autoencoder that would learn does not count."""
    votes = zip(plan.votes, dropped, strict=False)
    learning = {vote.expert for vote, why in votes if not why and not vote.linear}
    return tuple(rate if j in learning else 0.0 for j, rate in enumerate(plan.rates))


def _training(
    samples: int, seed: int, epochs: int | None, batch: int | None, on_epoch: OnEpoch | None = None
) -> Training:
    batch = _BATCH if batch is None else batch
    stride = -(-samples // _WINDOWS)
    steps = max(((samples - WINDOW) // stride + 1) / batch, 1)
    settled = min(max(math.ceil(_STEPS / steps), 2), _EPOCHS)
    epochs = settled if epochs is None else epochs
    return Training(stride, epochs, batch, seed, on_epoch=on_epoch)


def _rates(model: Committee, fitted: Floats32, held_out: Floats) -> tuple[float, ...]:
    """Return the rate at which each expert, learning as it goes, expects held-out history best."""
    J = len(model.plan.memories)
    losses = np.full((len(_RATES), J), np.inf)
    experts = model.experts_alone()
    for at, rate in enumerate(_RATES):
        votes = experts.votes(held_out, fitted, (rate,) * J)
        for v, vote in enumerate(model.plan.votes):
            if not vote.linear:
                losses[at, vote.expert] = np.nanmean(votes[v])
    return tuple(_RATES[at] for at in np.argmin(losses, axis=0))


def _members(plan: Plan, precision: Sequence[float], dropped: Sequence[str]) -> tuple[Member, ...]:
    """Return every vote with its part of the score."""
    total = sum(plan.weights)
    E = len(plan.votes)
    members = []
    for at, (weight, each, why) in enumerate(zip(plan.weights, precision, dropped, strict=True)):
        if at < E:
            vote = plan.votes[at]
            kind = "linear subspace" if vote.linear else "autoencoder"
            memory, lr = plan.memories[vote.expert], plan.rates[vote.expert]
            lr = 0.0 if vote.linear else lr
        else:
            kind, memory, lr = KINDS[at - E], float(plan.spans[at - E]), 0.0
        members.append(Member(kind, memory, lr, each, weight / total, why))
    return tuple(members)
