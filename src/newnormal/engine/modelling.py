"""Models of streams: a fit begins, is taken over, or fails.

A stream goes live at the sample after its history, however long its fit took: the samples that
came meanwhile are in the store, and are judged when the model is taken over.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from newnormal import detector as detectors
from newnormal.arrivals.arrival import Arrival
from newnormal.arrivals.order import Steps
from newnormal.base import BaseDetector
from newnormal.config import samples_per_day
from newnormal.core.history import median_period
from newnormal.engine import items
from newnormal.engine.judging import LiveBatch, judge
from newnormal.engine.log.entries import FitBegan, FitFailed, FitTaken
from newnormal.engine.streams import FittedModel, PendingFit, StreamRecord
from newnormal.engine.values import FAILED, FITTING, LIVE
from newnormal.errors import InputError, NewnormalError, StateError
from newnormal.fleet.results import FleetEvent
from newnormal.state.files import replace_file
from newnormal.tabular import Table
from newnormal.types import CHANGED, NO_TIME, OPENED, Alarm, Event

if TYPE_CHECKING:
    from newnormal.engine.applying import Applier

_OTHER_PERIOD = 1.5  # times a period, from which on it is another one
_SAMPLES_AN_ALARM = 10  # at least; Detector takes no limit above the samples of a day
_OURS = re.compile(r"\d+-\d+(-kept|-put)?\.nn")  # files of models


def model_file(stream: StreamRecord, fit: PendingFit) -> str:
    """Return the name of the file of a fitted model."""
    return f"{stream.id}-{fit.began}.nn"


def begin_fit(applier: Applier, stream: StreamRecord, entry: FitBegan) -> None:
    """Begin a fit."""
    stream.begun = False
    if stream.fit is not None:
        raise InputError(
            f"expected no fit of {stream.name!r} under way, found one",
            hint="wait until it has finished",
        )
    if stream.is_live and entry.reason == "history":
        return  # it was due twice: what the first one began is done
    last = min(entry.last, stream.count - 1)
    first = max(entry.first, 0)
    if last < first:
        raise InputError(f"expected samples of {stream.name!r}, found none")
    channels = entry.channels
    if channels is None:
        channels = stream.order.channels if stream.model is None else stream.model.channels
    stream.fit = PendingFit(applier.position, first, last, channels, entry.reason)
    if entry.reason == "channels":
        stream.wanted = None
    if not stream.is_live:
        stream.state = FITTING
    applier.started.append(stream)
    applier.report.state_of(stream, stream.now)


def history_of(applier: Applier, stream: StreamRecord) -> Table:
    """Return the samples that the fit under way takes: channels without any value are left out."""
    fit = stream.fit
    assert fit is not None
    rows = applier.store.samples.rows(stream.id, fit.first, fit.last, fit.channels)
    seen = np.flatnonzero((~np.isnan(rows.values)).any(axis=0))
    if not len(seen):
        raise InputError(
            "expected values in the history, found only missing ones",
            hint="it is tried again when there is more history",
        )
    channels = tuple(rows.channels[k] for k in seen.tolist())
    values = np.ascontiguousarray(rows.values[:, seen])
    return Table(values, channels, rows.times.view("datetime64[ns]"))


def new_detector(
    history: Table, limit: float, accept_after: str, units: Iterable[str] = ()
) -> BaseDetector:
    """Return the detector that is to be fitted on a history, with the units of its channels.

    >>> new_detector(Table(np.zeros((9, 1)), ("disk",), None), 1.0, "1d", ["disk=B", "cpu=%"]).units
    {'disk': 'B'}
    """
    limit = _possible(limit, median_period(history.times))
    named = dict(each.rpartition("=")[::2] for each in units)
    own = {name: named[name] for name in history.channels or () if named.get(name)}
    return detectors.Detector(alarms_per_day=limit, accept_after=accept_after, units=own or None)


def _possible(limit: float, period: np.timedelta64 | None) -> float:
    """Return a limit on alarms a day of at most one in ten samples: a stream may be slow."""
    return min(limit, samples_per_day(period) / _SAMPLES_AN_ALARM)


def _other_limit(applier: Applier, name: str, detector: BaseDetector, period: Any) -> float | None:
    """Return the limit on alarms that the settings have for a stream; None: it has that."""
    limit: float | None = applier.configured(name)[-1]
    limit = None if limit is None else _possible(limit, period)
    return None if limit == detector.get_params()["alarms_per_day"] else limit


def follow_limits(applier: Applier) -> None:
    """Give live streams the limits on alarms that the settings have for them."""
    changed: dict[float, list[str]] = {}
    for stream in applier.fleet.blocks():
        limit = _other_limit(applier, stream.name, stream.template, stream.fitted.period)
        if limit is not None:
            changed.setdefault(limit, []).append(stream.name)
    for limit, names in changed.items():
        applier.fleet.set_options(names, alarms_per_day=limit)


def fail_fit(applier: Applier, stream: StreamRecord, entry: FitFailed) -> None:
    """Take note of a fit that failed: the stream goes on as it was."""
    if stream.fit is None or stream.fit.began != entry.began:
        return
    # The next one waits until there are twice as many samples; a tenth more where they were good.
    samples = stream.fit.last + 1
    stream.tried = samples * 11 // 20 if entry.again else samples
    stream.fit = None
    stream.problem = entry.message if entry.hint is None else f"{entry.message}; {entry.hint}"
    if not stream.is_live:
        stream.state = FAILED
    applier.report.state_of(stream, stream.now)


def take_fit(applier: Applier, stream: StreamRecord, entry: FitTaken) -> None:
    """Take a fitted model over, and judge the samples that came since its history."""
    fit = stream.fit
    if fit is None or fit.began != entry.began:
        return
    try:
        detector = detectors.load(applier.models / entry.model)
    except NewnormalError as error:
        fail_fit(applier, stream, FitFailed(stream.id, entry.began, error.message, error.hint))
        return
    _replace(applier, stream, detector)
    rows = applier.store.samples.rows(stream.id, fit.last, fit.last)
    stream.models.append(
        FittedModel(
            stream.generation + 1,
            entry.model,
            detector.channels_,
            fit.first,
            fit.last,
            fit.reason,
            int(rows.times[0]),
        )
    )
    stream.fit, stream.tried = None, 0
    _go_live(applier, stream, fit.last + 1, detector.period_)
    _catch_up(applier, stream)


def restore_model(applier: Applier, stream: StreamRecord, generation: int) -> None:
    """Go back to an earlier model as it was when it was replaced, from the next sample on."""
    earlier = {model.generation: model for model in stream.models[:-1]}
    if generation not in earlier:
        numbers = ", ".join(map(str, earlier))
        raise InputError(
            f"expected an earlier model of {stream.name!r}, found {generation}",
            hint=f"there are {numbers}" if numbers else "it has had one model only",
        )
    detector = _load(applier.models / earlier[generation].file)
    detector.restart()  # the samples since then were another model's
    _replace(applier, stream, detector)
    number = stream.generation + 1
    stream.models.append(replace(earlier[generation], generation=number, reason="restored"))
    _go_live(applier, stream, stream.count, detector.period_)
    _report_open(applier, stream)


def put_model(applier: Applier, stream: StreamRecord, content: bytes, now: int) -> None:
    """Put a model from elsewhere into a stream, where all samples that came are closed and judged.

    A stream without a model goes on where this one is: samples that it has judged are late, and
    later ones that are stored are judged. One with a model goes on with its next sample; so does
    one whose new model has judged none.
    """
    file = f"{stream.id}-{applier.position}-put.nn"
    replace_file(applier.models / file, content)
    detector, first = _load(applier.models / file), stream.count
    if stream.is_live:
        detector.restart()
    newest = _newest(detector)
    oldest = applier.store.samples.first_kept(stream.id)
    if not stream.is_live and newest > NO_TIME and oldest < first:
        times = applier.store.samples.rows(stream.id, oldest, first - 1, ()).times
        first = oldest + int(np.searchsorted(times, newest, side="right"))
    stream.order.begin(detector.channels_, newest)
    _replace(applier, stream, detector)
    time = now if stream.order.closed == NO_TIME else stream.order.closed
    generation = stream.generation + 1
    model = FittedModel(generation, file, detector.channels_, first, first - 1, "put", time)
    stream.models.append(model)
    stream.excused_after = stream.order.newest
    _go_live(applier, stream, first, detector.period_)
    _report_open(applier, stream)
    _catch_up(applier, stream)


def adopt(applier: Applier, name: str, now: int) -> None:
    """Begin a stream that the fleet has; a checkpoint follows."""
    stream, block = applier.appear(name, now), applier.fleet.block(name)
    channels, newest = block.fitted.channels, block.progress[1]
    stream.order.begin(channels, newest)
    time = now if newest == NO_TIME else newest
    stream.models.append(FittedModel(1, "", channels, 0, -1, "put", time))
    _go_live(applier, stream, 0, block.fitted.period)


def read_model(stream: str, content: bytes) -> Arrival:
    """Return a missing sample of a model's channels at its newest time, from its state file.

    Raise an InputError unless it is the model of a `Detector` for samples with times.
    """
    with TemporaryDirectory(prefix="newnormal-model-") as folder:
        path = Path(folder, "model.nn")
        path.write_bytes(content)
        try:
            detector = _load(path)
        except InputError as error:
            raise InputError(
                error.message.replace(str(path), "the model"), hint=error.hint
            ) from None
    if not isinstance(detector, detectors.Detector):
        raise InputError(
            f"expected a Detector, found {type(detector).__name__}: it judges whole windows",
            hint="newnormal watch runs it",
        )
    if detector.period_ is None:
        raise InputError(
            "expected a detector that was fitted on samples with times, found one without",
            hint="fit it on data with a column of times",
        )
    times = np.array([] if detector.last_time_ is None else [_newest(detector)], np.int64)
    channels = detector.channels_
    return Arrival(stream, channels, times, np.full((len(times), len(channels)), np.nan))


def _newest(detector: BaseDetector) -> int:
    """Return the time of the newest sample that a detector has taken, in ns; NO_TIME if none."""
    last = detector.last_time_
    return NO_TIME if last is None else int(last.astype("datetime64[ns]").astype(np.int64))


def _load(path: Path) -> BaseDetector:
    try:
        return detectors.load(path)
    except StateError as error:  # of this model alone: the service goes on
        raise InputError(error.message, hint=error.hint) from error


def remove_models(applier: Applier) -> None:
    """Delete the models that no stream names; right after a checkpoint.

    A record after it takes over the fit under way, which is named, or one that begins later, whose
    file is not there yet.
    """
    named = {model.file for stream in applier.streams for model in stream.models}
    named |= {model_file(stream, stream.fit) for stream in applier.streams if stream.fit}
    for path in applier.models.glob("*.nn"):
        if path.name not in named and _OURS.fullmatch(path.name):
            with suppress(OSError):  # the next time, then
                path.unlink()


def _replace(applier: Applier, stream: StreamRecord, detector: BaseDetector) -> None:
    """Put another detector in the place of the one that a stream has, which is kept."""
    _end_items(applier, stream)
    limit = _other_limit(applier, stream.name, detector, detector.period_)
    if limit is not None:  # set since it was fitted
        detector.set_options(alarms_per_day=limit)
    fleet, old = applier.fleet, stream.model
    if old is not None and stream.name in fleet:
        kept = f"{stream.id}-{old.generation}-kept.nn"
        fleet.take_out(stream.name, applier.models / kept)
        stream.models[-1] = replace(old, file=kept)
        fleet.remove(stream.name)
    fleet.add(stream.name, detector)


def _go_live(
    applier: Applier, stream: StreamRecord, offset: int, period: np.timedelta64 | None
) -> None:
    if period is not None:
        _follow_period(stream, int(period.astype("timedelta64[ns]").astype(np.int64)))
    stream.columns, stream.problem, stream.offset, stream.state = None, "", offset, LIVE
    stream.since, stream.absent, stream.ignored, stream.quiet = {}, {}, (), ()
    applier.report.state_of(stream, stream.now)


def begin_generations(applier: Applier, stream: StreamRecord, after: int) -> None:
    """Name what a stream's models find from now on by generations after one."""
    _end_items(applier, stream)
    stream.lost = after
    if stream.is_live:
        stream.models[-1] = replace(stream.models[-1], generation=stream.generation)
        _report_open(applier, stream)


def _follow_period(stream: StreamRecord, period: int) -> None:
    """Take the period of a model's history where none is given, and it is another one."""
    old = stream.order.period
    if old is None:
        stream.order.period = period
    elif not stream.period_given and max(old, period) >= _OTHER_PERIOD * min(old, period):
        stream.order.follow(period)


def _report_open(applier: Applier, stream: StreamRecord) -> None:
    """Report what a detector has open: it was ended when another one took its place."""
    now = np.datetime64(stream.now, "ns")
    for opened in applier.fleet.opened([stream.name]).get(stream.name, ()):
        if isinstance(opened, Alarm):
            event = Event(OPENED, stream.count, now, alarm=opened)
        else:
            event = Event(CHANGED, stream.count, now, change=opened)
        applier.report.events(stream, [FleetEvent(stream.name, event)])


def _end_items(applier: Applier, stream: StreamRecord) -> None:
    """End what is open: its alarms and changes are the old model's."""
    now = stream.now
    for item in list(stream.items.values()):
        if item.kind != items.SILENT:
            state = "closed" if item.kind == items.ALARM else "reverted"
            reason = "a new model took over"
            over = items.ended(item, state, now, applier.position, reason=reason)
            applier.report.item("closed", stream, over, now)


def _catch_up(applier: Applier, stream: StreamRecord) -> None:
    """Judge the samples after the model's history."""
    if stream.offset >= stream.count:
        return
    rows = applier.store.samples.rows(
        stream.id, stream.offset, stream.count - 1, stream.order.channels
    )
    batch = LiveBatch()
    count, stream.count = stream.count, stream.offset
    batch.add(stream, Steps(rows.times, rows.values))
    stream.count = count
    judge(applier, batch)
    applier.report.report_past(stream)
