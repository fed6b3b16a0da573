"""What a committee is made of, as a value."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from newnormal.kernels.members import FORECAST, LONG, SHAPES, SPANS


@dataclass(frozen=True)
class Vote:
    """One score of what an expert's memory leaves of the stream."""

    expert: int  # which memory of the plan
    linear: bool  # whether it is the linear subspace's score, not the autoencoder's
    weight: float = 1.0  # its weight beside the others'; 0 is not counted


@dataclass(frozen=True)
class Plan:
    """What a committee is made of."""

    # half-life of each expert's trend, in samples; infinity keeps history's mean. A second one of
    # 300 samples found nothing more on 20 and 36 real streams, and took a quarter of a fit.
    memories: tuple[float, ...] = (60.0,)
    rates: tuple[float, ...] = (0.003,)  # learning rate of each expert's autoencoder
    # the scores of the experts, the same ones in every committee, with their weights
    votes: tuple[Vote, ...] = (Vote(0, False, 2 / 3), Vote(0, True, 1 / 3))
    # weights of the members without a trend, in the order of `newnormal.kernels.members.KINDS`
    members: tuple[float, ...] = (1.0, 1.0, 1.0, 1.0, 0.0)
    smoothing: float = 1.0  # half-life of the smoothing of votes, in samples; 0 does not smooth
    rank: int = 10  # of the linear subspaces
    shape_length: int = LONG  # samples of a shape
    # the quantile of an expert's own scores on history below which it learns from a sample
    learns_below: float = 0.99

    @property
    def weights(self) -> tuple[float, ...]:
        """The weights of all votes: those of the experts, then those of the other members."""
        return (*(vote.weight for vote in self.votes), *self.members)

    @property
    def counted(self) -> list[int]:
        """Which votes have a weight."""
        return [at for at, weight in enumerate(self.weights) if weight > 0]

    @property
    def smoothed(self) -> tuple[bool, ...]:
        """Which votes are smoothed: those that do not expect a sample."""
        members = (at != FORECAST for at in range(len(self.members)))
        return (*(vote.linear for vote in self.votes), *members)

    @property
    def spans(self) -> tuple[int, ...]:
        """How many samples each member without a trend takes."""
        return (*SPANS[:SHAPES], self.shape_length, *SPANS[SHAPES + 1 :])

    @property
    def reported_expert(self) -> int:
        """The expert whose expected values are reported: that of the middle memory."""
        return (len(self.memories) - 1) // 2

    def to_json(self) -> dict[str, Any]:
        """Return it as values of JSON."""
        return {
            "memories": [None if math.isinf(each) else each for each in self.memories],
            "rates": list(self.rates),
            "votes": [[vote.expert, vote.linear, vote.weight] for vote in self.votes],
            "members": list(self.members),
            "smoothing": self.smoothing,
            "rank": self.rank,
            "shape_length": self.shape_length,
            "learns_below": self.learns_below,
        }

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> Plan:
        """Return what `to_json` was made from."""
        return cls(
            tuple(math.inf if each is None else float(each) for each in facts["memories"]),
            tuple(map(float, facts["rates"])),
            tuple(Vote(int(at), bool(linear), float(w)) for at, linear, w in facts["votes"]),
            tuple(map(float, facts["members"])),
            float(facts["smoothing"]),
            int(facts["rank"]),
            int(facts["shape_length"]),
            float(facts["learns_below"]),
        )
