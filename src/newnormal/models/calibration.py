"""Calibrates a committee's votes on history: each in units of its own."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from newnormal.kernels.committee import CommitteeParams
from newnormal.kernels.members import LEAST, LEVEL
from newnormal.models.members import usual_votes
from newnormal.models.plan import Plan
from newnormal.types import Floats, Floats32

if TYPE_CHECKING:
    from newnormal.models.committee import Committee

_STILL = 0.1  # of the others' usual residual, that of a channel that never moved in history
_FLOOR = 1e-3  # of a channel's usual residual, as a share of the mean channel's
_NARROW = 1e-6  # a spread below this is that of a constant
_WITHIN = 2.0  # the vote on a sample's level up to which it is within history's range


def calibrated(
    model: Committee, history: Floats, fitted: Floats32, phases: Floats | None
) -> CommitteeParams:
    """Return the parameters with each vote in units of its own on scaled history (T, C)."""
    plan, params = model.plan, model.params
    E, V, C = len(plan.votes), len(plan.weights), model.channels
    sums, counts = np.zeros((V, C)), np.zeros((V, C))
    own: list[Floats] = []  # each expert's plain mean square, a sample
    for squares, observed in model.squares(history, fitted, phases):
        known = ~np.isnan(squares[:, :, 0])
        sums += np.where(known[:, :, None], squares, 0).sum(axis=1)
        counts += known.astype(np.float64) @ observed
        seen = observed.any(axis=1)
        own.append(squares[:E, seen].sum(axis=2) / observed[seen].sum(axis=1))
    scale = np.where(counts > 0, sums / np.maximum(counts, 1), 0)
    mean = (scale.sum(axis=1) / np.maximum((counts > 0).sum(axis=1), 1))[:, None]
    scale = np.where(counts > 0, scale, mean)  # of a channel never observed
    # T² is one number.
    scale[E + LEVEL] = sums[E + LEVEL].sum() / max(counts[E + LEVEL].sum(), 1)
    # How far a channel may move that never did in history is not known.
    there = ~np.isnan(history)
    most = np.where(there, history, -np.inf).max(axis=0)
    still = (most == np.where(there, history, np.inf).min(axis=0)) & there.any(axis=0)
    if still.any() and not still.all():
        moving = scale[:, ~still].mean(axis=1, keepdims=True)
        scale = np.where(still, np.maximum(scale, _STILL * moving), scale)
    scale = np.maximum(scale, np.maximum(_FLOOR * mean, LEAST))
    counted = plan.counted
    scale[[at for at in range(V) if at not in counted]] = 1.0
    params = params._replace(residual_scale=scale)
    logs = model.with_params(params).votes(history, fitted, [0.0] * len(plan.memories), phases)
    centers, spreads = np.zeros(V), np.ones(V)
    for at in counted:
        there = logs[at, ~np.isnan(logs[at])]
        if len(there):
            centers[at] = there.mean()
            spreads[at] = there.std() if there.std() >= _NARROW else 1.0
    scores = np.concatenate(own, axis=1)
    learn_below = params.learn_below.copy()
    for at, vote in enumerate(plan.votes):
        if not vote.linear and vote.weight > 0:
            learn_below[vote.expert] = np.quantile(scores[at], plan.learns_below)
    members = params.members
    if phases is not None:
        votes = (logs - centers[:, None]) / spreads[:, None]
        usual = usual_votes(votes, phases, len(members.rhythm_levels))
        members = members._replace(usual_votes=usual)
    params = params._replace(
        learn_below=learn_below, centers=centers, spreads=spreads, members=members
    )
    return limited(plan, params)


def limited(plan: Plan, params: CommitteeParams) -> CommitteeParams:
    """Return the parameters with the T² of a vote that hardly any sample of history has."""
    at = len(plan.votes) + LEVEL
    usual = params.residual_scale.shape[1] * float(params.residual_scale[at, 0])
    log = float(params.centers[at] + _WITHIN * params.spreads[at])
    return params._replace(level_limit=usual * math.exp(min(log, 700.0)))
