"""The linear subspace as a model: what it holds, and what it leaves."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import newnormal
from newnormal import M2N2, ParameterError, StateError
from newnormal.models.pca import PCA, principal, residuals
from newnormal.state import State
from newnormal.types import Floats


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
