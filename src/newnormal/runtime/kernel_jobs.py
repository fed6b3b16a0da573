"""Which kernels commands call, and for which types: what a first start compiles."""

from __future__ import annotations

from operator import attrgetter, methodcaller
from typing import Any, NamedTuple

import numba
import numpy as np

from newnormal.kernels import (
    accepted,
    alarm,
    alarm_log,
    committee,
    drift,
    fleet,
    step,
    training,
)
from newnormal.kernels import channels as channel_kernels
from newnormal.kernels.blocks import Dims
from newnormal.kernels.linking import behind
from newnormal.kernels.mlp import NOTHING_AHEAD
from newnormal.kernels.stream import LogState
from newnormal.kernels.uneventful import Columns
from newnormal.models.committee import Committee
from newnormal.models.experts import neutral_params
from newnormal.types import Floats32
from newnormal.types.tables import first

FIT, WATCH, SERVE, DEMO = "fit", "watch", "serve", "demo"

# Numba has no public way to ask whether a function is in its cache.
_cache_of = attrgetter("_cache")


_ROW, _ROWS, _CUBE = np.zeros(1), np.zeros((1, 1)), np.zeros((1, 1, 1))
_ROW32, _ROWS32 = np.zeros(1, np.float32), np.zeros((1, 1), np.float32)
_PART32 = np.zeros((2, 2), np.float32)[:, 1:]  # some columns
_INTS, _FLAGS = np.zeros(1, np.int64), np.zeros(1, np.bool_)
_COUNTS = np.zeros((1, 1), np.int64)


class Job(NamedTuple):
    """A kernel to compile for arguments of some types."""

    name: str
    kernel: Any
    types: tuple[Any, ...]
    seconds: float  # that it took once, beside the others

    @property
    def is_kept(self) -> bool:
        """Whether it is in the cache; True where there is none, so that nobody waits for it."""
        cache = _cache_of(self.kernel)
        if cache.cache_path is None:
            return True
        key = methodcaller("_index_key", self.types, self.kernel.targetctx.codegen())(cache)
        index: dict[Any, str] = methodcaller("_load_index")(attrgetter("_cache_file")(cache))
        return key in index

    def run(self) -> None:
        """Compile the kernel, or load it."""
        self.kernel.compile(self.types)


def jobs_of(command: str) -> list[Job]:
    """Return what a command needs, the longest first.

    Examples
    --------
    >>> [job.name for job in jobs_of("fit")[:2]]
    ['committee.advance_in', 'members._squares_of']
    """
    own = {
        FIT: (_scoring, _training),
        WATCH: (_scoring, _watching, _alone),
        SERVE: (_scoring, _training, _watching, _serving),
        DEMO: (_scoring, _training, _watching, _alone),
    }[command]
    return sorted((job for part in own for job in part()), key=lambda job: -job.seconds)


def _job(kernel: Any, seconds: float, *arguments: Any) -> Job:
    function = kernel.py_func
    name = f"{function.__module__.removeprefix('newnormal.kernels.')}.{function.__name__}"
    typeof: Any = numba.typeof
    return Job(name, kernel, tuple(typeof(each) for each in arguments), seconds)


class _Small(NamedTuple):
    """What the kernels of a committee take, as small as can be: the types are the same."""

    model: Committee
    weights: Floats32
    state: Any
    work: committee.CommitteeWork


def _small() -> _Small:
    model = Committee(2, 1, 1)
    weights = np.zeros(model.size, np.float32)
    in_step = step.blank_work.py_func(2, 1, model.network.padded, NOTHING_AHEAD)  # type: ignore[attr-defined]
    work = committee.blank_work.py_func(1, 1, 1, in_step)  # type: ignore[attr-defined]
    return _Small(model, weights, model.initial(weights), work)


def _scoring() -> list[Job]:
    """Return what consumes samples."""
    model, weights, state, work = _small()
    plain, params = neutral_params(1, weights), model.uncalibrated_params()
    out, widths, in_step = step.blank_out(1, 1), model.network.padded, work.step
    rows = (_ROWS, _ROWS, _ROW, True, widths)
    given = (*rows, state.step, state.own, plain, params, out, _CUBE, _ROWS32)
    own, fitted, ahead = state.own.members, params.members, in_step.ahead
    calibration = (_ROWS, _ROW, _ROW, _ROW, _INTS)
    votes = (_ROW, _ROW, _ROWS32, _CUBE, _PART32)
    net = (weights, widths, in_step.units)
    return [
        _job(behind("committee.advance_in"), 2.9, work, *given),
        _job(committee.advance, 1.6, *given),
        _job(
            behind("members._squares_of"), 2.0, 0, _ROW, 0.0, own, fitted, work.members, ahead, _ROW
        ),
        _job(
            behind("members.vote_members"),
            0.6,
            *(work.members, ahead, _ROWS, _ROWS, _ROW, own, fitted, *calibration, *votes),
        ),
        _job(behind("members._remember"), 0.4, _ROW, _ROW, 1, own, _ROW32),
        _job(behind("step.advance_in"), 1.5, in_step, _ROWS, True, widths, state.step, plain, out),
        _job(behind("mlp.forward"), 0.9, *net, in_step.active, ahead),
        _job(behind("mlp.descend"), 0.3, *net, in_step.deltas, plain.lr, in_step.active),
        _job(behind("step._guard"), 0.1, weights, weights, _ROW, state.step.counts),
        _job(drift.measure, 0.6, *_drift()),
        _job(alarm.threshold_at, 0.05, 0.0, 0.0, 0.0),
    ]


def _beside() -> tuple[Any, ...]:
    """Return what scores samples as observed takes."""
    model, weights, state, _ = _small()
    observed = first(committee.ObservedState, {**model.sizes, "B": 1})
    states = (state.step, state.own, observed)
    given = (_ROWS, channel_kernels.blank_out(1, 1), _ROW, True, model.network.padded, *states)
    params = (neutral_params(1, weights), model.uncalibrated_params())
    return (*given, *params, step.blank_out(1, 1), _CUBE, _ROWS32)


def _alone() -> list[Job]:
    """Return what judges one stream."""
    return [
        _job(committee.advance_beside, 1.6, *_beside(), _ROW),
        _job(channel_kernels.judge, 2.0, *_channels()),
        _job(channel_kernels.rank, 0.1, _ROW, _ROW, _ROW, _ROW),
    ]


def _training() -> list[Job]:
    return [
        _job(training.adam_step, 0.3, _ROW32, _ROW32, _ROW32, _ROW32, 1, 0.0),
        _job(training.pull_back, 0.1, _ROWS32, _ROWS32, True, _ROW32),
        _job(committee.detrend, 0.2, _ROWS, 0.0, False, _ROW, _ROWS, _ROWS),
        _job(training.activate, 0.1, _ROWS32, _ROW32, True),
        _job(drift.trace, 0.4, _ROWS, _COUNTS, *_drift(), _ROWS),
        _job(channel_kernels.errors_hidden, 0.6, _ROWS, _ROWS, _ROWS, _ROWS32, _INTS, 1),
        _job(channel_kernels.smoothed, 0.1, _ROWS, _ROW),
        _job(alarm.peaks, 0.1, _ROW, 0.0, 1, _ROW),
    ]


def _watching() -> list[Job]:
    state = first(alarm.AlarmState, {})
    log, channel = first(LogState, {"C": 1, "V": 1}), _channels()[3]
    params = alarm.AlarmParams(*[0.0] * len(alarm.AlarmParams._fields))
    return [
        _job(
            alarm.judge_scores,
            2.5,
            *(_ROW, _ROWS32, _INTS, state, params, _ROW, alarm.blank_out(1)),
        ),
        _job(alarm_log.follow, 1.5, log, _log_rows(), 0, 0),
        _job(channel_kernels.copy_normal, 0.2, channel, channel.normal),
        _job(behind("channels._begin"), 0.2, _ROW, 0.0, *_channels()[3:8]),
        _job(behind("channels._estimate"), 0.2, _ROWS32, _channel_work()),
        _job(
            behind("committee.advance_beside_in"),
            3.0,
            *(_small().work, *_beside(), step.blank_out(1, 1), _ROWS32, _ROWS, _ROW),
        ),
        _job(drift.weights_moved, 0.1, _ROW32, _ROW32),
        _job(drift.advance, 0.8, _ROWS, _ROWS, _COUNTS, *_drift(), drift.DriftOut(_ROW, _FLAGS)),
    ]


def _serving() -> list[Job]:
    """Return what judges many streams, and what a change calls."""
    model, _, state, work = _small()
    dims, widths = Dims(*[1] * len(Dims._fields)), model.network.padded
    columns = Columns(
        *(_ROW, _ROW, _FLAGS, _ROWS, _ROWS32, _ROW, _ROW, _INTS, _ROW, _INTS, _ROWS, _ROWS),
        *(_ROWS32, _ROWS32, _ROW, _ROW, _ROWS, _COUNTS, _ROWS32, _INTS, _ROW),
    )
    streams = fleet.Streams(_INTS, _INTS, _INTS, _INTS, _INTS, _INTS, _INTS, _INTS, 1)
    stops = fleet.Stops(_INTS, _INTS, _INTS, _INTS, _FLAGS, _INTS, _INTS)
    block = (0, _INTS, 0, _INTS, dims)
    out = step.blank_out(1, 1)
    spare = fleet.Spare(out, _ROWS32, out, _ROWS32, _ROWS)
    level = model.uncalibrated_params().members
    return [
        _job(
            fleet.advance,
            3.8,
            *(_INTS, streams, dims, widths, _ROWS, _INTS, _ROW),
            *(_INTS, _INTS, False, columns, stops),
        ),
        _job(
            behind("fleet._consume"),
            0.9,
            *(*block, widths, work, _CUBE, _ROWS, channel_kernels.blank_out(1, 1), _ROW, False),
            *(0.0, 0.0, False, False, spare, _ROW, _ROW, _ROWS32, _ROWS32),
        ),
        _job(behind("fleet._judge"), 2.0, *(0, *block, _FLAGS, _ROWS, _INTS, 0, columns, stops)),
        _job(channel_kernels.advance, 2.0, _channel_work(), *_channels()),
        _job(behind("uneventful.review"), 2.0, *block),
        _job(
            accepted.move_back,
            1.7,
            *(_ROW, state.own.accepted, level.level_mean, level.level_inverse, 0.0, _ROW),
        ),
        _job(behind("accepted.is_accepted"), 0.3, _ROW32, _ROW32, state.own.accepted),
        _job(behind("alarm._median"), 1.2, _ROW),
        _job(drift.lag_index, 0.05, 0, 0),
    ]


def _channels() -> tuple[Any, ...]:
    """Return what judging channels takes."""
    sizes = {"C": 1}
    numbers = {"keep": 0.0, "day": 1.0}
    params = first(channel_kernels.ChannelParams, sizes, **numbers)
    state = first(channel_kernels.ChannelState, sizes)
    out = channel_kernels.blank_out(1, 1)
    return _ROWS, _INTS, _ROW, state, params, _ROW, _ROW, _ROWS32, out


def _channel_work() -> channel_kernels.ChannelWork:
    work: channel_kernels.ChannelWork = channel_kernels.blank_work.py_func(1)  # type: ignore[attr-defined]
    return work


def _log_rows() -> alarm_log.LogRows:
    rows = (_ROWS, _INTS, _INTS, _ROW, _ROW, _ROW, _ROW, _ROWS32, _ROWS, _ROWS, _ROWS)
    return alarm_log.LogRows(*rows, _ROWS32, _ROWS32, _ROWS32)


def _drift() -> tuple[drift.DriftState, drift.DriftParams]:
    sizes = {"C": 1, "W": 1}
    return first(drift.DriftState, sizes), first(drift.DriftParams, sizes)
