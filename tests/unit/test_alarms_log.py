"""Alarms as events: each reported once, and the same however the samples arrive."""

from __future__ import annotations

import json
import math
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from newnormal.alarms import AlarmThreshold, log
from newnormal.alarms.words import ended
from newnormal.core.state import copied
from newnormal.kernels.alarm import AlarmOut, blank_out, judge_scores
from newnormal.kernels.stream import LogState
from newnormal.types import ACCEPTED, END_OF_STREAM, Alarm, Event, Floats, Verdicts
from newnormal.types.tables import first
from tests.naive_loop import LogSample, NaiveLog

CHANNELS = ("flow", "level", "power")
START = np.datetime64("2026-01-01T00:00", "ns")


def fixed(gap: int = 3) -> AlarmThreshold:
    return AlarmThreshold.at(1.0, np.linspace(0, 0.5, 100), gap=gap)


class Judged(NamedTuple):
    """Scores and what the alarm threshold made of them."""

    scores: Floats
    out: AlarmOut
    first: int = 0


def judged(
    scores: list[float] | Floats,
    *,
    by: AlarmThreshold | None = None,
    first: int = 0,
    ratios: Any = None,
) -> Judged:
    """Judge scores, and the ratios of channels, whose episodes go on for two samples after."""
    values, by = np.array(scores, dtype=np.float64), by or fixed()
    if ratios is None:
        return Judged(values, by.judge(values), first)
    beyond = np.pad((ratios >= 1).any(axis=1), (2, 0))
    episodes = (beyond[2:] | beyond[1:-1] | beyond[:-2]).astype(np.int64)
    out = blank_out(len(values))
    judge_scores(values, ratios, episodes, by.state, by.params, by.chances, out)
    return Judged(values, out, first)


class Log:
    """The log of one stream, with its channels."""

    def __init__(self, channels: tuple[str, ...] = ()) -> None:
        self.channels = channels
        self.state = first(LogState, {"C": len(channels), "V": 0})

    def fitted(self, spread: Any = None) -> Any:
        """What the log takes of a fitted detector."""
        known = {"channels": self.channels, "has_rhythm": False, "spread": spread, "units": {}}
        return SimpleNamespace(
            **known, channel=None, choice=None, config=SimpleNamespace(window=12)
        )

    @property
    def alarm(self) -> Alarm | None:
        return log.open_alarm(self.fitted(), self.state)

    def track(
        self,
        found: Judged,
        shares: Any = None,
        times: Any = None,
        expected: Any = None,
        rows: slice = slice(0, None),
        samples: Any = None,
        spread: Any = None,
        ratios: Any = None,
    ) -> list[Event]:
        """Hand over rows of what was judged; the other columns are those of all of it."""
        verdicts = Verdicts(
            found.scores,
            found.out.thresholds,
            found.out.anomalous,
            expected,
            shares,
            times,
            self.channels,
            first=found.first,
            channel_ratios=ratios,
        )
        out = AlarmOut._make(column[rows] for column in found.out)
        if samples is None:
            samples = np.full((len(found.scores), len(self.channels)), np.nan)
        fitted, rows = self.fitted(spread), slice(rows.start, rows.start + len(out.alarms))
        part = log.rows_of(fitted, verdicts, rows, out, samples[rows], None, None)
        state: Any = SimpleNamespace(log=self.state, changes=None, channel=None)
        return log.track(fitted, state, part, verdicts, rows.start)

    def close(self, reason: str, sample: int) -> list[Event]:
        return log.close(self.fitted(), self.state, reason, sample)

    def copied(self) -> Log:
        """Return the log with a copy of its state."""
        twin = Log(self.channels)
        twin.state = copied(self.state)
        return twin


def reported(scores: list[float], **options: Any) -> list[Event]:
    return Log().track(judged(scores), **options)


def alarms(events: list[Event]) -> list[Alarm]:
    """The alarm of each event; none of these is of a change."""
    assert all(event.change is None for event in events)
    return [event.alarm for event in events if event.alarm is not None]


def kinds(events: list[Event]) -> list[tuple[str, int]]:
    return [(event.kind, event.sample) for event in events]


def test_alarm_is_reported_when_it_opens_and_when_it_closes() -> None:
    events = reported([0, 0, 1.2, 0, 1.5, 0, 0, 0, 0])
    assert kinds(events) == [("opened", 2), ("closed", 7)]
    opened, closed = alarms(events)
    assert (opened.number, opened.start, opened.end, opened.open) == (1, 2, 2, True)
    assert (closed.start, closed.end, closed.open) == (2, 4, False)
    assert closed.reason == "back to normal"
    assert (closed.peak.sample, closed.peak.score, closed.peak.ratio) == (4, 1.5, 1.5)
    assert 0 < closed.peak.p_value < 0.01


def test_alarm_is_reported_again_only_when_its_severity_has_another_word() -> None:
    events = reported([1, 1.1, 1.2, 1.9, 2, 3, 9, 0, 0, 0])
    updates = [("updated", 2), ("updated", 3), ("updated", 5)]
    assert kinds(events) == [("opened", 0), *updates, ("closed", 9)]
    found = alarms(events)
    assert [alarm.severity_word for alarm in found] == ["low", "medium", "high", *["critical"] * 2]
    assert [alarm.severity for alarm in found[::4]] == [10, 100]
    assert [alarm.peak.score for alarm in found] == [1, 1.2, 1.9, 3, 9]
    assert [alarm.end for alarm in found] == [0, 2, 3, 5, 6]


def test_channel_that_joins_is_reported_and_each_shows_its_farthest() -> None:
    ratios = np.zeros((8, 3), np.float32)
    ratios[1:4, 1], ratios[2:5, 0] = [1.25, 1.5, 1.25], [1.0, 1.0, 2.0]
    alarm_log, samples = Log(CHANNELS), np.arange(24.0).reshape(8, 3)
    events = alarm_log.track(judged([0.0] * 8, ratios=ratios), samples=samples, ratios=ratios)
    assert kinds(events) == [("opened", 1), ("updated", 2), ("closed", 7)]
    first, second = alarms(events)[-1].evidence
    fields = ("channel", "observed", "start", "end", "sample", "ratio")
    assert [getattr(first, name) for name in fields] == ["flow", 12.0, 2, 4, 4, 2.0]
    assert [getattr(second, name) for name in fields] == ["level", 7.0, 1, 3, 2, 1.5]


def test_samples_are_numbered_from_the_first() -> None:
    found = judged([0.0, 2.0, 0.0, 0.0, 0.0], first=100)
    assert kinds(Log().track(found)) == [("opened", 101), ("closed", 104)]


def test_infinite_score_is_reported_as_the_largest_float() -> None:
    (event,) = reported([math.inf])
    (alarm,) = alarms([event])
    assert alarm.peak.score == np.finfo(np.float64).max
    json.loads(event.to_json())


def test_no_samples_make_no_events() -> None:
    assert reported([]) == []


def test_alarm_can_be_closed_for_another_reason() -> None:
    watched, alarm_log = fixed(), Log()
    alarm_log.track(judged([2.0, 3.0], by=watched))
    watched.close()
    (event,) = alarm_log.close(ACCEPTED, 1)
    assert kinds([event]) == [("closed", 1)]
    assert alarms([event])[0].reason == "accepted"
    assert alarm_log.alarm is None
    assert alarm_log.close(END_OF_STREAM, 1) == []
    assert alarm_log.track(judged([0.0], by=watched)) == []


@pytest.mark.parametrize(
    ("shares", "named"),
    [
        ([0.2, 0.7, 0.1], {"level": 0.7}),
        ([0.4, 0.3, 0.3], {"flow": 0.4, "level": 0.3}),
        ([0.0, 0.0, 0.0], {}),
        ([math.nan] * 3, {}),
    ],
)
def test_channels_named_make_up_half_of_it(shares: list[float], named: dict[str, float]) -> None:
    (alarm,) = alarms(Log(CHANNELS).track(judged([2.0]), shares=np.array([shares])))
    assert alarm.channels == named
    assert list(alarm.channels) == list(named)


def test_no_more_than_five_channels_are_named() -> None:
    names = tuple(f"c{number}" for number in range(100))
    (alarm,) = alarms(Log(names).track(judged([2.0]), shares=np.full((1, 100), 0.01)))
    assert list(alarm.channels) == ["c0", "c1", "c2", "c3", "c4"]


def test_event_has_a_documented_json_form() -> None:
    times = START + np.arange(5) * np.timedelta64(1, "m")
    alarm_log = Log(CHANNELS)
    events = alarm_log.track(
        judged([0.0, 2.0, 0.0, 0.0, 0.0], first=7),
        shares=np.tile([0.25, 0.75, 0.0], (5, 1)),
        times=times,
        samples=np.tile([1.0, 71.0, 3.0], (5, 1)),
        expected=np.tile([1.0, 20.0, 3.0], (5, 1)),
        spread=np.array([1.0, 2.0, 1.0]),
    )
    found = json.loads(events[-1].to_json())
    assert found["alarm"]["peak"].pop("p_value") == alarms(events)[-1].peak.p_value
    assert found == {
        "event": "closed",
        "sample": 11,
        "time": "2026-01-01T00:04:00",
        "alarm": {
            "number": 1,
            "start": 8,
            "start_time": "2026-01-01T00:01:00",
            "end": 8,
            "end_time": "2026-01-01T00:01:00",
            "peak": {
                "sample": 8,
                "time": "2026-01-01T00:01:00",
                "score": 2.0,
                "ratio": 2.0,
                "channels": {"level": 0.75},
            },
            "open": False,
            "reason": "back to normal",
            "cause": "score",
            "evidence": [
                {
                    "channel": "level",
                    "observed": 71.0,
                    "expected": 20.0,
                    "low": 14.0,
                    "high": 26.0,
                    **dict.fromkeys(["start", "end", "sample", "ratio", "pace"]),
                    "unit": "",
                    "unusual": "",
                    "comes_and_goes": False,
                    "direction": "high",
                }
            ],
            "severity": 61,
            "severity_word": "high",
            "sentence": "level 71, expected 14 to 26; high for 1 sample",
        },
        "change": None,
    }


def test_alarm_comes_back_from_its_json_form() -> None:
    times = np.array([START, np.datetime64("NaT")], dtype="datetime64[ns]")
    alarm_log = Log(CHANNELS)
    alarm_log.track(judged([2.0, 3.0]), shares=np.tile([0.5, 0.3, 0.2], (2, 1)), times=times)
    assert alarm_log.alarm is not None
    assert alarm_log.alarm.start_time == START
    assert alarm_log.alarm.end_time is None
    assert Alarm.from_dict(json.loads(json.dumps(alarm_log.alarm.as_dict()))) == alarm_log.alarm


def evidence(observed: float, expected: float | None, spread: float | None) -> Alarm:
    """The alarm of a sample whose second channel is high, low or missing."""
    (alarm,) = alarms(
        Log(CHANNELS).track(
            judged([2.0]),
            shares=np.array([[0.0, 1.0, 0.0]]),
            samples=np.array([[0.0, observed, 0.0]]),
            expected=None if expected is None else np.array([[0.0, expected, 0.0]]),
            spread=None if spread is None else np.full(3, spread),
        )
    )
    return alarm


@pytest.mark.parametrize(
    ("observed", "direction", "text"),
    [
        (71.0, "high", "level 71, expected 14 to 26; high"),
        (2.5, "low", "level 2.5, expected 14 to 26; low"),
        (21.0, "within", "level 21, within 14 to 26, but is not usual over its last 12 samples"),
        (math.nan, "missing", "level missing, expected 14 to 26"),
    ],
)
def test_evidence_has_values_and_a_sentence(observed: float, direction: str, text: str) -> None:
    alarm = evidence(observed, 20.0, 2.0)
    (found,) = alarm.evidence
    assert (found.channel, found.direction, found.expected) == ("level", direction, 20.0)
    assert (found.low, found.high) == (14.0, 26.0)
    assert found.observed == (None if math.isnan(observed) else observed)
    assert alarm.sentence == text


def test_model_that_expects_no_value_has_evidence_of_what_was_observed() -> None:
    alarm = evidence(71.0, None, None)
    (found,) = alarm.evidence
    assert (found.observed, found.expected, found.low, found.high) == (71.0, None, None, None)
    assert alarm.sentence == "level 71; unusual"


def test_evidence_is_that_of_the_peak_and_the_sentence_has_the_length() -> None:
    alarm_log = Log(CHANNELS)
    times = START + np.arange(12) * np.timedelta64(1, "m")
    events = alarm_log.track(
        judged([2.0, 3.0, *[1.5] * 6, 0, 0, 0, 0]),
        shares=np.tile([1.0, 0.0, 0.0], (12, 1)),
        times=times,
        samples=np.tile(np.arange(12.0)[:, None], (1, 3)),
        expected=np.zeros((12, 3)),
        spread=np.full(3, 0.1),
    )
    opened, *_, closed = alarms(events)
    assert [each.observed for each in closed.evidence] == [1.0]
    assert (
        opened.sentence == "flow 0, within -0.3 to 0.3, but is not usual over its last 12 samples"
    )
    assert closed.sentence == "flow 1, expected -0.3 to 0.3; high for 8 min"


@pytest.mark.parametrize(
    ("observed", "text"),
    [
        (21.0, "level 21, within 14 to 26, but is not usual over its last 12 samples for 1 sample"),
        (math.nan, "level missing, expected 14 to 26; missing for 1 sample"),
    ],
)
def test_the_sentence_of_an_alarm_has_its_length_at_its_end(observed: float, text: str) -> None:
    closed = ended(evidence(observed, 20.0, 2.0), "end of stream")
    assert (closed.open, closed.reason, closed.sentence) == (False, "end of stream", text)


def eventful(seed: int, length: int) -> dict[str, Any]:
    """Return what `Log.track` takes: of a model with ratios of channels, or without."""
    rng = np.random.default_rng(seed)
    scores = np.exp(rng.normal(-1.5, 1, length) + np.cumsum(rng.normal(0, 0.1, length)))
    scores[rng.random(length) < 0.05] = np.nan
    shares = rng.dirichlet(np.ones(3), length).astype(np.float32)
    ratios = None
    if seed % 2:
        ratios = np.exp(rng.normal(-3, 1.5, (length, 3))).astype(np.float32)
    return {"found": judged(scores, ratios=ratios), "shares": shares, "ratios": ratios}


@settings(max_examples=60, deadline=None, derandomize=True)
@given(seed=st.integers(0, 10_000))
def test_log_equals_its_slow_twin(seed: int) -> None:
    known = eventful(seed, 300)
    comp = Log(CHANNELS).track(**known)
    ref = NaiveLog(CHANNELS)
    (scores, out, _), shares, ratios = known.values()
    for row, score in enumerate(scores.tolist()):
        channels = () if ratios is None else ratios[row].tolist()
        judgement = float(out.ratios[row]), float(out.joint[row]), shares[row].tolist()
        ref.judged(int(out.alarms[row]), LogSample(row, score, *judgement, channels))
    assert [ref.fields(event) for event in comp] == ref.events


@settings(max_examples=60, deadline=None, derandomize=True)
@given(seed=st.integers(0, 10_000), cuts=st.lists(st.integers(0, 300), max_size=8))
def test_samples_in_pieces_are_reported_as_samples_at_once(seed: int, cuts: list[int]) -> None:
    known = eventful(seed, 300)
    known["times"] = START + np.arange(300) * np.timedelta64(1, "s")
    whole, parted = Log(CHANNELS), Log(CHANNELS)
    ref = whole.track(**known)
    comp: list[Event] = []
    for start, stop in pairwise([0, *sorted(cuts), 300]):
        parted = parted.copied()
        comp += parted.track(**known, rows=slice(start, stop))
    assert comp == ref
    for one, other in zip(whole.state, parted.state, strict=True):
        np.testing.assert_array_equal(one, other)
