"""Streams of the service get the verdicts, alarms and changes of plain detectors, bit for bit."""

import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from newnormal import Detector
from newnormal.core.state import arrays
from newnormal.service.service import Service
from newnormal.tabular import Table
from newnormal.types import Floats
from tests.service.running import (
    HISTORY,
    PERIOD,
    START,
    arrival,
    config_of,
    fit_next,
    fits,
    running,
    samples,
    settle,
)
from tests.service.seeds import each_seed

LIVE = 500


def values_of(stream: int, rng: np.random.Generator) -> Floats:
    """Return what a stream sends: normal, a fault, a new normal, and missing values."""
    found = samples(0, HISTORY + LIVE, stream, 2 + stream % 2)
    fault = HISTORY + int(rng.integers(20, 100))
    found[fault : fault + 12, 0] += 6.0
    found[HISTORY + 250 :] += 3.0 * (stream % 3)
    found[HISTORY + 5 :][rng.random(found[HISTORY + 5 :].shape) < 0.01] = np.nan
    return found


class Plain(NamedTuple):
    detector: Detector
    scores: Floats
    thresholds: Floats
    reported: dict[tuple[str, int], Any]  # alarms and changes, as they were reported last


def plain(values: Floats, history: int) -> Plain:
    """Return a detector that was fitted and run by itself, and its verdicts."""
    times = (START + np.arange(len(values)) * PERIOD).view("datetime64[ns]")
    channels = tuple("abcdefgh"[: values.shape[1]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        detector = Detector(alarms_per_day=1.0, accept_after="2h")
        detector.fit(Table(values[:history], channels, times[:history]))
        detector.track_alarms()
    verdicts = detector.run(Table(values[history:], channels, times[history:]), flush=False)
    reported = {}
    for event in detector.take_events():
        found = event.change or event.alarm
        if found is not None:
            kind = "change" if event.change is not None else "alarm"
            reported[kind, found.number] = found.as_dict()
    return Plain(detector, verdicts.scores, verdicts.thresholds, reported)


def compare(service: Service, name: str, values: Floats, history: int) -> None:
    detector, scores, thresholds, reported = plain(values, history)
    stream = service.stream_named(name)
    assert stream is not None
    rows = service.store.samples.rows(stream.id, 0, stream.samples - 1)
    np.testing.assert_array_equal(rows.values, values)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(rows.scores[history:], scores.astype(np.float32))
        np.testing.assert_array_equal(rows.thresholds[history:], thresholds.astype(np.float32))
    own = service.applier.fleet._streams[name].open()
    for a, b in zip(arrays(own), arrays(detector.to_parts().state), strict=True):
        assert (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes())
    found = {each.key: dict(each.body) for each in service.store.items.page(limit=500).items}
    assert {key: body for key, body in found.items() if f"-{stream.id}-1-" in key} == {
        f"{kind}-{stream.id}-1-{number}": body for (kind, number), body in reported.items()
    }
    assert reported


@pytest.mark.cases(3, 50)
def test_streams_in_batches_of_any_size_get_the_verdicts_of_plain_detectors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cases: range
) -> None:
    def case(seed: int) -> None:
        follow(seed, tmp_path / str(seed), monkeypatch)

    each_seed(cases, case)


def follow(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(seed)
    values = {f"m-{at}": values_of(at, rng) for at in range(4)}
    sent = dict.fromkeys(values, 0)
    began: dict[str, int] = {}
    with running(config_of(tmp_path, streams={"accept_after": "2h"}), monkeypatch) as service:
        while any(sent[name] < len(values[name]) for name in values):
            names = [name for name in values if rng.random() < 0.6]
            batch = []
            for name in names:
                first, last = sent[name], sent[name] + int(rng.integers(0, 60))
                batch.append(arrival(first, values[name][first:last], name))
                sent[name] = min(last, len(values[name]))
            service.push(batch).result()
            if rng.random() < 0.2:
                settle(service)
            if fits(service).jobs and rng.random() < 0.5:
                began[service.stream(fits(service).jobs[0].stream).name] = len(  # type: ignore[union-attr]
                    fits(service).jobs[0].history.values
                )
                fit_next(service)
        while fits(service).jobs:
            job = fits(service).jobs[0]
            began[service.stream(job.stream).name] = len(job.history.values)  # type: ignore[union-attr]
            fit_next(service)
        for name, own in values.items():
            compare(service, name, own, began[name])
