"""A fitted detector from data: every name checked before it is used."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from newnormal import thresholds
from newnormal.acceptance import TimedAcceptance
from newnormal.alarms import AlarmLog
from newnormal.alarms.threshold import start_levels
from newnormal.config import Config
from newnormal.core.rhythm import Rhythm
from newnormal.core.stages import NO_ACCEPTANCE, NO_ALARMS
from newnormal.core.state import Baseline, Fitted, aligned
from newnormal.errors import StateError
from newnormal.kernels.accepted import (
    GROWING,
    GROWS,
    NEXT_PATTERN,
    PATTERNS,
    PLACES,
    AcceptedState,
    blank_accepted,
)
from newnormal.kernels.alarm import KNOTS, RECENT, AlarmParams, AlarmState
from newnormal.kernels.drift import DriftParams
from newnormal.kernels.members import BLOCKS, KINDS, LONG, PAST, SPAN
from newnormal.kernels.step import StepParams
from newnormal.models.base import Model
from newnormal.models.committee import Committee
from newnormal.models.members import blank_members
from newnormal.models.mlp import widths_of
from newnormal.models.registry import find_for_file, path_of
from newnormal.packing.names import BASELINE_LEVELS
from newnormal.packing.reading import reading_of
from newnormal.packing.rhythm import MOST_BINS, rhythm_of, zone_of
from newnormal.state import State, schema
from newnormal.state.schema import Facts, check_tensors
from newnormal.thresholds import MovingThreshold, Threshold
from newnormal.thresholds.base import MOST_STATE
from newnormal.tuning import LATENT, WINDOW, Choice
from newnormal.tuning.choice import COPIES, LEARNED_NOTHING, NO_RHYTHM, TOO_SHORT

_MOST_LOSSES = 10_000_000
_MOST_CHANNELS = 1_000_000
_MOST_LAGS = 64
_VOTERS = ("autoencoder", "linear subspace", *KINDS)
_REASONS = ("", COPIES, LEARNED_NOTHING, NO_RHYTHM, TOO_SHORT)  # to drop a member
# Memories, rates, votes and members of a plan: of files of version 4 and before, and of later ones.
_SHAPES = ((3, 3, 4, 0), (2, 2, 3, len(KINDS)))


class FittedReader:
    """Reads the fitted detector of one file."""

    def __init__(self, state: State, model: object, threshold: object = None) -> None:
        self.facts = Facts(state.facts)
        self.tensors = dict(state.tensors)
        self.known: set[str] = set()
        self.given, self.given_threshold = model, threshold
        self.dims: dict[str, int | tuple[int, ...]] = {"K": 0}

    def take(self, fields: Sequence[schema.Field], prefix: str = "") -> dict[str, NDArray[Any]]:
        """Take tensors out, each checked; their names are known from here on."""
        self.known |= {prefix + field.name for field in fields}
        return check_tensors(fields, prefix, self.tensors, self.dims)

    @property
    def at_once(self) -> bool:
        """Whether each sample has its verdict at once, from the first one on."""
        return self.choice is not None and self.stride == 1

    def fitted(self) -> Fitted:
        """Read the fitted detector."""
        facts = self.facts
        self.method = facts.text("method")
        if self.method not in ("detector", "m2n2"):
            raise facts.wrong("method", "detector or m2n2", self.method)
        self.options = facts.part("options").rest()
        self.channels = tuple(facts.list("channels", _MOST_CHANNELS))
        if not self.channels or not all(isinstance(name, str) for name in self.channels):
            raise facts.wrong("channels", "names", list(self.channels))
        if len(set(self.channels)) < len(self.channels):
            raise StateError("channels: expected different names, found one twice")
        self.rule: Threshold | MovingThreshold | None = None
        if facts.has("threshold"):
            self.rule = thresholds.from_json(facts.part("threshold").rest(), self.given_threshold)
        elif self.given_threshold is not None:
            raise StateError(
                "threshold: expected none given, since the file has the default one, "
                f"found {path_of(self.given_threshold)}",
                hint="leave threshold out; with_options(threshold=...) sets another",
            )
        self.config = _config(self.method, self.options)
        period = None
        if facts.has("period"):
            period = np.timedelta64(facts.count("period", 1, 2**62), "ns")
        self.choice = _choice(facts.part("choice")) if facts.has("choice") else None
        if (self.choice is None) != (self.method == "m2n2"):
            raise StateError(f"choice: expected one for a detector alone, found a {self.method}")
        self.stride = self.config.judging_stride()
        if self.choice is not None:
            self.stride = self.choice.plan.stride
        losses = facts.list("losses", _MOST_LOSSES)
        if not all(isinstance(each, int | float) for each in losses):
            raise facts.wrong("losses", "numbers", losses)
        self.model = self._model()
        return self._fitted(period, tuple(map(float, losses)))

    def done(self) -> None:
        """Raise a StateError if anything is left that this version does not have."""
        # `newnormal.runtime.checkpoint` reads the place.
        self.facts.done(optional=("place", "threshold", "period", "choice", "accept_after"))
        unknown = sorted(set(self.tensors) - self.known)
        if unknown:
            raise StateError(f"{unknown[0]}: not a tensor of this version")

    def _model(self) -> Model:
        C, window, latent = len(self.channels), self.config.window, self.config.latent
        weights = self.tensors.get("fitted.weights")
        size = 0 if weights is None else weights.size
        # Before a network of that size is made: its innermost matrix alone has so many weights.
        if self.choice is not None or self.config.model == "mlp":
            n = window * C
            least = n * max(n // 2, 1) + latent
            if self.choice is not None and self.choice.plan.bounded:
                least = n * widths_of(n)[1]
            if least > max(size, 1):
                raise StateError(
                    f"fitted.weights: expected at least {least} for a window of {window}, "
                    f"{C} channels and a bottleneck of {latent}, found {size}"
                )
        model: Model
        if self.choice is not None and self.given is not None:
            raise StateError(
                "model: expected none for a Detector, which has a model of its own, "
                f"found {path_of(self.given)}",
                hint="leave model out",
            )
        if self.choice is not None:
            model = Committee(window, C, latent, self.choice.plan)
        else:
            model = find_for_file(self.config.model, self.given)(window, C, latent)
            model.check_savable()
            if self.config.adapt and not model.learns:
                raise StateError(f"options.adapt: expected false for {model.name}, found true")
        J = len(self.choice.plan.memories) if self.choice is not None else 1
        self.dims |= {"L": window, "C": C, "Q": 4 * C, "J": J, "T": (C,)}
        self.dims["P"] = model.size or size
        own = {n: each for n, each in self.tensors.items() if n.startswith("model.")}
        self.known |= set(own)
        if isinstance(model, Committee):
            self.dims |= {"T": (J, C), "E": len(model.plan.votes), "V": len(model.plan.weights)}
            self.dims["R"] = min(model.plan.rank, C // 2)
            self._committee(model)
        else:
            (center,) = self.take([schema.Field("center", "C", "bounded")], "model.").values()
            for name, array in own.items():
                if not np.issubdtype(array.dtype, np.number):
                    raise StateError(f"{name}: expected numbers, found {array.dtype}")
            model.restore({**schema.taken(own, "model."), "center": center}, size)
        return model

    def _committee(self, model: Committee) -> None:
        found = self.take(schema.COMMITTEE_PARAMS, "model.own.")
        if not np.array_equal(found["decays"], model.uncalibrated_params().decays):
            raise StateError("model.own.decays: expected those of the choice, found others")
        (center,) = self.take([schema.Field("center", "C", "bounded")], "model.").values()
        if center.any():
            raise StateError("model.center: expected 0, found other numbers")
        if model.plan.members:
            found |= self._members()
        own = {f"own.{name}": array for name, array in found.items()}
        model.restore({**own, "center": center}, model.size)

    def _members(self) -> dict[str, NDArray[Any]]:
        """Take out what the members without a trend were fitted to."""
        C = len(self.channels)
        blank = blank_members(C, 1)
        levels = self.tensors.get("model.own.rhythm_levels")
        bins = len(levels) if levels is not None and levels.ndim else 0
        if not 1 <= bins <= MOST_BINS:
            raise StateError(
                f"model.own.rhythm_levels: expected 1 to {MOST_BINS} rows, found {bins}"
            )
        self.dims |= {"F": PAST * C, "W": BLOCKS * C, "X": SPAN, "Y": LONG, "B": bins}
        self.dims |= {"D": len(blank.windows_basis), "H": len(blank.shapes)}
        return self.take(schema.MEMBERS_PARAMS, "model.own.")

    def _fitted(self, period: np.timedelta64 | None, losses: tuple[float, ...]) -> Fitted:
        facts, config = self.facts, self.config
        found = self.take(
            [
                schema.Field("mean", "C", "finite"),
                schema.Field("scale", "C", "positive"),
                schema.Field("weights", "P", "finite", "f4"),
                schema.Field("tail_chances", "N", "not negative"),
            ],
            "fitted.",
        )
        knots = len(found["tail_chances"])
        if not 1 <= knots <= KNOTS or (found["tail_chances"] > 1).any():
            raise StateError(f"fitted.tail_chances: expected 1 to {KNOTS} chances, found others")
        self.dims["K"] = knots
        thresholds = facts.part("learn_threshold")
        threshold = thresholds.number("fitted")
        self.learn_threshold = thresholds.number("now")
        thresholds.done()
        decay, lr = 0.0, 1.0
        if self.choice is None:
            decay = config.decay_per_window(period) if config.detrend else 1.0
            lr = config.lr if config.adapt else 0.0
        params = StepParams(
            found["mean"].copy(),
            found["scale"].copy(),
            found["weights"].copy(),
            self.stride,
            threshold,
            threshold,
            decay,
            np.float32(lr),
        )
        self.alarm_facts = facts.part("alarm")
        own = self.alarm_facts.part("params")
        alarm_params = AlarmParams(
            location=own.number("location", -1e300, 1e300),
            spread=own.number("spread", 0, 1e300, above=True),
            rate=own.number("rate", 0, 1),
            step=own.number("step", 0, 1e300),
            rise=own.number("rise", 1, 1e300),
            raises=own.number("raises", 0, 1e300),
            gap=own.number("gap", 1, 1e15),
            stand=own.number("stand", 1),
            span=own.number("span", 0, 1e300, above=True),
        )
        own.done()
        if alarm_params.rate == 0 and (alarm_params.step > 0 or math.isfinite(alarm_params.stand)):
            raise StateError(
                "alarm.params: expected a step of 0 and an infinite stand where the rate is 0, "
                f"found {alarm_params.step:g} and {alarm_params.stand:g}"
            )
        self.dims["A"] = len(self.channels) if alarm_params.rate > 0 else 0
        height = self.alarm_facts.number("fitted_height")
        alarm_start = AlarmState(
            start_levels(alarm_params.location, height),
            np.zeros(7, np.int64),
            np.zeros(RECENT),
            np.zeros(self.dims["A"]),
            *self._tail("fitted."),
        )
        accept_after = None
        if facts.has("accept_after"):
            accept_after = facts.number("accept_after", 1)
        drift_params = baseline = None
        self.acceptance: Facts | None = None
        if accept_after is not None:
            self.acceptance = facts.part("acceptance")
            self.baselines = self.acceptance.part("baselines")
            drift_params = self._drift_params()
            self.tensors.setdefault("baseline.fitted.weights", found["weights"])
            baseline = self._baseline("fitted")
        return Fitted(
            config=config,
            channels=self.channels,
            period=period,
            model=self.model,
            step=params,
            alarm=alarm_params,
            tail_chances=_padded(found["tail_chances"], 0.0),
            tail_knots=knots,
            alarm_start=alarm_start,
            alarms=AlarmLog() if facts.flag("tracks_alarms") else NO_ALARMS,
            acceptance=NO_ACCEPTANCE if accept_after is None else TimedAcceptance(accept_after),
            drift=drift_params,
            baseline=baseline,
            **self._moving(),
            spread=self._spread(params),
            never_missing=self._never_missing(),
            rhythm=self._rhythm(),
            zone=zone_of(facts),
            reading=reading_of(facts),
            choice=self.choice,
            losses=losses,
        )

    def _rhythm(self) -> Rhythm | None:
        """Take the rhythm out; None where there is none."""
        if not self.facts.has("rhythm"):
            found: None = self.facts.take("rhythm")
            return found
        if not isinstance(self.model, Committee) or not self.model.plan.members:
            raise self.facts.wrong("rhythm", "null without a member for it", "one")
        return rhythm_of(self.facts.part("rhythm"), self.model.params.members)

    def _spread(self, params: StepParams) -> NDArray[Any] | None:
        """Take the usual distance from what is expected out; older files do not have it."""
        if "fitted.spread" not in self.tensors:
            return self.model.expected_spread(params)
        (found,) = self.take([schema.Field("spread", "C", "not negative")], "fitted.").values()
        return found.copy()

    def _never_missing(self) -> NDArray[np.bool_] | None:
        """Take the channels out that history never misses; None where that is not known."""
        if not self.facts.has("never_missing"):
            found: None = self.facts.take("never_missing")
            return found
        names = self.facts.list("never_missing", len(self.channels))
        known = frozenset(self.channels)
        if not all(isinstance(name, str) and name in known for name in names):
            raise self.facts.wrong("never_missing", "known names", names)
        chosen = frozenset(names)
        return np.array([name in chosen for name in self.channels])

    def _moving(self) -> dict[str, Any]:
        """Take the state out in which a threshold that moves starts."""
        if not isinstance(self.rule, MovingThreshold):
            return {"rule": None, "moving_start": None}
        (start,) = self.take([schema.Field("moving", "N", "any")], "fitted.").values()
        if not 1 <= len(start) <= MOST_STATE:
            raise StateError(
                f"fitted.moving: expected 1 to {MOST_STATE} numbers, found {len(start)}"
            )
        self.dims["S"] = len(start)
        return {"rule": self.rule, "moving_start": start.copy()}

    def _tail(self, prefix: str) -> tuple[NDArray[Any], NDArray[Any]]:
        found = self.take(schema.ALARM, prefix)
        if not np.isfinite(found["tail_levels"]).all():
            raise StateError(f"{prefix}tail_levels: expected finite numbers, found others")
        return _padded(found["tail_levels"], np.inf), found["tail_excess"].copy()

    def _drift_params(self) -> DriftParams:
        found = self.take(schema.DRIFT_PARAMS, "fitted.drift.")
        rows = len(found["wanders"])
        if not 1 <= rows <= _MOST_LAGS:
            raise StateError(f"fitted.drift.wanders: expected 1 to {_MOST_LAGS} rows, found {rows}")
        return DriftParams(**{name: array.copy() for name, array in found.items()})

    def _baseline(self, name: str) -> Baseline:
        found = self.take(schema.BASELINE, f"baseline.{name}.")
        levels, excess = self._tail(f"baseline.{name}.")
        facts = self.baselines.part(name)
        kept = [facts.number(level) for level in BASELINE_LEVELS]
        facts.done()
        check_range(found, f"baseline.{name}.")
        return Baseline(
            aligned(found["weights"]),
            found["trend"].copy(),
            found["lows"].copy(),
            found["highs"].copy(),
            levels,
            excess,
            np.array(kept),
            self._accepted(f"baseline.{name}."),
        )

    def _accepted(self, prefix: str) -> AcceptedState | None:
        """Take out what a committee accepts besides history; None for other models."""
        if not isinstance(self.model, Committee):
            return None
        C, V = len(self.channels), self.model.vote_count
        if f"{prefix}accepted.shifts" not in self.tensors:
            return blank_accepted(C, V)
        self.dims |= {"G": PLACES, "O": PATTERNS}
        found = self.take(schema.ACCEPTED, f"{prefix}accepted.")
        counts = found["counts"]
        if (counts > schema.LARGEST_COUNT).any() or counts[GROWS] > GROWING:
            raise StateError(f"{prefix}accepted.counts: expected numbers of acceptances")
        if counts[GROWS] and not counts[NEXT_PATTERN]:
            raise StateError(f"{prefix}accepted.counts: expected a pattern where one grows")
        return AcceptedState(**{name: array.copy() for name, array in found.items()})


def _config(method: str, options: dict[str, Any]) -> Config:
    known = {**options}
    for name in ("alarms_per_day", "risk"):
        known.pop(name, None)
    if method == "detector":
        known |= {"window": WINDOW, "latent": LATENT}
    return Config.of(**known)


def _choice(facts: Facts) -> Choice:
    choice = Choice.from_json(facts.rest())
    plan = choice.plan
    memories = len(plan.memories)
    shape = (memories, len(plan.rates), len(plan.votes), len(plan.members))
    votes = all(0 <= vote.expert < memories for vote in plan.votes)
    weights = all(weight >= 0 for weight in plan.weights) and 0 < sum(plan.weights) < math.inf
    if shape not in _SHAPES or not votes or not weights:
        raise StateError(
            "choice.plan: expected three memories and four votes, or two memories, three votes "
            "and five members, found others"
        )
    if plan.stride != (1 if plan.members else WINDOW) or math.isnan(plan.floor):
        raise StateError("choice.plan: expected a stride and a floor that fit, found others")
    if not all(memory > 0 for memory in plan.memories) or not 0 <= plan.smoothing < math.inf:
        raise StateError("choice.plan: expected half-lives above 0, found others")
    for member in choice.members:
        if not (member.memory > 0 and 0 <= member.lr < math.inf and 0 <= member.weight <= 1):
            raise StateError("choice.members: expected memory, rate and weight, found others")
        if member.kind not in _VOTERS or member.dropped not in _REASONS:
            raise StateError("choice.members: expected a kind of member and a reason, found others")
    if not 0 <= plan.learns_below <= 1:
        raise StateError("choice.plan.learns_below: expected a quantile, found another number")
    if not 0 <= plan.rank <= 1000 or not all(0 <= rate < math.inf for rate in plan.rates):
        raise StateError("choice.plan: expected a rank and learning rates of at least 0")
    return choice


def check_range(found: Mapping[str, NDArray[Any]], prefix: str) -> None:
    """Raise a StateError unless the lows are at most the highs."""
    if (found["lows"] > found["highs"]).any():
        raise StateError(f"{prefix}lows: expected at most {prefix}highs, found more")


def _padded(array: NDArray[Any], value: float) -> NDArray[Any]:
    found = np.full(KNOTS, value)
    found[: len(array)] = array
    return found
