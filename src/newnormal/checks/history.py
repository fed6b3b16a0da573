"""How much history there is, how much would be enough for what, and its rhythm."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from newnormal.base import BaseDetector
from newnormal.checks.findings import Finding
from newnormal.checks.texts import length, seconds
from newnormal.config import samples_per_day
from newnormal.core.history import MINIMUM_WINDOWS
from newnormal.core.outliers import ChannelOutliers, without
from newnormal.core.phases import DAY
from newnormal.core.rhythm import DAYS_OF_A_KIND, FEWEST_BINS, WEEK, Rhythm
from newnormal.detector import Detector
from newnormal.models.members import fittable
from newnormal.tabular import Table
from newnormal.texts import counted
from newnormal.tuning.choose import HELD_OUT, LEAST, early_samples
from newnormal.types import Floats

_LONGEST = 1_000_000  # samples held out that nothing asks for more than


@dataclass(frozen=True)
class Need:
    """How much history something takes."""

    # "fit"; "test" of the committee on held-out history; "every_member" of it; "alarm_threshold"
    # within what was seen and not beyond; "daily_rhythm", "weekend_rhythm" and "weekday_rhythm"
    what: str
    samples: int  # how many it takes
    time: np.timedelta64 | None  # how long these take; None where that is not known
    enough: bool  # whether there are as many

    def as_dict(self) -> dict[str, Any]:
        """Return it as values of JSON."""
        return {
            "samples": self.samples,
            "seconds": None if self.time is None else seconds(self.time),
            "enough": self.enough,
        }

    @property
    def text(self) -> str:
        """How much it takes, as text."""
        took = "" if self.time is None else f" ({length(self.time)})"
        return f"{counted(self.samples, 'sample')}{took}"


def needs_of(table: Table, detector: BaseDetector, period: np.timedelta64 | None) -> list[Need]:
    """Return what a detector needs of history, the least first."""
    config, spec = detector.settings()
    samples = len(table.values)
    times = table.times
    span = None if times is None or len(times) == 0 else times[-1] - times[0]

    def need(what: str, least: float) -> Need:
        count = math.ceil(least)
        took = None if period is None else np.timedelta64(int(count * int(_ns(period))), "ns")
        return Need(what, count, took, samples >= count)

    needs = [need("fit", MINIMUM_WINDOWS * config.window)]
    if not isinstance(detector, Detector):
        return needs
    needs.append(need("test", LEAST))
    every = next(n for n in range(LEAST, _LONGEST) if all(fittable(early_samples(n), True)))
    needs.append(need("every_member", every))
    if spec.is_budget:
        allowed = spec.risk or (spec.alarms_per_day or 0) / samples_per_day(period)
        held_out = 1 / allowed if allowed else math.inf
        longest = _LONGEST - early_samples(_LONGEST)
        if held_out <= longest:
            needs.append(need("alarm_threshold", held_out / HELD_OUT))
    if span is None or period is None:
        return needs
    for what, weeks in (
        ("daily_rhythm", 1),
        ("weekend_rhythm", math.ceil(DAYS_OF_A_KIND / 2)),
        ("weekday_rhythm", DAYS_OF_A_KIND),
    ):
        took = weeks * WEEK
        count = math.ceil(took / _ns(period))
        enough = bool(_ns(span) + _ns(period) >= took)
        needs.append(Need(what, count, np.timedelta64(took, "ns"), enough))
    return needs


def _ns(value: np.timedelta64) -> int:
    return max(int(value.astype("timedelta64[ns]").astype(np.int64)), 1)


def cleaned_history(values: Floats, outliers: tuple[ChannelOutliers, ...]) -> Floats:
    """Return history as the committee is given it; a channel without values is 0 throughout."""
    cleaned = without(values, outliers)
    return np.where(np.isnan(cleaned).all(axis=0), 0.0, cleaned)


def rhythm_of(scaled: Floats, table: Table, period: np.timedelta64 | None) -> Rhythm | None:
    """Return the rhythm that the detector would find."""
    return None if len(scaled) < 2 else Rhythm.fit(scaled, table.times, period, table.zone)


def history_findings(
    needs: list[Need], samples: int, period: np.timedelta64 | None, rhythm: Rhythm | None
) -> list[Finding]:
    """Return what more history would do."""
    by_name = {need.what: need for need in needs}
    fit = by_name["fit"]
    here = counted(samples, "sample")
    if not fit.enough:
        sentence = f"there is too little history to fit: {here}, and it takes {fit.text}"
        return [Finding("error", "short_history", None, sentence)]
    test = by_name.get("test")
    if test is not None and not test.enough:
        sentence = f"history is short: with {here} nothing is tested before it is used; "
        return [Finding("warning", "short_history", None, f"{sentence}{test.text} are enough")]
    daily = by_name.get("daily_rhythm")
    slow = period is not None and DAY / _ns(period) < FEWEST_BINS
    every = by_name.get("every_member")
    if daily is not None and not daily.enough and rhythm is None and not slow:
        sentence = f"a daily rhythm, which takes {daily.text}"
    elif every is not None and not every.enough:
        sentence = f"every member of the committee, which takes {every.text}"
    else:
        return []
    return [Finding("note", "short_history", None, f"history is too short for {sentence}")]
