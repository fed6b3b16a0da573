"""The detector: scaler, trend, model and threshold as one."""

from __future__ import annotations

import copy
import logging
import math
import os
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from newnormal import state as state_file
from newnormal import thresholds
from newnormal.alarms import Alarm, AlarmEvent, Budget, Desk, Gauge, Realised, check_target
from newnormal.config import MINUTES, Config, duration
from newnormal.core import live
from newnormal.core.clock import NEVER, Clock
from newnormal.core.history import check_history, median_period
from newnormal.core.parameters import Parameters
from newnormal.core.scaling import Scaler
from newnormal.core.windows import threshold_scores
from newnormal.errors import (
    FeedbackError,
    NewnormalError,
    NewnormalWarning,
    NotFittedError,
    ParameterError,
    StateError,
)
from newnormal.kernels.step import HELD, LEARNED, PENDING, RESTORED, SEEN, Rules, Sheet, Stream
from newnormal.models import find
from newnormal.models.base import Model, OnEpoch, Training, scores
from newnormal.models.committee import Committee
from newnormal.state import State
from newnormal.tabular import default_channels, parse_time, to_sample, to_table
from newnormal.thresholds import Threshold, as_threshold
from newnormal.trust import Anchor, Keeper, Normal, Running
from newnormal.tuning import LATENT, WINDOW, Choice, choose
from newnormal.types import Floats, Floats32, Ints, Times, Verdict, Verdicts

__all__ = ["M2N2", "BaseDetector", "Detector", "from_state", "load"]

_LOG = logging.getLogger("newnormal")


class BaseDetector(Parameters):
    """What the two detectors share: verbs, state, views."""

    _estimator_type = "outlier_detector"  # scikit-learn's word for it
    _chooses: ClassVar[bool]
    threshold: float | Threshold | None
    alarms_per_day: float | None
    risk: float | None
    epochs: int | None
    batch: int | None
    accept_after: float | str | timedelta | np.timedelta64 | None

    # ------------------------------------------------------------------ fit

    def fit(self, X: Any, y: object = None, *, times: Any = None) -> Self:
        """Learn what normal is from history: an array, pandas or polars frame, (T, C).

        History may miss values (NaN). `y` is there for scikit-learn and not used.
        """
        del y
        config, rule = self._validated()
        table = to_table(X, times=times)
        channels = table.channels or default_channels(table.values.shape[1])
        check_history(table.values, channels, config.window)
        period = median_period(table.times)
        if config.period is not None:
            period = duration(config.period, "period")
        if self._chooses:
            self._choose(config, rule, table.values, channels, period)
            return self
        decay = config.decay_per_window(period)

        model = find(config.model)(config.window, len(channels), config.latent)
        if config.adapt and not model.adaptable:
            raise ParameterError(
                f"adapt: {config.model} cannot learn from the stream, found adapt=True",
                hint="pass adapt=False; detrend=True works with any model",
            )
        scaler = model.scaler(table.values)
        training = Training(config.training_stride(), config.epochs, config.batch, config.seed)
        with _progress(config.epochs) as on_epoch:
            fitted, losses = model.fit(scaler.apply(table.values), training, on_epoch)
        _check_weights(fitted)

        # History is scored as it was learned: the model frozen, the trend at history's mean.
        held = Rules(
            scaler.mean, scaler.scale, fitted, config.judging_stride(), math.inf, 1.0, np.float32(0)
        )
        blank = model.fresh(fitted)
        judged = scores(model, live.copied(blank), held, table.values)
        last = held._replace(stride=config.window)
        last_window = scores(model, live.copied(blank), last, table.values[-config.window :])
        tau = _threshold(rule, threshold_scores(judged, last_window, held.stride))
        desk = self._desk_for(config, tau, judged, channels, period)
        rules = held._replace(
            threshold=desk.threshold,
            decay=decay if config.detrend else 1.0,
            lr=np.float32(config.lr if config.adapt else 0),
        )
        keeper = self._keeper_for(config, table.values, model, rules, period, desk)
        self._take(config, rule, model, rules, channels, period, desk, keeper)
        self.losses_ = losses
        return self

    def _choose(
        self,
        config: Config,
        rule: Threshold,
        history: Floats,
        channels: tuple[str, ...],
        period: np.timedelta64 | None,
    ) -> None:
        """Fit a committee that is chosen from history alone."""
        scaler = Scaler.fit(history)
        with _progress(None) as on_epoch:
            chosen = choose(
                scaler.apply(history),
                seed=config.seed,
                epochs=self.epochs,
                batch=self.batch,
                on_epoch=on_epoch,
            )
        _check_weights(chosen.fitted)
        tau = _threshold(rule, chosen.scores)
        desk = self._desk_for(config, tau, chosen.scores, channels, period)
        rules = Rules(
            scaler.mean,
            scaler.scale,
            chosen.fitted,
            config.judging_stride(),
            desk.threshold,
            0.0,
            np.float32(1),
        )
        keeper = self._keeper_for(config, history, chosen.model, rules, period, desk)
        self._take(config, rule, chosen.model, rules, channels, period, desk, keeper, chosen.choice)
        self.losses_ = chosen.losses

    def _take(
        self,
        config: Config,
        rule: Threshold,
        model: Model,
        rules: Rules,
        channels: tuple[str, ...],
        period: np.timedelta64 | None,
        desk: Desk,
        keeper: Keeper | None,
        choice: Choice | None = None,
    ) -> None:
        """Be fitted, and ready for the first sample."""
        self._config, self._rule, self._model, self._rules = config, rule, model, rules
        self._desk, self._keeper, self._choice = desk, keeper, choice
        self.channels_ = channels
        self.n_features_in_ = len(channels)
        self.period_ = period
        self.threshold_ = rules.threshold
        self.window_ = config.window
        self.latent_ = config.latent
        if choice is None:
            self.decay_ = config.decay_per_window(period)
        else:
            plan = choice.plan
            self.decay_ = float(0.5 ** (config.window / plan.memories[plan.spokesman]))
            self.memories_ = plan.memories
            self.rates_ = plan.rates
            self.members_ = choice.members
            self.smoothing_ = plan.smoothing
        self.reset()

    def _desk_for(
        self,
        config: Config,
        tau: float,
        scores: Floats,
        channels: tuple[str, ...],
        period: np.timedelta64 | None,
    ) -> Desk:
        """Return where alarms are raised: held to the budget, or at the threshold without one."""
        per_day = float(MINUTES) if period is None else float(np.timedelta64(1, "D") / period)
        budget = None
        if self.alarms_per_day is not None or self.risk is not None:
            patience = config.patience(period)
            budget = Budget(self.alarms_per_day, self.risk, per_day, accept_after=patience)
        return Desk.of(
            channels, tau, scores, budget, samples_per_day=per_day, active=self._keeps_normal
        )

    def _keeper_for(
        self,
        config: Config,
        history: Floats,
        model: Model,
        rules: Rules,
        period: np.timedelta64 | None,
        desk: Desk,
    ) -> Keeper | None:
        """Return what decides what becomes normal, or None where learning is the paper's."""
        if not self._keeps_normal:
            return None
        anchor = Anchor.fit(history)
        trend = model.learned(model.fresh(rules.fitted))[1]
        lows, highs = anchor.chart.lows, anchor.chart.highs
        home = Normal(rules.fitted, trend, lows, highs, desk.gauge.copy())
        return Keeper(anchor, home, config.patience(period))

    @property
    def _keeps_normal(self) -> bool:
        return self._chooses or self.accept_after is not None

    def explain(self) -> str:
        """Say in plain words and one table what was chosen from history, and why."""
        self._fitted()
        if self._choice is None:
            return "Nothing was chosen: M2N2 has the options it was given. Detector chooses."
        return self._choice.explain()

    # ------------------------------------------------------------------ live

    def step(self, sample: ArrayLike | Mapping[str, float], time: object = None) -> list[Verdict]:
        """Consume one sample and return the verdicts that became final.

        None while a window fills, then `stride` of them at a time; the first full window gives a
        verdict for each of its samples. A sample is a row of values, or a mapping by channel.
        """
        stream = self._live()
        values = to_sample(sample, self.channels_, int(stream.counts[SEEN]))
        when = NEVER if time is None else parse_time(time)
        if time is not None:
            self._clock.check(when, int(stream.counts[SEEN]))
        self._clock.add(when)
        pending = int(stream.counts[PENDING])
        first = int(stream.counts[SEEN]) - pending
        sheet = live.blank_sheet(pending + 1, len(self.channels_))
        waiting = self._waiting()
        self._advance(values, False, sheet)
        found: list[Verdict] = []
        if not stream.counts[PENDING]:
            verdicts = self._verdicts(sheet, self._clock.newest(pending + 1), first)
            self._judge(verdicts, slice(0, len(verdicts)), waiting, values)
            found = [Verdict(verdicts, row) for row in range(len(verdicts))]
        if self._keeper is not None and self._keeper.until_turn(stream) == 0:
            self._turn(self._keeper, self.last_judged_time_)
        return found

    def run(self, X: Any, times: Any = None, flush: bool = True) -> Verdicts:
        """Consume a series and return verdicts as columns, one row a sample.

        The same as `step` over each sample and then `flush`, only faster. With ``flush=False``
        the tail stays pending (NaN in its rows), and runs over consecutive stretches equal one
        run: the verdicts of samples left pending come with the next stretch, as its `late`.
        Everything is validated before anything changes.
        """
        stream = self._live()
        table = to_table(X, times=times, channels=self.channels_)
        if table.times is not None and len(table.times):
            self._clock.check(table.times[0], int(stream.counts[SEEN]))
        pending = int(stream.counts[PENDING])
        first = int(stream.counts[SEEN]) - pending
        before = self.last_judged_time_
        times = self._clock.with_pending(table.times, len(table.values), pending)
        self._clock.add_all(table.times, len(table.values))
        sheet = live.blank_sheet(pending + len(table.values), len(self.channels_))
        verdicts = self._verdicts(sheet, times, first)
        self._consume(table.values, flush, sheet, verdicts, before)
        if flush:
            self._say_if_unjudged()
        if pending == 0:
            return verdicts
        late = verdicts.rows(slice(None, pending))
        judged = stream.counts[PENDING] < pending + len(table.values)
        return verdicts.rows(slice(pending, None), late if judged else None)

    def _consume(
        self,
        values: Floats,
        flush: bool,
        sheet: Sheet,
        verdicts: Verdicts,
        time: np.datetime64 | None,
    ) -> None:
        """Advance and judge, in stretches that end where the keeper takes its turns.

        `time` is that of the newest sample judged before.
        """
        stream, keeper = self._stream, self._keeper
        at = done = 0  # samples consumed, rows judged
        last = False
        while not last:
            room = len(values) + 1 if keeper is None else keeper.until_turn(stream)
            part = values[at : at + room]
            at += len(part)
            turns = len(part) == room
            # At a turn the tail is judged after it, as by `step` and then `flush`.
            last = at == len(values) and not (flush and turns)
            waiting = self._waiting()
            stop = done + int(stream.counts[PENDING]) + len(part)
            self._advance(part, flush and last, Sheet._make(column[done:stop] for column in sheet))
            final = stop - int(stream.counts[PENDING])
            self._judge(verdicts, slice(done, final), waiting, part)
            done = final
            if done:
                newest = NEVER if verdicts.times is None else verdicts.times[done - 1]
                time = None if np.isnat(newest) else newest
            if keeper is not None and turns:
                self._turn(keeper, time)

    def flush(self) -> list[Verdict]:
        """Judge the pending samples in one last window made of the newest `window` samples.

        With fewer than `window` samples seen in all, nothing is judged, and a warning says so.
        """
        self._fitted()
        late = self.run(np.empty((0, len(self.channels_))), flush=True).late
        return [] if late is None else list(late)

    def score(self, X: Any, times: Any = None) -> Verdicts:
        """Judge a series by itself with the present weights and trend, and change nothing."""
        stream = self._live()
        table = to_table(X, times=times, channels=self.channels_)
        held = live.copied(stream)
        self._model.forget_samples(held, anew=True)
        twin = self._twin(held)
        twin._rules = self._rules._replace(decay=1.0, lr=np.float32(0))
        twin._keeper = None
        twin._desk.quieten()
        return twin.run(table)

    def decision_function(self, X: Any) -> Floats:
        """Return the scores `run` would give; the detector itself does not change."""
        return self._twin(live.copied(self._live())).run(X).scores

    def predict(self, X: Any) -> Ints:
        """Return 1 for the samples `run` would call anomalous, else 0; nothing changes."""
        return self._twin(live.copied(self._live())).run(X).anomalous.astype(np.int64)

    def reset(self) -> Self:
        """Go back to the fitted state: trend, weights, pending samples, sample number, times."""
        rules = self._fitted()
        self._stream = self._model.fresh(rules.fitted)
        self._clock = Clock(self._config.window)
        if self._keeper is not None:
            self._keeper.reset()
            self._desk.gauge.adopt(self._keeper.home.gauge)
        self._desk.reset()
        if self._keeper is not None:
            self._follow_threshold()
        return self

    def restart(self) -> Self:
        """Start on another input: keep what was learned, forget its samples and their times."""
        self._model.forget_samples(self._live())
        if self._keeper is not None and self._keeper.shadow is not None:
            self._model.forget_samples(self._keeper.shadow)
        self._clock.clear()
        return self

    def track_alarms(self) -> Self:
        """Turn samples into alarms from here on, if that is not done already.

        It is where the detector chooses for itself, or has a budget of alarms.
        """
        self._fitted()
        self._desk.active = True
        return self

    def take_events(self) -> list[AlarmEvent]:
        """Return what happened to alarms since this was last asked: opened, updated, closed.

        The newest thousand are kept.
        """
        self._fitted()
        return self._desk.take_events()

    # ------------------------------------------------------------------ feedback

    def accept(self, alarm: Alarm | int | None = None) -> Self:
        """Let what the open alarm is about be normal from now on, and end it.

        `alarm`, or its number, makes sure that it is the one you mean.
        """
        keeper = self._kept(alarm)
        keeper.accept(self._running(self.last_judged_time_))
        self._follow_threshold()
        return self

    def reject(self, alarm: Alarm | int | None = None) -> Self:
        """Never learn what the open alarm is about; forget what was learned of it.

        The alarm stays open until the stream is back to normal, and nothing is learned meanwhile.
        """
        keeper = self._kept(alarm)
        keeper.reject(self._running(self.last_judged_time_))
        return self

    def rollback(self) -> Self:
        """Undo the newest acceptance: go back to the normal before it. The last three can be.

        If the stream is still where that was, an alarm opens: reject it, or it is accepted again.
        """
        keeper = self._kept()
        keeper.rollback(self._running(self.last_judged_time_))
        self._follow_threshold()
        return self

    @property
    def status_(self) -> str:
        """``"normal"``, ``"in alarm"``, ``"candidate new normal"`` or ``"rejected"``."""
        alarm = self.alarm_
        return "normal" if alarm is None else alarm.state

    @property
    def distance_(self) -> float:
        """How far the stream is from its accepted normal: past 1 is an alarm, however slow.

        NaN where learning is the paper's.
        """
        self._fitted()
        return math.nan if self._keeper is None else self._keeper.distance

    @property
    def alarm_threshold_(self) -> float:
        """What the next score is compared with: `threshold_`, or what a budget has made of it."""
        self._fitted()
        return self._desk.threshold

    @property
    def alarm_(self) -> Alarm | None:
        """The open alarm, or None."""
        self._fitted()
        return self._desk.tracker.alarm

    @property
    def alarm_rate_(self) -> Realised:
        """How many alarms there were, and how many a day, beside the budget."""
        self._fitted()
        return self._desk.gauge.realised

    @property
    def counters(self) -> dict[str, int]:
        """Samples seen and pending, learning steps taken, and times the guard stepped in."""
        counts = self._live().counts
        names = {"seen": SEEN, "pending": PENDING, "learned": LEARNED, "restored": RESTORED}
        return {name: int(counts[at]) for name, at in names.items()}

    @property
    def trend_(self) -> Floats:
        """The trend as it stands, in the user's units, one value a channel."""
        rules = self._fitted()
        return (self._live().trend + self._model.center) * rules.scale + rules.mean

    @property
    def parameters_(self) -> int:
        """How many parameters the model has."""
        self._fitted()
        return self._model.parameters

    @property
    def adaptable_(self) -> tuple[str, ...]:
        """The names of the parameters that may change at test time; none if `adapt` is off."""
        self._fitted()
        return self._model.adaptable if self._rules.lr != 0 else ()

    @property
    def last_time_(self) -> np.datetime64 | None:
        """The time of the newest sample consumed, or None."""
        self._live()
        return None if np.isnat(self._clock.last) else self._clock.last

    @property
    def last_judged_time_(self) -> np.datetime64 | None:
        """The time of the newest sample that has a verdict, or None."""
        return self._clock.before(int(self._live().counts[PENDING]))

    def drop_pending(self, since: object = None) -> int:
        """Forget pending samples, those not before the time `since` or all; return how many.

        For a source that sends again what has no verdict yet.
        """
        stream = self._live()
        pending = int(stream.counts[PENDING])
        count = pending
        if since is not None:
            newest = self._clock.newest(pending)
            count = 0 if newest is None else int((newest >= parse_time(since)).sum())
        self._model.drop_pending(stream, count)
        if self._keeper is not None and self._keeper.shadow is not None:
            self._model.drop_pending(self._keeper.shadow, count)
        self._clock.drop(count)
        return count

    # ------------------------------------------------------------------ state

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything, live state included, to one file, atomically."""
        state_file.write(path, self.to_state())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a detector back, exactly as it was."""
        return cls.from_state(state_file.read(path), str(path))

    def to_state(self) -> State:
        """Return the detector as data."""
        stream, rules = self._live(), self._fitted()
        facts = {
            "config": self._config.to_json(),
            "given": self._given(),
            "choice": None if self._choice is None else self._choice.to_json(),
            "alarms": self._desk.to_json(),
            "keeper": None if self._keeper is None else self._keeper.to_json(),
            "threshold": thresholds.to_json(self._rule),
            "channels": list(self.channels_),
            "period": None if self.period_ is None else int(self.period_.astype(np.int64)),
            "losses": [float(loss) for loss in self.losses_],
            "counts": {name: int(stream.counts[at]) for name, at in live.COUNTS.items()},
            **self._clock.to_json(),
        }
        tensors: dict[str, NDArray[Any]] = {
            "mean": rules.mean,
            "scale": rules.scale,
            "fitted": rules.fitted,
            "threshold": np.array([rules.threshold]),
            "samples": stream.samples,
            **self._clock.tensors(),
            "trend": stream.trend,
            "weights": stream.weights,
            "good": stream.good,
            "reach": stream.reach,
            **({"rest": stream.rest} if stream.rest.size else {}),
            **{f"model.{name}": array for name, array in self._model.tensors().items()},
            **{f"gauge.{name}": array for name, array in self._desk.tensors().items()},
        }
        if self._keeper is not None:
            kept = self._keeper.tensors().items()
            tensors |= {f"keeper.{name}": array for name, array in kept}
        return State(facts, tensors)

    @classmethod
    def from_state(cls, state: State, origin: str = "this") -> Self:
        """Return the detector that `to_state` was called on; `origin` is for errors."""
        try:
            return cls._from_state(state)
        except (KeyError, TypeError, ValueError) as error:
            raise StateError(
                f"{origin} is not a state this newnormal understands: {error}",
                hint="fit again with `newnormal fit`",
            ) from error

    @classmethod
    def _from_state(cls, state: State) -> Self:
        facts, tensors = state.facts, state.tensors
        config = Config.from_json(facts["config"])
        rule = thresholds.from_json(facts["threshold"])
        threshold: Any = rule.q if isinstance(rule, thresholds.Quantile) else rule
        if threshold == 0.99:
            threshold = None
        kind: Any = M2N2 if facts["choice"] is None else Detector
        if not issubclass(kind, cls):
            raise StateError(
                f"expected a {cls.__name__}, found the state of {kind.__name__}",
                hint=f"newnormal.load returns either; or call newnormal.{kind.__name__}.load",
            )
        known = kind._defaults()
        given = {name: each for name, each in facts["given"].items() if name in known}
        given = {name: known[name] if each is None else each for name, each in given.items()}
        detector: Self = kind(**given, threshold=threshold)
        channels = tuple(facts["channels"])
        period = None if facts["period"] is None else np.timedelta64(facts["period"], "ns")
        choice = None if facts["choice"] is None else Choice.from_json(facts["choice"])
        model: Model
        if choice is None:
            model = find(config.model)(config.window, len(channels), config.latent)
            decay = config.decay_per_window(period) if config.detrend else 1.0
            lr = config.lr if config.adapt else 0
        else:
            model = Committee(config.window, len(channels), config.latent, choice.plan)
            decay, lr = 0.0, 1
        model.restore(state_file.under("model.", tensors))
        # Copies: arrays that cannot be written to are another type to the compiled loop.
        rules = Rules(
            tensors["mean"].copy(),
            tensors["scale"].copy(),
            tensors["fitted"].copy(),
            config.judging_stride(),
            float(tensors["threshold"][0]),
            decay,
            np.float32(lr),
        )
        if facts["alarms"] is None:  # history's scores were not kept
            desk = Desk(channels, Gauge.at(rules.threshold, np.zeros(1)), None, active=False)
        else:
            desk = Desk.restore(channels, facts["alarms"], state_file.under("gauge.", tensors))
        detector._take(config, rule, model, rules, channels, period, desk.copy(), None, choice)
        detector._desk = desk  # not begun anew
        if facts["keeper"] is not None:
            kept = state_file.under("keeper.", tensors)
            detector._keeper = Keeper.restore(facts["keeper"], kept, rules.fitted)
        detector.losses_ = list(facts["losses"])
        counts = np.zeros(len(live.COUNTS), dtype=np.int64)
        for name, at in live.COUNTS.items():
            counts[at] = facts["counts"][name]
        detector._stream = Stream(
            samples=tensors["samples"].copy(),
            trend=tensors["trend"].copy(),
            weights=live.aligned(tensors["weights"]),
            good=live.aligned(tensors["good"]),
            reach=tensors["reach"].copy(),
            counts=counts,
            rest=tensors["rest"].copy() if "rest" in tensors else np.empty(0),
        )
        detector._clock = Clock.restore(facts, tensors)
        return detector

    # ------------------------------------------------------------------ scikit-learn

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_rules")

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import InputTags, Tags, TargetTags

        return Tags(
            estimator_type="outlier_detector",
            target_tags=TargetTags(required=False),
            input_tags=InputTags(allow_nan=True),
        )

    # ------------------------------------------------------------------ inside

    def _validated(self) -> tuple[Config, Threshold]:
        options = self.get_params()
        threshold = options.pop("threshold")
        rule = as_threshold(0.99 if threshold is None else threshold)
        alarms_per_day, risk = options.pop("alarms_per_day"), options.pop("risk")
        if alarms_per_day is not None or risk is not None:
            check_target(alarms_per_day, risk)  # how many samples a day has, only fit knows
            if threshold is not None:
                raise ParameterError(
                    f"expected one of threshold, alarms_per_day and risk, found threshold="
                    f"{threshold!r} beside the other",
                    hint="a threshold stays where it is put; a budget moves it",
                )
        if self._chooses:
            options |= {"window": WINDOW, "latent": LATENT}
        else:
            find(options["model"])
        return Config.of(**options), rule

    def _given(self) -> dict[str, Any]:
        """Return the options as they were given, as values JSON knows."""
        given = self.get_params()
        given |= {
            name: None if given.get(name) is None else value
            for name, value in self._config.to_json().items()
        }
        del given["threshold"]
        return given

    def _fitted(self) -> Rules:
        try:
            return self._rules
        except AttributeError:
            raise NotFittedError(
                "this detector has not been fitted",
                hint="call detector.fit(history) first, or Detector.load(path)",
            ) from None

    def _live(self) -> Stream:
        self._fitted()
        return self._stream

    def _twin(self, stream: Stream) -> Self:
        """Return a detector with a live state of its own, which leaves this one alone."""
        twin = copy.copy(self)
        twin._stream = stream
        twin._desk = self._desk.copy()
        twin._keeper = None if self._keeper is None else self._keeper.copy()
        twin._clock = self._clock.copy()
        if stream.counts[SEEN] == 0:
            twin._clock.clear()
        return twin

    def _advance(self, values: Floats, flush: bool, sheet: Sheet) -> None:
        stream = self._stream
        restored = int(stream.counts[RESTORED])
        rules = self._rules
        if self._keeper is not None:
            self._keeper.accompany(values, flush, self._model, rules)
            rules = self._keeper.rules(rules)
        self._model.advance(values, flush, stream, rules, sheet)
        again = int(stream.counts[RESTORED]) - restored
        if again:
            remedy = (
                "" if self._chooses else f"; a smaller lr would avoid it (now {self._rules.lr:g})"
            )
            _LOG.warning(
                "learning diverged by sample %d: the weights went back to a good copy, "
                "%d time(s)%s",
                int(stream.counts[SEEN]),
                again,
                remedy,
            )

    def _waiting(self) -> Floats:
        """Return the pending samples, where somebody will want them once they are judged."""
        samples = self._stream.samples
        if self._keeper is None:
            return samples[:0]
        return samples[len(samples) - int(self._stream.counts[PENDING]) :].copy()

    def _turn(self, keeper: Keeper, time: np.datetime64 | None) -> None:
        if keeper.turn(self._running(time)):
            self._follow_threshold()

    def _running(self, time: np.datetime64 | None) -> Running:
        return Running(self._model, self._stream, self._rules, self._desk, time)

    def _follow_threshold(self) -> None:
        """Learn below the threshold that alarms are raised at, as far as it was accepted."""
        self._rules = self._rules._replace(threshold=self._desk.threshold)
        self.threshold_ = self._rules.threshold

    def _kept(self, alarm: Alarm | int | None = None) -> Keeper:
        """Return the keeper, if the alarm meant is the open one."""
        self._fitted()
        if self._keeper is None:
            raise FeedbackError(
                "this detector keeps no normal to go back to: it learns as the paper says, or was "
                "fitted by an older newnormal",
                hint='fit again with accept_after="1d", or with no settings of your own',
            )
        number = alarm.number if isinstance(alarm, Alarm) else alarm
        found = self.alarm_
        if number is not None and (found is None or found.number != number):
            raise FeedbackError(
                f"expected the open alarm, which is {found.number if found else 'none'}, "
                f"found alarm {number}",
                hint="`rollback` undoes the newest acceptance"
                if found is None
                else "leave the number out to mean the open one",
            )
        return self._keeper

    def _verdicts(self, sheet: Sheet, times: Times | None, first: int) -> Verdicts:
        """Return verdicts whose columns are the sheet's, to be judged."""
        verdicts = Verdicts(
            sheet.scores,
            np.full(len(sheet.scores), self._rules.threshold),
            sheet.anomalous,
            sheet.expected if self._model.reconstructs else None,
            sheet.shares if self._model.reconstructs else None,
            times,
            self.channels_,
            first,
        )
        return self._desk.prepared(verdicts)

    def _judge(self, verdicts: Verdicts, rows: slice, waiting: Floats, values: Floats) -> None:
        """Turn rows that are final into alarms: of the samples waiting, and of new ones."""
        if self._keeper is None:
            self._desk.judge(verdicts, rows)
        else:
            samples = np.concatenate([waiting, values])[: rows.stop - rows.start]
            bearing = self._keeper.follow(samples)
            self._desk.judge(verdicts, rows, bearing.flags, bearing.where)

    def _say_if_unjudged(self) -> None:
        counts = self._stream.counts
        if counts[PENDING] and counts[HELD] < self._config.window:
            warnings.warn(
                f"nothing was judged: {int(counts[HELD])} samples seen, and a window has "
                f"{self._config.window}",
                NewnormalWarning,
                stacklevel=3,
            )


class Detector(BaseDetector):
    """Detects anomalies in a live stream, and keeps learning what normal is.

    Fit it on history that is mostly normal; then hand it the stream, sample by sample (`step`) or
    in stretches (`run`). It chooses its own settings from history: `explain` describes them.
    """

    _chooses = True

    def __init__(
        self,
        *,
        alarms_per_day: float | None = None,
        risk: float | None = None,
        threshold: float | Threshold | None = None,
        accept_after: float | str | timedelta | np.timedelta64 | None = None,
        epochs: int | None = None,
        batch: int | None = None,
        period: float | str | timedelta | np.timedelta64 | None = None,
        seed: int = 0,
        **method: Any,
    ) -> None:
        _refuse(method)
        self.alarms_per_day = alarms_per_day
        self.risk = risk
        self.threshold = threshold
        self.accept_after = accept_after
        self.epochs = epochs
        self.batch = batch
        self.period = period
        self.seed = seed
        self._validated()


class M2N2(BaseDetector):
    """The paper's method, with the paper's options.

    Examples
    --------
    >>> import numpy as np
    >>> from newnormal import M2N2
    >>> rng = np.random.default_rng(0)
    >>> history = np.sin(np.arange(600) / 9)[:, None] + rng.normal(0, 0.1, (600, 2))
    >>> live = history[:240].copy()
    >>> live[200] += 3
    >>> verdicts = M2N2(window=6, threshold=1.0).fit(history).run(live)
    >>> np.flatnonzero(verdicts.anomalous).tolist()
    [200]
    """

    _chooses = False

    def __init__(
        self,
        *,
        window: int = 12,
        stride: int | None = None,
        fit_stride: int | None = None,
        latent: int = 16,
        decay: float | None = None,
        half_life: float | str | timedelta | np.timedelta64 | None = None,
        lr: float = 0.001,
        detrend: bool = True,
        adapt: bool = True,
        model: str = "mlp",
        alarms_per_day: float | None = None,
        risk: float | None = None,
        threshold: float | Threshold | None = None,
        accept_after: float | str | timedelta | np.timedelta64 | None = None,
        epochs: int = 10,
        batch: int = 64,
        period: float | str | timedelta | np.timedelta64 | None = None,
        seed: int = 0,
    ) -> None:
        self.window = window
        self.stride = stride
        self.fit_stride = fit_stride
        self.latent = latent
        self.decay = decay
        self.half_life = half_life
        self.lr = lr
        self.detrend = detrend
        self.adapt = adapt
        self.model = model
        self.alarms_per_day = alarms_per_day
        self.risk = risk
        self.threshold = threshold
        self.accept_after = accept_after
        self.epochs = epochs
        self.batch = batch
        self.period = period
        self.seed = seed
        self._validated()


def load(path: str | os.PathLike[str]) -> BaseDetector:
    """Read a detector back, exactly as it was: a `Detector` or an `M2N2`."""
    return from_state(state_file.read(path), str(path))


def from_state(state: State, origin: str = "this") -> BaseDetector:
    """Return the detector that `to_state` was called on; `origin` is for errors."""
    found: Any = BaseDetector.from_state(state, origin)
    return found  # type: ignore[no-any-return]


def _refuse(method: dict[str, Any]) -> None:
    """Raise a ParameterError if `Detector` is given an option of the paper's method."""
    known = M2N2._defaults()
    for name, value in method.items():
        if name in known:
            raise ParameterError(
                f"{name}: Detector chooses it by itself, found {name}={value!r}",
                hint=f"to set it, use the paper's method: newnormal.M2N2({name}={value!r})",
            )
        raise TypeError(f"Detector.__init__() got an unexpected keyword argument {name!r}")


def _threshold(rule: Threshold, scores: Floats) -> float:
    tau = float(rule.fit(scores))
    if math.isnan(tau):
        raise ParameterError(
            f"threshold: expected a number from {rule!r}, found NaN",
            hint="its fit(scores) must return the score from which on a sample is anomalous",
        )
    return tau


def _check_weights(fitted: Floats32) -> None:
    if not np.isfinite(fitted).all():
        raise NewnormalError(
            "training did not converge: the model's weights are not finite",
            hint="look for extreme values in the history, or scale it first",
        )


@contextmanager
def _progress(epochs: int | None) -> Iterator[OnEpoch | None]:
    """Show a progress bar on a terminal, and nothing elsewhere."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("fitting", total=epochs)

        def on_epoch(done: int, loss: float) -> None:
            bar.update(task, completed=done, description=f"fitting, loss {loss:.4g}")

        yield on_epoch
