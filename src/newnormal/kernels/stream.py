"""The arrays of a stream that are no kernel's own: times, alarms, changes, what is kept of normal.

Positions of counters stand beside the array. A counter's limit may be another counter's value:
`newnormal.types.tables` has the form of a line.

Shapes: C channels, L window length, P weights, V votes, T the shape of the trends, N scores and M
positions that a shadow keeps.
"""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

from newnormal.kernels.accepted import AcceptedState
from newnormal.kernels.alarm import KNOTS, AlarmParams
from newnormal.kernels.channels import ChannelParams, HomeState
from newnormal.kernels.committee import CommitteeParams, CommitteeState
from newnormal.kernels.drift import DriftParams
from newnormal.kernels.step import StepParams, StepState
from newnormal.types import NO_TIME, Bools, Floats, Floats32, Ints, Times
from newnormal.types.tables import (
    ANY,
    BINARY,
    BOUNDED,
    CHANCE,
    COUNT,
    INCREASING,
    KNOWN,
    LEVEL,
    NOT_NEGATIVE,
    TAIL,
    Array,
    Counter,
    Range,
    Scalar,
    counters,
    within,
)

CHANGES = 8  # open at a time; one more joins the newest
NAMED = 5  # channels of an alarm that are named
_SEEN = "model.step.counts.seen"
_ALARMS = "alarm.counts.alarms"

# Positions in TimesState.counts.
TIMES_HELD = 0  # how many of TimesState.times are filled, from the end
TIMES_KNOWN = 1  # 1 once a sample had a time
_TIMES = counters(held=Counter(TIMES_HELD, 0, "L"), known=Counter(TIMES_KNOWN, 0, 1))


class ModelState(NamedTuple):
    """What a model changes while a stream runs."""

    step: StepState
    own: Annotated[Any, CommitteeState] = None  # or the objects of a model that holds its own


class TimesState(NamedTuple):
    """Times of a window of samples, each later than the one before."""

    times: Annotated[Times, Array("L", range=ANY)]  # the newest last; NaT where unknown
    last: Annotated[Times, Array(1, range=ANY)]  # the newest known time
    counts: Annotated[Ints, _TIMES]


# Positions in LogState.counts.
LOG_NUMBER = 0  # of the open alarm; 0 without one
LOG_START = 1  # samples
LOG_END = 2
LOG_PEAK = 3
LOG_NEWEST = 4  # the number of the newest alarm, open or closed; 0 before the first
LOG_PAUSE = 5  # the longest pause of the open alarm in which no sample was anomalous
_LOG = counters(
    open=Counter(LOG_NUMBER, 0, "newest"),
    start=Counter(LOG_START, 0, "end"),
    end=Counter(LOG_END, 0, _SEEN),
    peak=Counter(LOG_PEAK, 0, _SEEN),
    newest=Counter(LOG_NEWEST, 0, _ALARMS),
    pause=LOG_PAUSE,
)

# Positions in LogState.levels: the peak's; the joint score's highest ratio; the severity now, and
# the highest that an event reported.
PEAK_SCORE = 0
PEAK_RATIO = 1
PEAK_P_VALUE = 2
JOINT_RATIO = 3
SEVERITY = 4
REPORTED = 5

_SEVERITY = within(0, 100)
_PEAK = Range(
    "numbers other than NaN, a chance from 0 to 1 and a severity from 0 to 100",
    lambda levels: (
        KNOWN.holds(levels).all(axis=-1)
        & CHANCE.holds(levels[..., PEAK_P_VALUE])
        & _SEVERITY.holds(levels[..., SEVERITY])
    ),
)

# Positions in LogState.times and in a row of LogState.spans; silence has the first, too.
START_TIME = 0
END_TIME = 1
PEAK_TIME = 2
PAUSED = 3  # of spans alone

# Rows of LogState.values and LogState.evidence.
OBSERVED_VALUE, EXPECTED_VALUE, LOWEST, HIGHEST, PACE = range(5)


class LogState(NamedTuple):
    """The newest alarm by the score or by channels."""

    counts: Annotated[Ints, _LOG]
    levels: Annotated[Floats, Array(6, range=_PEAK)]
    times: Annotated[Ints, Array(3, range=ANY, first=NO_TIME, seldom=True)]  # in ns
    # The first sample, the last and the farthest of each channel beyond its limit, and its longest
    # pause between them; -1 for none
    spans: Annotated[Ints, Array("C", 4, range=ANY, first=-1, seldom=True)]
    ratios: Annotated[Floats, Array("C", range=NOT_NEGATIVE, seldom=True)]  # when farthest
    # Observed, expected, low and high of these channels, when farthest
    values: Annotated[Floats, Array(4, "C", range=ANY, first=float("nan"), seldom=True)]
    # The channels that lead the joint score when it is highest; -1 for none
    channels: Annotated[Ints, Array(NAMED, range=ANY, first=-1, seldom=True)]
    shares: Annotated[Floats, Array(NAMED, range=NOT_NEGATIVE, seldom=True)]  # the largest first
    # Observed, expected, low, high and pace of these; NaN where not known.
    evidence: Annotated[Floats, Array(5, NAMED, range=ANY, first=float("nan"), seldom=True)]
    votes: Annotated[Floats, Array("V", range=KNOWN, seldom=True)]  # the highest of each member


# Positions in SilenceState.counts.
SILENCE_NUMBER = 0  # of the open alarm; 0 without one
SILENCE_START = 1  # the first sample with missing values
SILENCE_ALL = 2  # samples for which all channels have been missing
SILENCE_ANY = 3  # 1 where a channel was missing at the newest sample
_SILENCE = counters(
    open=Counter(SILENCE_NUMBER, 0, _ALARMS),
    start=Counter(SILENCE_START, 0, _SEEN),
    all_missing=SILENCE_ALL,
    any_missing=SILENCE_ANY,
)

LAST_TIME = 1  # position in SilenceState.times: of the newest sample


class SilenceState(NamedTuple):
    """The open alarm by silence."""

    counts: Annotated[Ints, _SILENCE]
    times: Annotated[Ints, Array(2, range=ANY, first=NO_TIME)]  # of its start, and the newest
    missing: Annotated[Ints, Array("C", range=COUNT)]  # samples for which a channel has been
    channels: Annotated[Ints, Array(NAMED, range=ANY, first=-1, seldom=True)]  # when it opened


# Positions in ReviewState.counts.
REVIEWS = 0  # since fit
NEWEST_CHANGE = 1  # its number
LAST_ALARM = 2  # the newest alarm that a change began with
REJECTED_ALARM = 3  # the newest alarm that was rejected before its change was known
# The changes of the acceptances that can be undone, the newest first; 0: of a pattern, or none.
ACCEPTED_CHANGES = 4
KEPT_UNDO = 3
_REVIEW = counters(
    reviews=REVIEWS,
    newest_change=NEWEST_CHANGE,
    last_alarm=Counter(LAST_ALARM, 0, _ALARMS),
    rejected_alarm=Counter(REJECTED_ALARM, 0, _ALARMS),
    accepted_change=Counter(ACCEPTED_CHANGES, 0, "newest_change"),
    accepted_before=Counter(ACCEPTED_CHANGES + 1, 0, "newest_change"),
    accepted_first=Counter(ACCEPTED_CHANGES + 2, 0, "newest_change"),
)

# Positions in ReviewState.levels.
MOVED = 0  # how far the weights had moved when normal was last accepted, in their own length
MOVES = 1  # how far they have moved since; 1 is the limit

# The weights may move by half their own length. Learning at the rates that are chosen from
# history moved them by less than a fifth of it on each of twenty real streams.
WEIGHTS_LIMIT = 0.5
FARTHEST_WEIGHTS = 1e9  # reported of weights that have left all bounds: JSON has no infinity
# Reviews from the start of a change on, after which the stream is judged from where it is. Sooner,
# its scores would fall while the alarm is young; on 36 real streams the average precision of SMD
# falls by .02 without it.
STANDS = 4
NEVER_SEEN = 60  # samples in a row outside all normal values, after which a channel has changed
RECENT_REVIEWS = 2  # since an alarm, in which a change may have begun with it


class ReviewState(NamedTuple):
    """What acceptance keeps of a stream."""

    counts: Annotated[Ints, _REVIEW]
    levels: Annotated[Floats, Array(2, range=within(0, 10 * FARTHEST_WEIGHTS))]


# Positions in a row of ChangeState.counts.
CHANGE_NUMBER = 0  # 0: the row is free
CHANGE_START = 1  # the sample at which it began
CHANGE_KNOWN = 2  # the sample at which it was known
CHANGE_SINCE = 3  # the sample at which its acceptance timer started
CHANGE_STATE = 4  # IS_PENDING or IS_REJECTED
CHANGE_ALARM = 5  # the number of the alarm it began with; 0 for none
CHANGE_PLACED = 6  # the sample at which `after` was taken
CHANGE_KIND = 7  # what changed: MOVED_LEVEL, STANDS_STILL or NEVER_BEFORE
MOVED_LEVEL, STANDS_STILL, NEVER_BEFORE = range(3)
IS_PENDING = 1
IS_REJECTED = 2
_CHANGE = counters(
    CHANGES,
    number=Counter(CHANGE_NUMBER, 0, "review.counts.newest_change"),
    start=Counter(CHANGE_START, 0, _SEEN),
    known=Counter(CHANGE_KNOWN, 0, _SEEN),
    since=Counter(CHANGE_SINCE, 0, _SEEN),
    state=Counter(CHANGE_STATE, 0, IS_REJECTED),
    alarm=Counter(CHANGE_ALARM, 0, _ALARMS),
    placed=Counter(CHANGE_PLACED, 0, _SEEN),
    kind=Counter(CHANGE_KIND, 0, NEVER_BEFORE),
)


class ChangeState(NamedTuple):
    """The open changes, a row each; levels are in history's standard deviations.

    `before`, `after` and `farthest` are without the rhythm of their channels.
    """

    counts: Annotated[Ints, _CHANGE]
    times: Annotated[Ints, Array(CHANGES, range=ANY, first=NO_TIME, seldom=True)]  # of its start
    # When last reviewed.
    distances: Annotated[Floats, Array(CHANGES, range=NOT_NEGATIVE, seldom=True)]
    channels: Annotated[Ints, Array(CHANGES, "C", range=BINARY, seldom=True)]  # 1: it is about it
    before: Annotated[Floats, Array(CHANGES, "C", range=LEVEL, seldom=True)]  # when last normal
    after: Annotated[Floats, Array(CHANGES, "C", range=LEVEL, seldom=True)]  # now
    farthest: Annotated[Floats, Array(CHANGES, "C", range=LEVEL, seldom=True)]  # from `before`
    # Of each channel, the sample until which a slow change that went again is not told anew, and
    # the level up to which
    told_until: Annotated[Ints, Array("C", range=COUNT, seldom=True)]
    told_level: Annotated[Floats, Array("C", range=LEVEL, seldom=True)]


class Baseline(NamedTuple):
    """What was normal at some time: enough to go back to it."""

    weights: Annotated[Floats32, Array("P", seldom=True)]
    trend: Annotated[Floats, Array("T", range=BOUNDED, seldom=True)]  # (C,), a committee's (J, C)
    lows: Annotated[Floats, Array("4C", seldom=True)]  # the range accepted as normal
    highs: Annotated[Floats, Array("4C", range=KNOWN, seldom=True)]
    tail_levels: Annotated[Floats, Array(KNOTS, range=INCREASING, seldom=True)]  # as AlarmState
    tail_excess: Annotated[Floats, Array(4, range=TAIL, seldom=True)]
    # Location, height, start height and start location of the threshold; weights moved.
    levels: Annotated[Floats, Array(5, range=KNOWN, seldom=True)]
    accepted: Annotated[Any, AcceptedState] = None  # what the model accepted besides; or None
    normal: Annotated[Any, HomeState] = None  # what was accepted of the channels; or None


# Positions in Shadow.counts.
SHADOW_TRAINS = 0  # 1 once the shadow's model learns
SHADOW_SCORES = 1  # scores kept, of all that the ring holds
SHADOW_NEXT = 2  # where the next one goes
SHADOW_POSITIONS = 3  # positions kept
_SHADOW = counters(
    trains=Counter(SHADOW_TRAINS, 0, 1),
    scores=Counter(SHADOW_SCORES, 0, "N"),
    next=Counter(SHADOW_NEXT, 0, "N-1"),
    positions=Counter(SHADOW_POSITIONS, 1, "M"),
)


class Shadow(NamedTuple):
    """What is kept of a pending change: a model that learns it, and where the stream was."""

    model: ModelState  # learns what the running model does not
    scores: Annotated[Floats, Array("N", range=NOT_NEGATIVE)]  # its newest scores, in a ring
    positions: Annotated[Floats, Array("M", "4C")]  # of the stream, one a review, the newest last
    counts: Annotated[Ints, _SHADOW]


class StreamLimits(NamedTuple):
    """Numbers of a fitted detector that are no stage's own."""

    most_missing: Annotated[float, Scalar(0)]  # samples
    longest_silence: Annotated[float, Scalar(0)]  # seconds
    review_length: Annotated[float, Scalar(1)]  # samples
    learning_margin: Annotated[float, Scalar(1)]  # times a threshold, up to which a shadow learns


class FitArrays(NamedTuple):
    """What fitting left, as a fleet keeps it in a block."""

    step: StepParams
    model: CommitteeParams
    alarm: AlarmParams
    tail_chances: Annotated[Floats, Array(KNOTS, range=CHANCE, seldom=True)]
    drift: DriftParams
    channel: ChannelParams
    watched: Annotated[Bools, Array("C", range=ANY, seldom=True)]  # channels history never misses
    limits: StreamLimits
