"""The benchmark compares like with like, and its page says what was and was not measured."""

import json
import mmap
from dataclasses import asdict

import numpy as np
import pytest

from benchmarks.report import NotMeasured, Row, Section, Target, summary, to_markdown, to_text
from benchmarks.series import correlated
from benchmarks.streaming import resident_bytes
from benchmarks.timing import Task, Times, in_turns
from newnormal import M2N2
from newnormal.core.scaling import Scaler
from newnormal.models.base import Training
from newnormal.models.mlp import MLP


def test_the_eager_loop_scores_as_the_detector_does() -> None:
    torch = pytest.importorskip("torch")
    from benchmarks import eager

    series = correlated(500, 3)
    detector = M2N2(window=4, latent=2, decay=0.9, lr=0.05, threshold=0.8).fit(series[:300])
    state = detector.to_state().tensors
    live = series[300:]
    mean, scale = state["fitted.step.mean"], state["fitted.step.scale"]
    scaled = torch.tensor((live - mean) / scale, dtype=torch.float32)

    net = eager.network(MLP(4, 3, 2), state["fitted.step.fitted"])
    ref = eager.frozen(net, scaled, 4).numpy()
    np.testing.assert_allclose(detector.score_frozen(live).scores, ref, rtol=1e-4)

    verdicts = detector.run(live)
    ref = eager.adapting(net, scaled, 4, 0.9, 0.05, detector.threshold_).numpy()
    np.testing.assert_allclose(verdicts.scores, ref, rtol=1e-4)
    assert 0 < verdicts.anomalous.sum() < len(live), "the mask must matter"


def test_the_eager_training_loses_as_fit_does() -> None:
    pytest.importorskip("torch")
    from benchmarks import eager

    history = correlated(1_200, 4)
    scaled = Scaler.fit(history).apply(history)
    model, training = MLP(5, 4, 3), Training(stride=5, epochs=4, batch=8, seed=1)
    _, comp = model.fit(scaled, training)
    np.testing.assert_allclose(comp, eager.train(model, scaled, training), rtol=1e-5)


def test_loops_that_differ_are_not_compared() -> None:
    pytest.importorskip("torch")
    from benchmarks.loop import largest_difference

    scores = np.array([1.0, 2.0])
    assert largest_difference(scores, scores * (1 + 1e-5)) == pytest.approx(1e-5, rel=1e-3)
    with pytest.raises(NotMeasured, match=r"differ by 1\.0e-02"):
        largest_difference(scores * 1.01, scores)
    with pytest.raises(NotMeasured, match=r"differ by nan"):
        largest_difference(np.array([np.nan, 2.0]), scores)


def test_tasks_take_turns_and_only_their_work_is_timed() -> None:
    said: list[str] = []

    def task(name: str, units: int) -> Task:
        return Task(lambda: said.append(f"prepare {name}"), lambda _: said.append(name), units)

    times = in_turns(2, task("a", 1), task("b", 10))
    assert said == ["prepare a", "a", "prepare b", "b"] * 3  # once to warm up
    assert [len(taken.rounds) for taken in times] == [2, 2]


def test_a_ratio_is_of_the_best_rounds_and_typically_of_the_same_round() -> None:
    ours, theirs = Times((1.0, 2.0, 4.0)), Times((10.0, 10.0, 12.0))
    assert ours.times_faster_than(theirs) == 10.0
    assert ours.typically_faster_than(theirs) == 5.0


SECTION = Section(
    "A section",
    ("Mind this.",),
    "what",
    [
        Row("fast", {"µs": 12.34, "ratio": 1234.5}, Target("ratio", 1000, at_least=True)),
        Row("slow", {"µs": 0.00001, "ratio": 2}, Target("ratio", 3, at_least=True)),
        Row("gone", target=Target("ratio", 3, at_least=True), skipped="no such command"),
        Row("plain", {"µs": 1.0}),
    ],
)


def test_the_page_puts_caveats_and_notes_before_the_figures() -> None:
    page = to_markdown([SECTION], {"Python": "3.x"}, ["A caveat."], "make bench")
    places = [page.index(text) for text in ("A caveat.", "3.x", "Mind this.", "12.3")]
    assert places == sorted(places)
    assert "| fast | 12.3 | 1,234 | at least 1,000 | yes |" in page
    assert "| slow | 1e-05 | 2 | at least 3 | **no** |" in page
    assert "| gone |  |  | at least 3 |  |" in page
    assert "- gone: not measured: no such command" in page
    assert "| plain | 1 |  |  |  |" in page


def test_the_terminal_says_the_same() -> None:
    text = to_text(SECTION)
    assert text.splitlines()[0] == "A section"
    assert text.splitlines()[-1] == "gone: not measured: no such command"
    assert "1,234" in text


def test_the_summary_names_what_was_missed_and_leaves_out_what_was_not_measured() -> None:
    assert summary([SECTION]) == "1 of 2 targets met\n  missed: A section: slow"


def test_figures_can_be_written_as_json() -> None:
    rows = json.loads(json.dumps(asdict(SECTION)))["rows"]
    assert rows[0]["figures"] == {"µs": 12.34, "ratio": 1234.5}


def test_resident_memory_sees_what_is_allocated() -> None:
    try:
        before = resident_bytes()
    except NotMeasured as error:
        pytest.skip(str(error))
    size = 64_000_000
    # Pages new to the process: an array may get memory that was freed and is still resident.
    with mmap.mmap(-1, size) as block:
        for page in range(0, size, mmap.PAGESIZE):
            block[page] = 1
        assert resident_bytes() - before > 0.9 * size
