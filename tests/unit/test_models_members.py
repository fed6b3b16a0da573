"""What the members without a trend are fitted to, against obvious ways to compute it."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import newnormal
from newnormal import M2N2, Detector, ParameterError, StateError
from newnormal.core.phases import SampleClock
from newnormal.core.rhythm import Rhythm
from newnormal.kernels.members import KINDS, LONG, SPANS
from newnormal.kernels.step import blank_out
from newnormal.models.base import Training
from newnormal.models.committee import Committee
from newnormal.models.experts import neutral_params
from newnormal.models.members import (
    _blocks,
    _filled,
    _k_means,
    blank_members,
    fit_members,
    fittable,
    usual_votes,
)
from newnormal.models.pca import PCA, principal, residuals
from newnormal.models.plan import Plan
from newnormal.state import State
from newnormal.types import Floats
from tests.strategies import nasty_series


@pytest.fixture(scope="module")
def history() -> Floats:
    return nasty_series("some missing", 700, 3, seed=5)


def test_a_missing_value_is_the_last_observed_one_and_0_before_any() -> None:
    series = np.array([[np.nan, 1.0], [2.0, np.nan], [np.nan, np.nan], [5e3, -5e3]])
    ref = [[0.0, 1.0], [2.0, 1.0], [2.0, 1.0], [1e3, -1e3]]
    np.testing.assert_array_equal(_filled(series), ref)


def test_the_forecast_is_a_ridge_regression_on_the_five_samples_before(history: Floats) -> None:
    found = fit_members(history, 8, 0)
    z = _filled(history)
    rows = [np.concatenate([*z[t - 5 : t], [1.0]]) for t in range(5, len(z))]
    X = np.array(rows)
    ridge = 1e-3 * np.trace(X.T @ X) / X.shape[1]
    stacked = np.concatenate([X, np.sqrt(ridge) * np.eye(X.shape[1])])
    target = np.concatenate([z[5:], np.zeros((X.shape[1], 3))])
    ref = np.linalg.lstsq(stacked, target, rcond=None)[0]
    np.testing.assert_allclose(found.forecast, ref[:-1].T, atol=1e-5)
    np.testing.assert_allclose(found.intercept, ref[-1], atol=1e-5)


def test_the_level_is_measured_by_the_inverse_covariance() -> None:
    rng = np.random.default_rng(0)
    series = rng.normal(size=(500, 3)) @ rng.normal(size=(3, 3)) + 2.0
    found = fit_members(series, 8, 0)
    np.testing.assert_allclose(found.level_mean, series.mean(axis=0), rtol=1e-5)
    values, vectors = np.linalg.eigh(np.cov(series.T, bias=True))
    ref = np.zeros((3, 3))
    for value, vector in zip(values, vectors.T, strict=True):
        ref += np.outer(vector, vector) / max(value, 0.05 * values.mean())
    np.testing.assert_allclose(found.level_inverse, ref, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", ["none missing", "zero", "a constant channel"])
def test_windows_are_outside_of_what_holds_nine_tenths_of_their_variance(kind: str) -> None:
    series = nasty_series(kind, 400, 2).cumsum(axis=0)
    series = (series - series.mean(axis=0)) / max(series.std(), 1e-9)
    found = fit_members(series, 8, 0)
    basis = found.windows_basis.astype(np.float64)
    used = basis.any(axis=1)
    np.testing.assert_allclose(basis @ basis.T, np.diag(used.astype(float)), atol=1e-5)
    assert used.sum() <= min(16, basis.shape[1] // 2)
    X = np.array([series[t : t + 20].reshape(10, 2, 2).mean(axis=1).ravel() for t in range(381)])
    np.testing.assert_allclose(found.windows_mean, X.mean(axis=0), atol=1e-4)
    X = X - X.mean(axis=0)
    inside = ((X @ basis.T) ** 2).sum()
    if kind != "zero":
        assert 0.9 <= inside / (X**2).sum() <= 1
        assert ((X @ basis[: used.sum() - 1].T) ** 2).sum() / (X**2).sum() < 0.9


def test_blocks_are_the_means_of_a_windows_tenths() -> None:
    series = np.random.default_rng(0).normal(size=(130, 2))
    blocks = _blocks(series, LONG, 1000)
    assert blocks.shape == (31, 10, 2)
    np.testing.assert_allclose(blocks[7, 3], series[37:47].mean(axis=0))
    assert len(_blocks(series, LONG, 10)) <= 11


def test_clusters_are_as_tight_as_scikit_learns_and_few_different_points_no_trouble() -> None:
    cluster = pytest.importorskip("sklearn.cluster")
    rng = np.random.default_rng(0)
    points = (rng.normal(size=(20, 6))[rng.integers(20, size=1500)] * 3).astype(np.float32)
    points += rng.normal(size=points.shape).astype(np.float32)
    centres = _k_means(points, 20, np.random.default_rng(1))
    np.testing.assert_array_equal(_k_means(points, 20, np.random.default_rng(1)), centres)
    inertia = ((points[:, None] - centres) ** 2).sum(axis=2).min(axis=1).sum()
    assert inertia < 1.25 * cluster.KMeans(20, n_init=5, random_state=0).fit(points).inertia_
    points = np.repeat(np.eye(3, dtype=np.float32), 10, axis=0)
    assert len(np.unique(_k_means(points, 5, np.random.default_rng(0)), axis=0)) == 3


def test_a_short_history_repeats_its_shapes_so_that_all_have_one_form() -> None:
    shapes = fit_members(nasty_series("none missing", 320, 2), 8, 0).shapes
    assert shapes.shape == (64, 20)
    assert len(np.unique(shapes, axis=0)) <= 221 // 4
    assert fit_members(nasty_series("none missing", 320, 20), 8, 0).shapes.shape == (32, 200)


def test_members_take_three_times_their_samples_of_history() -> None:
    for member, span in enumerate(SPANS[:-1]):
        assert not fittable(3 * span - 1, False)[member]
        assert fittable(3 * span, False)[member]
    assert [fittable(1000, rhythm)[KINDS.index("rhythm")] for rhythm in (False, True)] == [0, 1]


def test_the_usual_vote_is_the_median_over_cycles_of_the_highest_nearby() -> None:
    votes = np.random.default_rng(0).normal(size=(2, 7 * 24))
    votes[0, 5::24] += 9.0  # each night
    votes[1, 10] = np.nan
    comp = usual_votes(votes, np.tile(np.arange(24.0), 7) + 0.5, 24)
    assert comp.shape == (24, 2)
    for v in range(2):
        for b in range(1, 23):
            highest = [np.nanmax(votes[v, 24 * day + b - 1 : 24 * day + b + 2]) for day in range(7)]
            assert comp[b, v] == pytest.approx(max(np.median(highest), 0), rel=1e-6)
    assert (comp[4:7, 0] > 7).all()
    assert (comp[8:22, 0] < 3).all()


@pytest.mark.parametrize("phases", [np.full(48, np.nan), np.arange(48.0)])
def test_nothing_is_usual_without_two_cycles(phases: Floats) -> None:
    assert not usual_votes(np.ones((3, 48)), phases, 48).any()


def test_a_job_of_each_night_is_quiet_at_its_hour_and_found_at_noon() -> None:
    rng = np.random.default_rng(3)
    days, bins = 12, 96
    t = np.arange(days * bins)
    phases = (t % bins).astype(np.float64)
    usual = np.sin(2 * np.pi * phases / bins)
    series = usual[:, None] * [1.0, 0.5] + 0.1 * rng.normal(size=(len(t), 2))
    series[(phases >= 14) & (phases < 16)] += 4.0
    table = np.stack([np.median(series[b::bins], axis=0) for b in range(bins)]).astype(np.float32)
    both = np.ones(2, bool)
    tables = Rhythm(SampleClock(bins, bins, 0), table, np.full_like(table, 0.1), both)
    model = Committee(5, 2, 4, Plan(members=(1.0, 1.0, 1.0, 1.0, 1.0)))
    fitted, _ = model.fit(series, Training(1, 3, 64, 0, phases=phases, rhythm=tables))
    live = series[: 2 * bins].copy()
    live[150:152] += 4.0  # the same at another hour
    out = blank_out(len(live), 2)
    params = neutral_params(2, fitted)
    votes = np.empty((len(live), model.vote_count), np.float32)
    model.advance(live, False, model.initial(fitted), params, out, phases[: len(live)], votes)
    nights = np.concatenate([out.scores[13:18], out.scores[109:114]])
    assert out.scores[150:152].max() > 3 * nights.max()
    assert np.nanmax(votes[110:112, -1]) < 3 < np.nanmin(votes[150:152, -1])
    unknown = blank_out(len(live), 2)
    model.advance(live, False, model.initial(fitted), params, unknown, None, votes)
    assert np.isnan(votes[:, -1]).all()
    assert unknown.scores[13:18].max() > nights.max()


@pytest.mark.parametrize(("channels", "most"), [(5, 150_000), (38, 3_200_000)])
def test_all_arrays_of_a_quiet_stream_are_within_their_limit(channels: int, most: int) -> None:
    detector = Detector(epochs=1, accept_after=500).fit(nasty_series("none missing", 450, channels))
    detector.run(nasty_series("none missing", 200, channels))
    bins: Any = {5: 288, 38: 288}[channels]
    rhythm = blank_members(channels, len(detector.members_), bins)
    tables = rhythm.rhythm_levels, rhythm.rhythm_spreads, rhythm.usual_votes
    room = sum(each.nbytes for each in tables)
    assert sum(detector.nbytes_.values()) + room <= most


def plane(samples: int, seed: int) -> Floats:
    """Two sources seen by five channels, and a little noise."""
    rng = np.random.default_rng(seed)
    mixing = np.random.default_rng(0).normal(size=(2, 5))
    found: Floats = rng.normal(size=(samples, 2)) @ mixing + 0.01 * rng.normal(size=(samples, 5))
    return found


def fitted(latent: int = 2) -> M2N2:
    return M2N2(model="pca", window=4, latent=latent, adapt=False).fit(plane(400, 1))


def test_the_components_are_those_of_largest_variance() -> None:
    rows = np.random.default_rng(0).normal(size=(500, 3)) * [3.0, 1.0, 0.1]
    np.testing.assert_allclose(np.abs(principal(rows, 2)), np.eye(3)[:, :2], atol=0.05)


def test_a_score_is_the_mean_square_of_what_the_subspace_leaves() -> None:
    detector = fitted().with_options(detrend=False)
    series = plane(40, 2)
    series[20] += [3, 0, 0, 0, 0]
    step = detector._fitted.step
    z = (series - step.mean) / step.scale
    basis = detector._fitted.model.basis  # type: ignore[attr-defined]
    verdicts = detector.run(series)
    np.testing.assert_allclose(verdicts.scores, (residuals(z, basis) ** 2).mean(axis=1), rtol=1e-9)
    assert int(verdicts.scores.argmax()) == 20
    assert verdicts.expected is not None
    np.testing.assert_allclose(
        verdicts.expected, (z @ basis @ basis.T) * step.scale + step.mean, rtol=1e-9, atol=1e-9
    )


def test_a_missing_value_is_historys_mean_and_does_not_count() -> None:
    history, series = plane(400, 1), plane(10, 2)
    detector = fitted().with_options(detrend=False)
    filled = series[3].copy()
    filled[2] = history[:, 2].mean()
    series[3, 2], series[4] = np.nan, np.nan
    scores = detector.run(series).scores
    basis = detector._fitted.model.basis  # type: ignore[attr-defined]
    left = residuals((filled - history.mean(axis=0)) / history.std(axis=0), basis)
    assert scores[3] == pytest.approx((np.delete(left, 2) ** 2).mean())
    assert np.isnan(scores[4])


def test_it_cannot_be_adapted() -> None:
    with pytest.raises(ParameterError, match=r"adapt: pca cannot learn from the stream"):
        M2N2(model="pca", adapt=True).fit(plane(400, 1))


@pytest.mark.parametrize(("channels", "latent", "held"), [(1, 16, 0), (5, 16, 4), (5, 2, 2)])
def test_it_never_holds_all_directions(channels: int, latent: int, held: int) -> None:
    assert PCA(4, channels, latent).components == held


def test_it_is_saved_and_loaded_and_its_file_is_checked(tmp_path: Path) -> None:
    detector = fitted()
    detector.save(tmp_path / "pca.nn")
    ref = detector.run(plane(40, 2)).scores
    np.testing.assert_array_equal(newnormal.load(tmp_path / "pca.nn").run(plane(40, 2)).scores, ref)
    state = detector.to_state()
    with pytest.raises(StateError, match=r"model.own.basis: expected float64 of shape \(5, 2\)"):
        M2N2.from_state(State(state.facts, {**state.tensors, "model.own.basis": np.zeros((5, 3))}))
    basis = np.full((5, 2), np.inf)
    with pytest.raises(StateError, match=r"model.own.basis: expected finite numbers"):
        M2N2.from_state(State(state.facts, {**state.tensors, "model.own.basis": basis}))
    options = state.facts["options"] | {"adapt": True}
    with pytest.raises(StateError, match=r"options.adapt: expected false for PCA, found true"):
        M2N2.from_state(State(state.facts | {"options": options}, state.tensors))
    tensors = {name: each for name, each in state.tensors.items() if name != "model.own.basis"}
    with pytest.raises(StateError):
        M2N2.from_state(State(state.facts, tensors))
