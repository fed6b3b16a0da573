"""Threads and processes: one detector used at once, several side by side, mapped weights."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from newnormal import M2N2, Detector
from newnormal.base import BaseDetector
from newnormal.detector import from_state
from newnormal.types import Floats
from tests.fuzz.children import tried
from tests.fuzz.paths import case_of, difference, followed, fresh, quiet, series

SEED = 9
CHANNELS = 60  # at which joblib maps the weights by default


@pytest.mark.cases(6, 100)
def test_one_detector_in_several_threads_never_crashes(cases: range) -> None:
    found = tried("tests.fuzz.thread_case", SEED, cases, good=("good",), processes=1)
    assert not found.bad, f"{dict(found.outcomes)}\n" + "\n".join(found.bad[:8])


@pytest.mark.cases(16, 400)
def test_detectors_in_threads_of_their_own_give_the_bits_they_give_alone(cases: range) -> None:

    def run(index: int) -> dict[str, Any]:
        case = case_of(SEED + 1, index)
        return followed(case, ("run", "step", "pieces")[index % 3], fresh(case.name))

    with quiet():
        ref = [run(index) for index in cases]
        with ThreadPoolExecutor(8) as pool:
            comp = list(pool.map(run, cases))
    found = [
        f"case {index}: {text}"
        for index, one, two in zip(cases, ref, comp, strict=True)
        for name in one
        if (text := difference(name, one[name], two[name]))
    ]
    assert not found, "\n".join(found[:20])


@pytest.fixture(scope="module")
def wide() -> dict[str, BaseDetector]:
    history = series(CHANNELS, 300, 0)
    return {
        "Detector": Detector(epochs=1, alarms_per_day=5.0, accept_after=60).fit(history),
        "M2N2": M2N2(window=6, epochs=1).fit(history),
    }


def judged(detector: BaseDetector, live: Floats, verb: str) -> Floats:
    """What a worker does with the detector it is sent."""
    if verb == "step":
        found = [verdict.score for sample in live for verdict in detector.step(sample)]
        return np.array(found)
    if verb == "fit":
        return np.asarray(detector.fit(live).run(live).scores)
    return np.asarray(getattr(detector, verb)(live))


@pytest.mark.parametrize("verb", ["run", "step", "score", "decision_function", "predict", "fit"])
@pytest.mark.parametrize("name", ["Detector", "M2N2"])
def test_joblib_with_weights_mapped_read_only_gives_the_same_bits(
    wide: dict[str, BaseDetector], name: str, verb: str
) -> None:
    joblib = pytest.importorskip("joblib", reason="needs the extra eval")
    detector = from_state(wide[name].to_state())
    live = series(CHANNELS, 80, 5)
    live[40:] += 4.0
    found = joblib.Parallel(n_jobs=2, max_nbytes=1_000)(
        joblib.delayed(judged)(detector, live, verb) for _ in range(2)
    )
    ref = judged(detector, live, verb)
    for comp in found:
        assert difference("scores", ref, comp) == ""
