"""The names of a stream's arrays in its blocks, and their positions in the lists of them.

`newnormal.core.arena` says where each is; kernels are given the places in the order of these lists.
"""

from __future__ import annotations

# The arrays of a stream's state that are used here, by their names in its layout.
STATE = (
    "model.step.samples",
    "model.step.trend",
    "model.step.weights",
    "model.step.good",
    "model.step.reach",
    "model.step.counts",
    "model.own.levels",
    "model.own.trails",
    "model.own.residuals",
    "model.own.reaches",
    "model.own.counts",
    "model.own.smooth",
    "model.own.members.recent",
    "model.own.members.means",
    "model.own.members.counts",
    "model.own.accepted.shifts",
    "model.own.accepted.used",
    "model.own.accepted.at",
    "model.own.accepted.peaks",
    "model.own.accepted.channels",
    "model.own.accepted.counts",
    "times.times",
    "times.last",
    "times.counts",
    "learn_threshold",
    "alarm.levels",
    "alarm.counts",
    "alarm.recent",
    "alarm.raised",
    "alarm.tail_levels",
    "alarm.tail_excess",
    "log.counts",
    "log.levels",
    "log.times",
    "log.votes",
    "silence.counts",
    "silence.times",
    "silence.missing",
    "silence.channels",
    "drift.levels",
    "drift.steps",
    "drift.still",
    "drift.last",
    "drift.missing",
    "drift.position",
    "drift.start",
    "drift.distances",
    "drift.jumps",
    "drift.crossing",
    "drift.owned",
    "drift.lows",
    "drift.highs",
    "drift.counts",
    "review.counts",
    "review.levels",
    "changes.counts",
    "last_quiet.weights",
    "last_quiet.trend",
    "last_quiet.lows",
    "last_quiet.highs",
    "last_quiet.tail_levels",
    "last_quiet.tail_excess",
    "last_quiet.levels",
    "last_quiet.accepted.shifts",
    "last_quiet.accepted.used",
    "last_quiet.accepted.at",
    "last_quiet.accepted.peaks",
    "last_quiet.accepted.channels",
    "last_quiet.accepted.counts",
)

# The same of what fitting left.
FITTED = (
    "numbers",
    "mean",
    "scale",
    "weights",
    "model.decays",
    "model.scales",
    "model.learn_below",
    "model.rates",
    "model.bases",
    "model.experts",
    "model.linear",
    "model.residual_scale",
    "model.centers",
    "model.spreads",
    "model.weights",
    "model.smoothed",
    "model.members.forecast",
    "model.members.intercept",
    "model.members.level_mean",
    "model.members.level_inverse",
    "model.members.windows_mean",
    "model.members.windows_basis",
    "model.members.shapes",
    "model.members.rhythm_levels",
    "model.members.rhythm_spreads",
    "model.members.usual_votes",
    "tail_chances",
    "drift.mean",
    "drift.scale",
    "drift.centre",
    "drift.blend",
    "drift.margins",
    "drift.wanders",
    "watched",
)

# Of these, what not every sample touches.
_SELDOM = (
    "model.step.good",
    "model.own.members.means",  # a row in ten
    "model.own.accepted.shifts",
    "model.own.accepted.at",
    "model.own.accepted.peaks",
    "model.own.accepted.channels",
    "alarm.tail_levels",
    "log.times",
    "log.votes",
    "silence.channels",
    "drift.position",
    "drift.start",
    "drift.jumps",
    "drift.crossing",
    "drift.lows",
    "drift.highs",
    *STATE[STATE.index("last_quiet.weights") :],
    "weights",
    "tail_chances",
    "drift.centre",
    "drift.blend",
    "drift.margins",
    "drift.wanders",
    "model.members.rhythm_levels",
    "model.members.rhythm_spreads",
    "watched",
)
STATE_OFTEN = tuple(name for name in STATE if name not in _SELDOM)
FITTED_OFTEN = tuple(name for name in FITTED if name not in _SELDOM)

# The same of a shadow; its model's arrays are the first ones of STATE.
SHADOW = (*STATE[: STATE.index("times.times")], "scores", "counts")

# Positions in the numbers of what fitting left.
(
    DECAY,
    LR,
    FLOOR,
    KEEP,
    LEVEL_LIMIT,
    REPORTED_EXPERT,
    ALARM_LOCATION,
    SPREAD,
    RATE,
    STEP,
    RISE,
    RAISES,
    GAP,
    STAND,
    SPAN_OF_RATE,
    MOST_MISSING,
    LONGEST_SILENCE,
    REVIEW_LENGTH,
    EAGER,
) = range(19)
NUMBERS = 19

# Positions in STATE, SHADOW and FITTED.
AT_WEIGHTS = STATE.index("model.step.weights")
AT_STEP_COUNTS = STATE.index("model.step.counts")
AT_TIMES = STATE.index("times.times")
AT_LAST_TIME = STATE.index("times.last")
AT_TIMES_COUNTS = STATE.index("times.counts")
AT_LEARN_THRESHOLD = STATE.index("learn_threshold")
AT_ALARM = STATE.index("alarm.levels")
AT_LOG_COUNTS = STATE.index("log.counts")
AT_LOG_LEVELS = STATE.index("log.levels")
AT_LOG_TIMES = STATE.index("log.times")
AT_LOG_VOTES = STATE.index("log.votes")
AT_SILENCE_COUNTS = STATE.index("silence.counts")
AT_SILENCE_TIMES = STATE.index("silence.times")
AT_MISSING = STATE.index("silence.missing")
AT_SILENT = STATE.index("silence.channels")
AT_DRIFT = STATE.index("drift.levels")
AT_REVIEW_COUNTS = STATE.index("review.counts")
AT_REVIEW_LEVELS = STATE.index("review.levels")
AT_CHANGES = STATE.index("changes.counts")
AT_LAST_QUIET = STATE.index("last_quiet.weights")
AT_SHADOW_SCORES = SHADOW.index("scores")
AT_SHADOW_COUNTS = SHADOW.index("counts")
AT_NUMBERS = FITTED.index("numbers")
AT_MEAN = FITTED.index("mean")
AT_FITTED_WEIGHTS = FITTED.index("weights")
AT_MODEL = FITTED.index("model.decays")
AT_LEARN_BELOW = FITTED.index("model.learn_below")
AT_MEMBERS = FITTED.index("model.members.forecast")
AT_TAIL_CHANCES = FITTED.index("tail_chances")
AT_DRIFT_PARAMS = FITTED.index("drift.mean")
AT_WATCHED = FITTED.index("watched")
