"""What people have today: rules of a line or three, as rows of the tables."""

from pathlib import Path

import numpy as np
import pytest

from newnormal import M2N2
from newnormal_reproduce.engine.plan import TrialPlan
from newnormal_reproduce.engine.published import Rule
from newnormal_reproduce.engine.runner import Runner
from newnormal_reproduce.ours.drift import drift
from newnormal_reproduce.ours.today import (
    ONE_LINERS,
    PYOD,
    RIVER,
    ROWS,
    TodayRow,
    bands,
    distances,
    limits,
    split,
)

RNG = np.random.default_rng(4)
DAY = 1440
# Two days and a half, and a day after it: the first channel follows the day, the second is noise.
SAMPLES = np.c_[np.sin(2 * np.pi * np.arange(5040) / DAY), np.zeros(5040)]
SAMPLES += RNG.normal(0, 0.05, SAMPLES.shape)
HISTORY, LIVE = SAMPLES[:3600], SAMPLES[3600:]


def scores(name: str, live: np.ndarray, *, piece: int = 10_000) -> np.ndarray:
    """Return the scores of a rule by a detector, of live samples that come in pieces."""
    (row,) = [row for row in ONE_LINERS if row.competitor.name == name]
    options = dict(row.competitor.options)
    model = M2N2(model=row.competitor.model, detrend=False, adapt=False, **options)
    detector = model.fit(HISTORY)
    parts = [
        detector.run(live[start : start + piece], flush=False).scores
        for start in range(0, len(live), piece)
    ]
    return np.concatenate(parts)


def test_half_a_per_cent_of_history_is_beyond_its_limits() -> None:
    low, high = limits(HISTORY)
    outside = (low > HISTORY) | (high < HISTORY)
    np.testing.assert_allclose(outside.mean(axis=0), 0.005, atol=0.0005)


def test_a_band_is_mean_and_three_deviations_of_its_hour_or_of_all_where_it_has_none() -> None:
    hours = np.arange(len(HISTORY)) // 60 % 24
    low, high = bands(HISTORY, hours)
    same = HISTORY[hours == 7]
    np.testing.assert_allclose((low[7] + high[7]) / 2, same.mean(axis=0))
    np.testing.assert_allclose(high[7] - low[7], 6 * same.std(axis=0))
    none = bands(HISTORY[:60], hours[:60])[0]
    np.testing.assert_array_equal(none[23], none[0])


def test_a_distance_is_above_1_outside_a_range_also_where_that_has_no_width() -> None:
    ranges = np.array([[0.0, 5.0], [4.0, 5.0]])
    assert (distances(np.array([[4.0, 5.0], [4.1, 5.0], [2.0, 5.1]]), ranges) > 1).tolist() == [
        [False, False],
        [True, False],
        [False, True],
    ]


def test_the_fixed_limit_scores_the_farthest_channel() -> None:
    low, high = limits(HISTORY)
    outside = ((low > LIVE) | (high < LIVE)).any(axis=1)
    np.testing.assert_array_equal(scores("fixed limit", LIVE) > 1, outside)
    assert outside.any()


@pytest.mark.parametrize("piece", [10_000, 77])
def test_the_band_goes_on_with_the_hour_at_which_history_ended(piece: int) -> None:
    hours = np.arange(len(SAMPLES)) // 60 % 24
    low, high = bands(HISTORY, hours[: len(HISTORY)])[:, hours[len(HISTORY) :]]
    outside = ((low > LIVE) | (high < LIVE)).any(axis=1)
    np.testing.assert_array_equal(scores("band by hour", LIVE, piece=piece) > 1, outside)
    assert outside.mean() < 0.05  # at another hour it would be most of them


def test_the_other_rules_are_their_line_of_numpy() -> None:
    z = (LIVE - HISTORY.mean(axis=0)) / HISTORY.std(axis=0)
    ref = (z**2).mean(axis=1)
    np.testing.assert_allclose(scores("squared difference", LIVE), ref, rtol=1e-9)
    ref = np.abs(np.diff(z, axis=0)).max(axis=1)
    np.testing.assert_allclose(scores("last sample", LIVE)[1:], ref, rtol=1e-6, atol=1e-9)
    ref = np.array([z[stop - 10 : stop].var(axis=0).mean() for stop in range(10, len(z) + 1)])
    np.testing.assert_allclose(scores("moving variance", LIVE)[9:], ref, rtol=1e-9)


def test_the_limit_and_the_band_have_a_threshold_of_their_own_that_a_file_keeps() -> None:
    rules = {row.competitor.name: row.rule for row in ROWS}
    own = rules["fixed limit"]
    assert own == rules["band by hour"] == Rule.parse(str(own))
    assert own.fixed is not None and not own.oracle
    assert {rule for rule in rules.values() if rule != own} == {Rule(99.0)}
    quiet = np.array([[0.0], [1.0]])  # a value at its limit is not beyond it
    assert (distances(quiet, np.array([[0.0], [1.0]])) < own.fixed).all()


def test_rows_are_named_by_their_models_and_run_by_default(tmp_path: Path) -> None:
    def chosen(models: list[str] | None) -> tuple[list[TodayRow], list[str]]:
        plan = TrialPlan.of(Runner(str(tmp_path)), models=models)
        rows, others = split(plan, ROWS, ("mlp",))
        return rows, [other.model for other in others]

    assert chosen(None) == (list(ROWS), ["mlp"])
    assert chosen(["mlp"]) == ([], ["mlp"])
    assert chosen(["mlp", ONE_LINERS[1].competitor.model]) == ([ONE_LINERS[1]], ["mlp"])


def test_rivers_and_pyods_rows_have_the_operators_columns(
    tmp_path: Path,
) -> None:
    pytest.importorskip("pyod", reason="needs the extra peers")
    pytest.importorskip("river", reason="needs the extra river")
    folder = tmp_path / "SMD"
    for part, rows in (
        ("train", HISTORY[:900]),
        ("test", LIVE[:600]),
        ("test_label", np.arange(600)[:, None] // 10 == 30),
    ):
        (folder / part).mkdir(parents=True)
        np.savetxt(folder / part / "machine-1-4.txt", rows, delimiter=",", fmt="%.6g")
    names = [row.competitor.model for row in (RIVER, PYOD[0])]
    result = drift(str(tmp_path), datasets=["SMD/1-4"], models=names, seeds=[1])
    assert list(result.operator.by_collection()["SMD"]) == ["River HST", "PyOD PCA"]
    assert "| SMD | River HST | 1 | 1 |" in result.markdown()
