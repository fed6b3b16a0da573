"""What the detector takes, what it refuses, in which words, and that a refusal changes nothing."""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from newnormal import M2N2, Detector, Fleet, InputError, NewnormalWarning, NotFittedError
from newnormal.base import BaseDetector
from newnormal.errors import ParameterError
from newnormal.kernels.step import CYCLE, HELD, advance
from newnormal.state import codec
from newnormal.tabular import read
from newnormal.types import Floats
from tests.errors import raised
from tests.inside import stream
from tests.present import present
from tests.strategies import nasty_series

NAMES = ["flow", "pressure", "level"]


@pytest.fixture(scope="module")
def history() -> Floats:
    return nasty_series("none missing", 80, 3)


@pytest.fixture(scope="module")
def shared(history: Floats) -> M2N2:
    frame = pl.DataFrame(dict(zip(NAMES, history.T, strict=True)))
    return M2N2(window=4, latent=2, epochs=2, lr=0.05).fit(frame)


@pytest.fixture
def detector(shared: M2N2, history: Floats) -> M2N2:
    """A detector in the middle of a window."""
    shared.reset()
    shared.run(history[:10], flush=False)
    return shared


def as_bytes(detector: M2N2) -> bytes:
    return codec.encode(detector.to_state())


@pytest.mark.parametrize("samples", [0, 1, 7])
def test_history_of_two_windows_is_enough_and_a_shorter_one_an_error(
    history: Floats, samples: int
) -> None:
    assert str(raised(InputError, lambda: M2N2(window=4).fit(history[:samples]))) == (
        f"history: expected at least 8 samples (2 windows of 4), found {samples}\n"
        "hint: give more history, or a smaller window"
    )
    assert np.isfinite(M2N2(window=4).fit(history[:8]).threshold_)


def test_a_channel_never_observed_in_history_is_named(history: Floats) -> None:
    values = history.copy()
    values[:, 1] = np.nan
    with pytest.raises(InputError) as caught:
        M2N2(window=4).fit(pl.DataFrame(dict(zip(NAMES, values.T, strict=True))))
    assert str(caught.value) == (
        "history: channel 'pressure' is never observed\n"
        "hint: leave it out, or give history in which it has values"
    )
    values[:, 2] = np.nan
    with pytest.raises(InputError, match="channel '1' is never observed, nor are 1 others"):
        M2N2(window=4).fit(values)


def test_a_failed_fit_leaves_the_fitted_detector_alone(detector: M2N2, history: Floats) -> None:
    before = as_bytes(detector)
    bad = history.copy()
    bad[3, 1] = np.inf
    with pytest.raises(InputError, match="channel '1', sample 3: expected a finite number"):
        detector.fit(bad)
    assert as_bytes(detector) == before


@pytest.mark.parametrize(
    "verb",
    [
        lambda d: d.step([1.0]),
        lambda d: d.run([[1.0]]),
        lambda d: d.flush(),
        lambda d: d.score_frozen([[1.0]]),
        lambda d: d.predict([[1.0]]),
        lambda d: d.decision_function([[1.0]]),
        lambda d: d.reset(),
        lambda d: d.save("never.nn"),
        lambda d: d.counters,
        lambda d: d.trend_,
        lambda d: d.drop_pending(),
    ],
)
@pytest.mark.parametrize("kind", [Detector, M2N2])
def test_judging_before_fitting_is_an_error_that_says_what_to_do(
    verb: Callable[[BaseDetector], object], kind: type[Detector | M2N2]
) -> None:
    assert str(raised(NotFittedError, lambda: verb(kind()))) == (
        "this detector has not been fitted\n"
        "hint: call detector.fit(history) first, or newnormal.load(path)"
    )


def spoil(place: tuple[int, int], value: float) -> Callable[[Floats], object]:
    def spoiled(values: Floats) -> object:
        values[place] = value
        return values

    return spoiled


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (spoil((39, 2), np.inf), "channel 'level', sample 39: expected a finite number, found inf"),
        (spoil((0, 0), -np.inf), "channel 'flow', sample 0: expected a finite number, found -inf"),
        (lambda values: values[:, :2], "expected 3 channels"),
        (lambda values: np.hstack([values, values]), "expected 3 channels"),
        (lambda values: values[None], "expected shape (samples, channels)"),
        (lambda values: values.astype(str), "expected numbers"),
        (lambda values: pl.DataFrame({"flow": values[:, 0]}), "'pressure'"),
        (
            lambda values: pl.DataFrame(dict.fromkeys([*NAMES, "humidity"], values[:, 0])),
            "'humidity'",
        ),
    ],
)
@pytest.mark.parametrize("verb", ["run", "score", "predict", "decision_function"])
def test_a_wrong_series_is_refused_before_anything_changes(
    detector: M2N2, history: Floats, make: Callable[[Floats], object], text: str, verb: str
) -> None:
    before = as_bytes(detector)
    error = raised(InputError, lambda: getattr(detector, verb)(make(history[:40].copy())))
    assert text in str(error)
    assert as_bytes(detector) == before


def test_a_frame_is_matched_by_name_whatever_the_order(shared: M2N2, history: Floats) -> None:
    columns = dict(zip(NAMES, history.T, strict=True))
    ref = shared.reset().run(pl.DataFrame(columns))
    shuffled = pl.DataFrame({name: columns[name] for name in ("level", "flow", "pressure")})
    comp = shared.reset().run(shuffled)
    assert comp.channels == tuple(NAMES)
    np.testing.assert_array_equal(comp.scores, ref.scores)
    np.testing.assert_array_equal(np.asarray(comp.shares), np.asarray(ref.shares))
    np.testing.assert_array_equal(shared.reset().run(history).scores, ref.scores)


def test_one_row_comes_back_for_each_sample(shared: M2N2, history: Floats) -> None:
    for length in range(12):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NewnormalWarning)
            verdicts = shared.reset().run(history[:length])
        assert len(verdicts) == len(list(verdicts)) == length
        assert verdicts.samples.tolist() == list(range(length))
        assert np.isfinite(verdicts.scores).all() == (length >= 4 or length == 0)


@pytest.mark.parametrize("verb", ["run", "score", "predict", "decision_function"])
def test_a_short_series_warns_and_is_not_judged(shared: M2N2, history: Floats, verb: str) -> None:
    shared.reset()
    with pytest.warns(
        NewnormalWarning, match="nothing was judged: 3 samples seen, and a window has 4"
    ):
        found = getattr(shared, verb)(history[:3])
    if verb == "predict":
        assert found.tolist() == [0, 0, 0]
    else:
        assert np.isnan(np.asarray(found)).all()
    if verb == "run":
        assert not found.anomalous.any()
        assert np.isnan(found.expected).all()
        assert shared.counters["pending"] == 3


def test_flushing_under_a_window_warns_and_judges_nothing(shared: M2N2, history: Floats) -> None:
    shared.reset()
    assert shared.flush() == []  # nothing pending: nothing to say
    for sample in history[:3]:
        assert shared.step(sample) == []
    with pytest.warns(NewnormalWarning, match="3 samples seen"):
        assert shared.flush() == []
    assert [verdict.sample for verdict in shared.step(history[3])] == [0, 1, 2, 3]


def test_an_empty_series_changes_nothing(detector: M2N2, history: Floats) -> None:
    before = as_bytes(detector)
    verdicts = detector.run(history[:0], flush=False)
    assert len(verdicts) == 0
    assert verdicts.late is None
    assert as_bytes(detector) == before


def test_the_tail_is_judged_in_one_window_as_new_samples(shared: M2N2, history: Floats) -> None:
    shared.reset()
    shared.run(history[:8], flush=False)
    assert shared.run(history[8:10], flush=False).late is None
    late = shared.flush()
    assert [verdict.sample for verdict in late] == [8, 9]
    # The last window was made of samples 6 to 9: the same as a detector with the same weights
    # and trend says of those four alone.
    twin = shared.reset()
    twin.run(history[:8])
    stream(twin).counts[HELD] = 0  # as if nothing were held
    stream(twin).counts[CYCLE] = 4
    ref = twin.run(history[6:10])
    np.testing.assert_array_equal([verdict.score for verdict in late], ref.scores[-2:])


@pytest.mark.parametrize(
    ("sample", "text"),
    [
        ([1.0, 2.0], "sample 10: expected 3 channels, found an array of shape (2,)"),
        ([[1.0, 2.0, 3.0]], "sample 10: expected 3 channels, found an array of shape (1, 3)"),
        (1.0, "sample 10: expected 3 channels, found an array of shape ()"),
        ([1.0, np.inf, 2.0], "sample 10: channel 'pressure' is infinite"),
        ([np.nan, 0.0, -np.inf], "sample 10: channel 'level' is infinite"),
        ([np.inf, -np.inf, 0.0], "sample 10: channel 'flow' is infinite"),
        (["a", "b", "c"], "sample 10: expected numbers, found ['a', 'b', 'c']"),
        ({"flow": 1.0, "pressure": 2.0}, "sample 10: no channel 'level'"),
        ({"flow": 1, "pressure": 2, "level": 3, "ph": 4}, "sample 10: unknown channel 'ph'"),
    ],
)
def test_a_wrong_sample_is_refused_and_not_consumed(detector: M2N2, sample: Any, text: str) -> None:
    before = as_bytes(detector)
    error = raised(InputError, lambda: detector.step(sample))
    assert error.message == text
    assert error.hint is not None
    assert as_bytes(detector) == before


def test_a_sample_may_be_a_mapping_in_any_order_and_none_in_it_is_missing(
    shared: M2N2, history: Floats
) -> None:
    ref = shared.reset().run(history[:8])
    shared.reset()
    comp = []
    for sample in history[:8]:
        flow, pressure, level = sample.tolist()
        comp += shared.step({"level": level, "flow": flow, "pressure": pressure})
    assert [verdict.score for verdict in comp] == ref.scores.tolist()
    missing = history[:4].copy()
    missing[1, 2] = np.nan
    ref = shared.reset().run(missing)
    shared.reset()
    comp = []
    for sample in missing:
        row: dict[str, Any] = dict(zip(NAMES, sample.tolist(), strict=True))
        gappy: Any = {name: None if value != value else value for name, value in row.items()}
        comp += shared.step(gappy)
    assert [verdict.score for verdict in comp] == ref.scores.tolist()


def test_one_channel_takes_bare_numbers(history: Floats) -> None:
    detector = M2N2(window=2, epochs=1).fit(history[:, 0])
    assert detector.step(1.0) == []
    assert len(detector.step(np.float32(2.0))) == 2


@pytest.mark.parametrize("form", ["strided", "read-only", "float32", "list", "fortran"])
def test_no_form_of_array_is_compiled_for_again(shared: M2N2, history: Floats, form: str) -> None:
    """Compiling takes seconds, in which a live stream would stand still."""
    shared.reset().run(history)
    compiled: Any = advance
    before = len(compiled.signatures)
    forms: dict[str, Callable[[], Any]] = {
        "strided": lambda: np.repeat(history, 2, axis=1)[:, ::2],
        "read-only": lambda: np.frombuffer(history.tobytes()).reshape(history.shape),
        "float32": lambda: history.astype(np.float32),
        "list": history.tolist,
        "fortran": lambda: np.asfortranarray(history),
    }
    series = forms[form]()
    shared.reset().run(series)
    shared.step(series[0])
    assert len(compiled.signatures) == before


def test_a_missing_value_is_not_counted_nor_an_empty_sample(shared: M2N2, history: Floats) -> None:
    series = history[:12].copy()
    series[5, 0] = np.nan
    series[6] = np.nan
    verdicts = shared.reset().run(series)
    shares, expected = verdicts.shares, verdicts.expected
    assert shares is not None
    assert expected is not None
    assert shares[5, 0] == 0
    np.testing.assert_allclose(shares[5].sum(), 1, rtol=1e-6)
    assert np.isnan(verdicts.scores[6])
    assert not verdicts.anomalous[6]
    assert np.isnan(shares[6]).all()
    # What was expected is told also of what was not seen.
    assert np.isfinite(expected).all()
    assert np.isfinite(np.delete(verdicts.scores, 6)).all()


def test_what_is_missing_for_a_window_keeps_its_trend(shared: M2N2, history: Floats) -> None:
    shared.reset().run(history[:8])
    before = shared.trend_
    series = history[8:12].copy()
    series[:, 1] = np.nan
    shared.run(series)
    assert shared.trend_[1] == before[1]
    assert (shared.trend_[[0, 2]] != before[[0, 2]]).all()
    shared.reset().run(history[:8])
    trend, weights = shared.trend_, stream(shared).weights.copy()
    shared.run(np.full((8, 3), np.nan))
    np.testing.assert_array_equal(shared.trend_, trend)
    np.testing.assert_array_equal(stream(shared).weights, weights)
    assert shared.counters["seen"] == 16


def test_the_score_is_the_mean_squared_scaled_residual(shared: M2N2, history: Floats) -> None:
    series = history[:40].copy()
    series[3, 1] = np.nan
    verdicts = shared.reset().run(series)
    residual = (series - present(verdicts.expected)) / np.std(history, axis=0)
    np.testing.assert_allclose(verdicts.scores, np.nanmean(residual**2, axis=1), rtol=1e-4)


@pytest.mark.parametrize("size", [1e300, 1.7e308, 1e-300, 5e-324])
@pytest.mark.parametrize("place", ["history", "live"])
def test_extreme_values_give_finite_scores(history: Floats, size: float, place: str) -> None:
    past, live = history.copy(), history.copy()
    spoiled = past if place == "history" else live
    spoiled[::3] *= size / 10
    spoiled[7, 1] = size
    spoiled[8, 1] = -size
    detector = M2N2(window=4, epochs=2, threshold=1.0).fit(past)
    assert np.isfinite(detector.threshold_)
    for _ in range(2):
        assert np.isfinite(detector.run(live).scores).all()
    assert np.isfinite(stream(detector).weights).all()
    assert np.isfinite(stream(detector).trend).all()


def test_a_constant_channel_is_kept_and_its_first_change_stands_out(history: Floats) -> None:
    past = history.copy()
    past[:, 1] = 0.1  # whose mean is not 0.1 to the last bit
    detector = M2N2(window=4, epochs=5).fit(past)
    live = past.copy()
    live[20, 1] += 30
    verdicts = detector.run(live)
    assert int(np.argmax(verdicts.scores)) == 20
    assert present(verdicts.shares)[20, 1] > 0.9


def test_units_come_from_a_row_of_the_file_or_the_option_and_stay(
    history: Floats, tmp_path: Path
) -> None:
    path, saved = tmp_path / "history.csv", tmp_path / "a.nn"
    rows = [f"a,{cpu},{disk}" for cpu, disk, _ in history.tolist()]
    path.write_text("\n".join(["host,cpu,disk", "-,[%],B", *rows]))
    table = read(path, drop="host")
    M2N2(window=4, epochs=1).fit(table).save(saved)
    assert M2N2.load(saved)._fitted.units == {"cpu": "%", "disk": "B"}
    given = M2N2(window=4, epochs=1, units={"disk": "GB"}).fit(table)
    assert given._fitted.units == {"cpu": "%", "disk": "GB"}
    with pytest.raises(ParameterError, match="found 'dsk'\nhint: did you mean disk"):
        given.unfitted(units={"dsk": "B"}).fit(table)
    with pytest.raises(ParameterError, match="units: expected texts by channel"):
        Detector(units={"disk": 5})  # type: ignore[dict-item]
    streams = {name: pl.DataFrame({name: history[:, 0]}) for name in ("cpu", "disk")}
    fleet = Fleet(given.unfitted()).fit(streams)
    assert [fleet[name]._fitted.units for name in streams] == [{}, {"disk": "GB"}]
