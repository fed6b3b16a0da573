"""What was chosen, and what the choice rests on, as values."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from newnormal.models.plan import Plan

# Why a member has weight 0.
LEARNED_NOTHING = "learned nothing"
COPIES = "reproduces faults"
TOO_SHORT = "history is too short"
NO_RHYTHM = "no rhythm"


@dataclass(frozen=True)
class Member:
    """One vote."""

    kind: str  # "autoencoder", "linear subspace", or one of `newnormal.kernels.members.KINDS`
    memory: float  # samples: half-life of its trend, or length of its window; of a rhythm, bins
    lr: float  # the learning rate it was given; 0 for a member that does not learn
    average_precision: float  # on the planted faults; NaN where nothing was tested
    weight: float  # its part of the score; 0 if it does not count
    dropped: str = ""  # why it does not count; empty if it does

    @property
    def linear(self) -> bool:
        """Whether it is the linear subspace."""
        return self.kind == "linear subspace"


@dataclass(frozen=True)
class Choice:
    """What was chosen, and what the choice rests on."""

    plan: Plan  # what the committee is made of
    members: tuple[Member, ...]  # every vote, whether it counts or not
    held_out: int  # samples of history that the test used; 0 where history was too short
    # average precision of the committee on the planted faults; NaN without a test
    ensemble_ap: float
    samples: int
    # sentences about history, such as which of its values were left out
    notes: tuple[str, ...] = ()

    @property
    def learned_nothing(self) -> bool:
        """Whether no autoencoder learned anything."""
        networks = [member for member in self.members if member.kind == "autoencoder"]
        return all(member.dropped == LEARNED_NOTHING for member in networks)

    def to_json(self) -> dict[str, Any]:
        """Return it as values of JSON."""
        members = [
            {
                name: value if isinstance(value, str) else _finite(value)
                for name, value in asdict(member).items()
            }
            for member in self.members
        ]
        return {
            "plan": self.plan.to_json(),
            "members": members,
            "held_out": self.held_out,
            "ensemble_ap": _finite(self.ensemble_ap),
            "samples": self.samples,
            "notes": list(self.notes),
        }

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> "Choice":
        """Return what `to_json` was made from."""
        return cls(
            Plan.from_json(facts["plan"]),
            tuple(map(_member, facts["members"])),
            int(facts["held_out"]),
            _number(facts["ensemble_ap"]),
            int(facts["samples"]),
            tuple(map(str, facts["notes"])),
        )


def _member(facts: Mapping[str, Any]) -> Member:
    return Member(
        str(facts["kind"]),
        math.inf if facts["memory"] is None else float(facts["memory"]),
        float(facts["lr"]),
        _number(facts["average_precision"]),
        float(facts["weight"]),
        str(facts["dropped"]),
    )


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)
