"""A detector from data: every name is checked before it is used.

Nothing is allocated or indexed by what a file holds before that. What does not fit is a StateError
that names it.

One module because it is one reader: each part is checked against those read before it.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from newnormal import thresholds
from newnormal.acceptance import TimedAcceptance
from newnormal.alarms import AlarmLog
from newnormal.alarms.threshold import Peaks, threshold_of
from newnormal.config import Config
from newnormal.core.phases import DAY
from newnormal.core.rhythm import Rhythm
from newnormal.core.stages import NO_ACCEPTANCE, NO_ALARMS
from newnormal.core.state import Fitted, StreamState, aligned
from newnormal.core.times import SampleTimes
from newnormal.errors import StateError
from newnormal.kernels.alarm import KNOTS, AlarmParams, AlarmState
from newnormal.kernels.channels import ChannelParams, ChannelState
from newnormal.kernels.committee import CommitteeState, ObservedState
from newnormal.kernels.drift import DriftParams, DriftState
from newnormal.kernels.members import BLOCKS, KINDS, LONG, MembersParams
from newnormal.kernels.step import StepParams, StepState
from newnormal.kernels.stream import (
    KEPT_UNDO,
    Baseline,
    ChangeState,
    LogState,
    ModelState,
    ReviewState,
    Shadow,
    SilenceState,
)
from newnormal.models.base import Model
from newnormal.models.committee import Committee
from newnormal.models.members import MOST_BINS
from newnormal.models.mlp import widths_of
from newnormal.models.registry import find, find_for_file, path_of
from newnormal.packing.events import EventReader
from newnormal.packing.limits import check_arrays, check_shadow, sizes_of, wrong_alarms
from newnormal.state import State, decode, encode, write
from newnormal.state.facts import AGAIN, MALFORMED, Facts
from newnormal.thresholds import MovingThreshold, Threshold, for_file
from newnormal.thresholds.base import MOST_STATE
from newnormal.tuning import LATENT, WINDOW, Choice
from newnormal.tuning.choice import COPIES, LEARNED_NOTHING, NO_RHYTHM, TOO_SHORT
from newnormal.types import Alarm, Bools, Change, Event, Floats
from newnormal.types.tables import (
    ANY,
    BOUNDED,
    CHANCE,
    NOT_NEGATIVE,
    Array,
    check_array,
    declared,
    flatten,
    read,
)

_MOST_EVENTS = 1000
_MOST_PAST = 100
_MOST_LOSSES = 10_000_000
_MOST_CHANNELS = 1_000_000
_MOST_LAGS = 64
_VOTERS = ("autoencoder", "linear subspace", *KINDS)
_REASONS = ("", COPIES, LEARNED_NOTHING, NO_RHYTHM, TOO_SHORT)  # to drop a member


class Unpacked(NamedTuple):
    """What a state file holds."""

    method: str
    options: dict[str, Any]  # of the detector's constructor
    threshold: Threshold | MovingThreshold | None  # None where the file names none
    fitted: Fitted
    state: StreamState
    events: list[Event]
    past: list[Alarm | Change]


def unpack(
    state: State, origin: str = "this", model: object = None, threshold: object = None
) -> Unpacked:
    """Return what a file holds, checked.

    `origin` names the file in errors; `model` is the class, or its import path, of a model that is
    neither built in nor an installed entry point, and `threshold` that of such a threshold.

    Raise a ParameterError if `model` or `threshold` is not one. Raise a StateError if the file does
    not fit.
    """
    if model is not None:
        find(model)
    threshold = for_file(threshold)
    try:
        return _StateReader(state, model, threshold).unpacked()
    except StateError as error:
        raise StateError(f"{origin}: {error.message}", hint=error.hint or AGAIN) from None
    except MALFORMED as error:
        raise StateError(
            f"{origin} is not a state this newnormal understands: {error}", hint=AGAIN
        ) from error


def write_checked(
    path: str | os.PathLike[str], state: State, model: object = None, threshold: object = None
) -> None:
    """Write a state file, once the code that loads has read its content.

    What is there already stays if it cannot be read. Options are those of `unpack`.
    """
    content = encode(state)
    try:
        unpack(decode(content, str(path)), str(path), model, threshold)
    except StateError as error:
        raise StateError(
            f"nothing was written, since it could not be loaded again: {error.message}",
            hint="report this, with the message; the file that was there is as it was",
        ) from error
    write(path, content)


class _StateReader:
    """Reads one file."""

    def __init__(self, state: State, model: object, threshold: object) -> None:
        self.facts = Facts(state.facts)
        self.tensors = state.tensors
        self.known: set[str] = set()
        self.model_class, self.threshold_class = model, threshold
        self.sizes: dict[str, Any] = {}

    def take(self, name: str, line: Array) -> NDArray[Any]:
        """Return a tensor, checked by its line; its name is known from here on."""
        self.known.add(name)
        if (array := self.tensors.get(name)) is None:
            raise StateError(f"expected a tensor {name}, found none")
        check_array(name, array, line, self.sizes)
        return aligned(array.view("M8[ns]") if line.dtype == "M8[ns]" else array)

    def has(self, prefix: str) -> bool:
        """Whether there is a tensor whose name begins so."""
        return any(name.startswith(prefix) for name in self.tensors)

    def unpacked(self) -> Unpacked:
        """Read all of it; what this version does not have is a StateError."""
        facts = self.facts
        method = facts.text("method")
        if method not in ("detector", "m2n2"):
            raise facts.wrong("method", "detector or m2n2", method)
        options = facts.part("options").rest()
        fitted = self._fitted(method, _config(method, options))
        stream = self._stream(fitted)
        reader = EventReader(fitted.channels, fitted.model.vote_count)
        events = [reader.event(each) for each in facts.parts("events", _MOST_EVENTS)]
        past = reader.past(facts.parts("past", _MOST_PAST))
        facts.done(optional=("threshold", "period", "choice", "accept_after"))
        if unknown := sorted(set(self.tensors) - self.known):
            raise StateError(f"{unknown[0]}: not a tensor of this version")
        return Unpacked(method, options, self.rule, fitted, stream, events, past)

    # ------------------------------------------------------------------ what fitting left

    def _fitted(self, method: str, config: Config) -> Fitted:
        facts = self.facts
        channels = tuple(facts.list("channels", _MOST_CHANNELS))
        if not channels or not all(isinstance(name, str) for name in channels):
            raise facts.wrong("channels", "names", list(channels))
        if len(set(channels)) < len(channels):
            raise StateError("channels: expected different names, found one twice")
        self.rule = self._rule()
        period = None
        if facts.has("period"):
            period = np.timedelta64(facts.count("period", 1, 2**62), "ns")
        choice = _choice(facts.part("choice")) if facts.has("choice") else None
        if (choice is None) != (method == "m2n2"):
            raise StateError(f"choice: expected one for a detector alone, found a {method}")
        losses = facts.list("losses", _MOST_LOSSES)
        if not all(isinstance(each, int | float) for each in losses):
            raise facts.wrong("losses", "numbers", losses)
        model = self._model(config, len(channels), choice)
        params = read(StepParams, "fitted.step.", self.take)
        self._check_params(params, config, period, choice)
        alarm_params = read(AlarmParams, "fitted.alarm.", self.take)
        if alarm_params.rate == 0 and (alarm_params.step > 0 or math.isfinite(alarm_params.stand)):
            raise StateError(
                "fitted.alarm: expected a step of 0 and an infinite stand where the rate is 0, "
                f"found {alarm_params.step:g} and {alarm_params.stand:g}"
            )
        accept_after = None
        drift = baseline = None
        if facts.has("accept_after"):
            accept_after = facts.number("accept_after", 1)
            drift = self._drift_params()
            baseline = self._baseline("fitted.baseline.", params.fitted)
        tracks_alarms = facts.flag("tracks_alarms")
        return Fitted(
            config=config,
            channels=channels,
            period=period,
            model=model,
            step=params,
            alarm=alarm_params,
            tail_chances=self.take("fitted.tail_chances", Array(KNOTS, range=CHANCE)),
            alarm_start=self._alarm_start(alarm_params),
            alarms=AlarmLog() if tracks_alarms else NO_ALARMS,
            acceptance=NO_ACCEPTANCE if accept_after is None else TimedAcceptance(accept_after),
            channel=None if choice is None else read(ChannelParams, "fitted.channel.", self.take),
            drift=drift,
            baseline=baseline,
            **self._moving(tracks_alarms),
            spread=self._spread(),
            peaks=read(Peaks, "fitted.peaks.", self.take) if self.has("fitted.peaks.") else None,
            never_missing=self._never_missing(channels),
            rhythm=self._rhythm(model),
            zone=zone_of(facts),
            reading=reading_of(facts),
            units=config.units or {},
            choice=choice,
            losses=tuple(map(float, losses)),
        )

    def _rule(self) -> Threshold | MovingThreshold | None:
        if self.facts.has("threshold"):
            rule = self.facts.part("threshold").rest()
            return thresholds.from_json(rule, self.threshold_class)
        if self.threshold_class is not None:
            raise StateError(
                "threshold: expected none given, since the file has the default one, "
                f"found {path_of(self.threshold_class)}",
                hint="leave threshold out; with_options(threshold=...) sets another",
            )
        return None

    def _model(self, config: Config, channels: int, choice: Choice | None) -> Model:
        window, latent = config.window, config.latent
        weights = self.tensors.get("fitted.step.fitted")
        size = 0 if weights is None else weights.size
        # Before a network of that size is made: its innermost matrix alone has so many weights.
        if choice is not None or config.model == "mlp":
            n = window * channels
            inner = n * max(n // 2, 1) + latent
            least = inner if choice is None else n * widths_of(n)[1]
            if least > max(size, 1):
                raise StateError(
                    f"fitted.step.fitted: expected at least {least} for a window of {window}, "
                    f"{channels} channels and a bottleneck of {latent}, found {size}"
                )
        model: Model
        if choice is None:
            model = find_for_file(config.model, self.model_class)(window, channels, latent)
            model.check_savable()
            if config.adapt and not model.learns:
                raise StateError(f"options.adapt: expected false for {model.name}, found true")
        elif self.model_class is not None:
            raise StateError(
                "model: expected none for a Detector, which has a model of its own, "
                f"found {path_of(self.model_class)}",
                hint="leave model out",
            )
        else:
            model = Committee(window, channels, latent, choice.plan)
        own = {name for name in self.tensors if name.startswith("model.")}
        for name in own:
            if not np.issubdtype(self.tensors[name].dtype, np.number):
                raise StateError(f"{name}: expected numbers, found {self.tensors[name].dtype}")
        self.sizes = {"C": channels}
        self.take("model.center", Array("C", range=BOUNDED))
        tensors = {name.removeprefix("model."): self.tensors[name] for name in own}
        model.restore(tensors, model.size or size)
        self.known |= own
        self.sizes = model.sizes
        return model

    def _check_params(
        self,
        params: StepParams,
        config: Config,
        period: np.timedelta64 | None,
        choice: Choice | None,
    ) -> None:
        """Raise a StateError unless the numbers are those that follow from the options."""
        stride, decay, lr = 1, 0.0, 1.0
        if choice is None:
            stride = config.judging_stride()
            decay = config.decay_per_window(period) if config.detrend else 1.0
            lr = config.lr if config.adapt else 0.0
        # Another machine's power may differ in the last bit.
        same = math.isclose(params.decay, decay, rel_tol=1e-12, abs_tol=1e-15)
        if not same or (params.stride, params.lr) != (stride, np.float32(lr)):
            raise StateError("fitted.step: expected the numbers of the options, found others")
        if params.alarm_threshold != params.learn_threshold:
            raise StateError("fitted.step: expected one threshold, found two")

    def _moving(self, tracks_alarms: bool) -> dict[str, Any]:
        """Take the state out in which a threshold that moves starts."""
        if not isinstance(self.rule, MovingThreshold):
            return {"rule": None, "moving_start": None}
        start = self.take("fitted.moving_start", Array("S", range=ANY))
        if not 1 <= len(start) <= MOST_STATE:
            raise StateError(
                f"fitted.moving_start: expected 1 to {MOST_STATE} numbers, found {len(start)}"
            )
        if not tracks_alarms:
            raise StateError("tracks_alarms: expected true where the threshold moves")
        self.sizes["S"] = len(start)
        return {"rule": self.rule, "moving_start": start}

    def _alarm_start(self, params: AlarmParams) -> AlarmState:
        """Take out where alarms start: what a stream can have."""
        start = read(AlarmState, "fitted.alarm_start.", self.take)
        arrays = {name: array[None] for name, array in flatten(start)}
        check_arrays(AlarmState, arrays, {}, ["fitted.alarm_start"])
        limited = np.array([params.rate != 0])
        for expected, wrong in wrong_alarms(start.levels[None], start.recent[None], limited):
            if wrong.any():
                raise StateError(f"fitted.alarm_start: expected {expected}, found others")
        return start

    def _spread(self) -> Floats | None:
        """Take the usual distance from what is expected out; some models have none."""
        if "fitted.spread" not in self.tensors:
            return None
        return self.take("fitted.spread", Array("C", range=NOT_NEGATIVE))

    def _never_missing(self, channels: Sequence[str]) -> Bools | None:
        """Take the channels out that history never misses; None where that is not known."""
        names = self.facts.nullable("never_missing", self.facts.list, len(channels))
        if names is None:
            return None
        if not all(isinstance(name, str) and name in channels for name in names):
            raise self.facts.wrong("never_missing", "known names", names)
        return np.array([name in frozenset(names) for name in channels])

    def _rhythm(self, model: Model) -> Rhythm | None:
        """Take the rhythm out; None where there is none."""
        facts = self.facts.nullable("rhythm", self.facts.part)
        if facts is None:
            return None
        if not isinstance(model, Committee):
            raise self.facts.wrong("rhythm", "null without a member for it", "one")
        return rhythm_of(facts, model.params.members)

    def _drift_params(self) -> DriftParams:
        params = read(DriftParams, "fitted.drift.", self.take)
        rows = len(params.max_drift)
        if not 1 <= rows <= _MOST_LAGS:
            raise StateError(
                f"fitted.drift.max_drift: expected 1 to {_MOST_LAGS} rows, found {rows}"
            )
        return params

    def _baseline(self, name: str, weights: NDArray[Any] | None = None) -> Baseline:
        def take(full: str, line: Array) -> NDArray[Any]:
            if weights is not None and full == f"{name}weights":
                return aligned(weights)
            return self.take(full, line)

        if not self.has(f"{name}accepted."):
            own = {
                field: take(name + field, line)
                for field, line in declared(Baseline).items()
                if "." not in field
            }
            baseline = Baseline(**own)
        else:
            baseline = read(Baseline, name, take)
        arrays = {each: array[None] for each, array in flatten(baseline)}
        check_arrays(Baseline, arrays, self.sizes, [name.removesuffix(".")])
        return baseline

    # ------------------------------------------------------------------ the live stream

    def _stream(self, fitted: Fitted) -> StreamState:
        take = self.take
        self.sizes |= sizes_of(fitted)
        table = declared(StreamState)
        state = StreamState(
            self._model_state("live.model.", fitted.model),
            read(SampleTimes, "live.times.", take),
            take("live.learn_threshold", table["learn_threshold"]),
            read(AlarmState, "live.alarm.", take),
            read(LogState, "live.log.", take),
            read(SilenceState, "live.silence.", take),
        )
        if fitted.moving_start is not None:
            state.moving = take("live.moving", table["moving"])
            threshold_of(fitted.rule, state.moving)
        if fitted.channel is not None:
            state.channel = read(ChannelState, "live.channel.", take)
            state.observed = read(ObservedState, "live.observed.", take)
        if fitted.drift is not None:
            state.drift = read(DriftState, "live.drift.", take)
            state.review = read(ReviewState, "live.review.", take)
            state.changes = read(ChangeState, "live.changes.", take)
            state.last_quiet = self._baseline("live.last_quiet.")
            if self.has("live.accepted."):
                state.accepted = self._baseline("live.accepted.")
            undo = [f"live.undo.{k}." for k in range(KEPT_UNDO)]
            state.undo = tuple(self._baseline(name) for name in undo if self.has(name))
        live = {name: array[None] for name, array in flatten(state) if name in table}
        check_arrays(StreamState, _as_ints(live), self.sizes, ["live"], [fitted])
        if fitted.drift is not None and self.has("live.shadow."):
            state.shadow = self._shadow(fitted, state.model.step)
        return state

    def _model_state(self, name: str, model: Any) -> ModelState:
        own = None
        if isinstance(model, Committee):
            own = read(CommitteeState, f"{name}own.", self.take)
        return ModelState(read(StepState, f"{name}step.", self.take), own)

    def _shadow(self, fitted: Fitted, stream: StepState) -> Shadow:
        table, name = declared(Shadow), "live.shadow."
        own = {each: self.take(name + each, table[each]) for each in ("scores", "positions")}
        shadow = Shadow(
            self._model_state(f"{name}model.", fitted.model),
            **own,
            counts=self.take(f"{name}counts", table["counts"]),
        )
        check_shadow(shadow, stream, self.sizes, "live.shadow")
        return shadow


def _as_ints(arrays: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    return {
        name: array.view(np.int64) if array.dtype.kind == "M" else array
        for name, array in arrays.items()
    }


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
    shape = (len(plan.memories), len(plan.rates), len(plan.votes), len(plan.members))
    votes = all(0 <= vote.expert < len(plan.memories) for vote in plan.votes)
    weights = all(weight >= 0 for weight in plan.weights) and 0 < sum(plan.weights) < math.inf
    if shape != (1, 1, 2, len(KINDS)) or not votes or not weights:
        raise StateError("choice.plan: expected a memory, two votes and five members, found others")
    if plan.shape_length not in range(BLOCKS, LONG + 1, BLOCKS):
        raise StateError(
            f"choice.plan: expected shapes of {BLOCKS}, {2 * BLOCKS}, ... or {LONG} samples, "
            f"found {plan.shape_length}"
        )
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


_MOST = 1_000_000  # names of columns
_TEXTS = ("decimal", "date_format", "tz", "label")
_LISTS = ("by", "na", "time", "drop", "rates", "without", "header")
_LONGEST_STEP = 2**62  # in ns
_KINDS = (1, 2, 7)  # of days
_LONGEST_PERIOD = 10**9  # samples
_LONGEST_ZONE = 100  # characters


def reading_of(facts: Facts) -> dict[str, Any] | None:
    """Take out how history was read; None where it was not read from a file."""
    part = facts.nullable("reading", facts.part)
    if part is None:
        return None

    def names(name: str) -> list[str]:
        texts = part.list(name, _MOST)
        if not all(isinstance(each, str) for each in texts):
            raise part.wrong(name, "names", texts)
        return texts

    reading: dict[str, Any] = {name: part.nullable(name, part.text) for name in _TEXTS}
    reading |= {name: names(name) for name in _LISTS}
    reading["columns"] = part.nullable("columns", names)
    reading["resample"] = part.nullable("resample", part.count, 1, _LONGEST_STEP)
    part.done()
    return reading


def rhythm_of(facts: Facts, members: MembersParams) -> Rhythm:
    """Return the rhythm; its levels and spreads are those of the member."""
    by = facts.text("by")
    if by not in ("time", "sample"):
        raise facts.wrong("by", "time or sample", by)
    rhythm: dict[str, Any] = {"by": by, "bins": facts.count("bins", 1, MOST_BINS)}
    if by == "sample":
        rhythm["period"] = facts.count("period", 1, _LONGEST_PERIOD)
        rhythm["origin"] = facts.count("origin")
    else:
        rhythm["kinds"] = facts.count("kinds", 1)
        if rhythm["kinds"] not in _KINDS:
            raise facts.wrong("kinds", "1, 2 or 7", rhythm["kinds"])
        rhythm["shift"] = facts.count("shift", -DAY, DAY)
        rhythm["zone"] = zone_of(facts)
    facts.done()
    size, rows = rhythm["bins"] * rhythm.get("kinds", 1), len(members.rhythm_levels)
    if size != rows:
        raise StateError(f"model.own.members.rhythm_levels: expected {size} rows, found {rows}")
    return Rhythm.of(rhythm, members.rhythm_levels, members.rhythm_spreads)


def zone_of(facts: Facts) -> str | None:
    """Take the zone of times out."""
    zone = facts.nullable("zone", facts.text)
    if zone is not None and len(zone) > _LONGEST_ZONE:
        raise facts.wrong("zone", f"at most {_LONGEST_ZONE} characters", zone)
    return zone
