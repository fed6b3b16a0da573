"""Shift, curves, traces and cost: the numbers behind the pictures, and that the files are there."""

import re
from pathlib import Path

import numpy as np
import pytest

from newnormal.datasets import Dataset
from newnormal.metrics import auroc, best_f1, f1
from newnormal.plots.canvas import blank
from newnormal.types import Bools, Floats, Ints
from newnormal_reproduce.engine.plan import Request
from newnormal_reproduce.engine.runner import Runner
from newnormal_reproduce.paper.cost import cost, cost_of, printed_cost
from newnormal_reproduce.paper.curves import curves, f1_against_threshold, operating_points
from newnormal_reproduce.paper.shift import (
    authors_divergence,
    gaussian_divergence,
    measure,
    plane,
    shift,
)
from newnormal_reproduce.paper.traces import changed_dynamics, farthest_channels, traces
from newnormal_reproduce.report.figures import COLOURS, ROW_COLOURS, colour_of, save_figure


def moved(apart: float = 0.0, channels: int = 3) -> Dataset:
    rng = np.random.default_rng(0)
    test = rng.normal(size=(150, channels)) + apart
    labels = np.zeros(150, dtype=np.int64)
    labels[100:110] = 1
    test[labels == 1] += 1e6
    return Dataset(
        "toy", rng.normal(size=(150, channels)), test, labels, tuple("abcdefgh"[:channels])
    )


def test_divergence_is_the_closed_form_and_infinite_where_train_does_not_vary() -> None:
    x = np.random.default_rng(1).normal(size=(200, 1))
    scaled = (x - x.mean()) / x.std(ddof=1)
    # KL(N(1, 4) ‖ N(0, 1)) = ½ (4 + 1 - 1 - ln 4)
    assert gaussian_divergence(2 * scaled + 1, scaled) == pytest.approx((4 - np.log(4)) / 2)
    varied = np.random.default_rng(0).normal(size=(50, 2))
    assert gaussian_divergence(varied, np.zeros((50, 2))) == np.inf


def test_shift_grows_with_the_distance_and_ignores_test_anomalies() -> None:
    near, far = measure(moved(0.0)).divergence, measure(moved(3.0)).divergence
    assert near < 0.3 < 3 < far


def test_shift_keeps_the_fewest_components_that_explain_more_than_099_and_of_one_channel_none() -> (
    None
):
    rng = np.random.default_rng(0)
    one = rng.normal(size=(500, 1)) * [100, 0.1, 0.1, 0.1]
    noise = rng.normal(size=(500, 4)) * 0.1
    data = Dataset("toy", one + noise, one - noise, np.zeros(500, dtype=np.int64), tuple("abcd"))
    measured = measure(data)
    assert (measured.components, measured.channels) == (1, 4)
    assert measured.explained is not None
    assert measured.explained > 0.99
    assert measure(moved(channels=1)).components is None


def test_a_plane_has_all_three_groups_in_two_dimensions_and_one_channel_is_drawn_as_it_is() -> None:
    cloud = plane(moved())
    shapes = {name: points.shape for name, points in cloud.groups.items()}
    assert shapes == {"train": (150, 2), "test, normal": (140, 2), "test, anomalous": (10, 2)}
    assert plane(moved(channels=1)).groups["train"].ndim == 1


def test_shift_writes_page_table_and_pictures_and_says_what_is_missing(tmp_path: Path) -> None:
    measured = shift([tmp_path], datasets=["synthetic/neurips-ts-uni", "SWaT"])
    paths = measured.write(tmp_path / "out")
    names = {path.name for path in paths}
    assert {"shift.md", "shift.csv", "shift-kl.svg", "shift-histograms.png"} <= names
    assert all(path.stat().st_size for path in paths)
    text = (tmp_path / "out" / "shift.md").read_text(encoding="utf-8")
    assert "| SWaT |  |  |  | not run | 143.9 |  |" in text
    assert "| SWaT | get Secure Water Treatment" in text
    assert "newnormal reproduce shift --data DIR" in text


def test_the_authors_divergences_and_costs_are_transcribed() -> None:
    assert authors_divergence("WADI") == 2.94e7
    assert authors_divergence("Yahoo/A1-R55") == 1.07
    assert authors_divergence("CreditCard") == 0.00103
    assert printed_cost("THOC") == {
        "time_ms": 4.686,
        "time_ms_std": 0.336,
        "multiply_adds": 1724360,
        "parameters_mb": 1.82,
        "activations_mb": 0.11,
    }


def test_the_compiled_mlp_costs_what_the_paper_says() -> None:
    measured = cost_of("mlp", trials=4)
    assert measured.linear == measured.forward == 586740
    assert measured.learning == 3 * 586740 - 660 * 330
    assert round(measured.parameters_mb, 2) == 2.35
    assert round(measured.learning_mb, 2) == 0.01


def test_a_pytorch_model_is_counted_product_by_product() -> None:
    pytest.importorskip("torch")
    measured, compiled = cost_of("torch-mlp", trials=4), cost_of("mlp", trials=4)
    assert measured.linear == measured.forward == compiled.forward
    assert measured.learning == compiled.learning + 586740  # it goes forward once more
    assert measured.outputs == compiled.outputs


def test_an_lstm_is_mostly_what_the_paper_leaves_out() -> None:
    pytest.importorskip("torch")
    measured = cost_of("lstm", trials=2)
    assert measured.linear == 84480
    assert measured.forward > 50 * measured.linear


def test_a_model_that_cannot_be_measured_is_a_row_that_says_so(tmp_path: Path) -> None:
    cost(["nothing.here:Model"]).write(tmp_path)
    assert "| nothing.here:Model | failed: " in (tmp_path / "cost.md").read_text(encoding="utf-8")
    assert "failed,,nothing.here:Model" in (tmp_path / "cost.csv").read_text(encoding="utf-8")


def test_a_model_that_cannot_be_counted_is_a_row_that_says_so() -> None:
    pytest.importorskip("torch")
    failed = cost(models=["default"]).failed
    assert failed["default"].startswith(
        "failed: ParameterError: expected a model whose operations can be counted, found 'default'"
    )


def test_the_same_figure_gives_the_same_files(tmp_path: Path) -> None:
    figures = []
    for name in ("a", "b"):
        figure = blank(2, 1)
        figure.add_axes((0, 0, 1, 1)).plot([0, 1], [1, 0])
        figures.append(save_figure(figure, tmp_path / name, "x"))
    for one, other in zip(*figures, strict=True):
        assert one.read_bytes() == other.read_bytes()


def test_no_two_of_the_papers_models_share_a_colour() -> None:
    assert len(set(COLOURS.values())) == len(COLOURS)
    assert len(set(ROW_COLOURS.values())) == len(ROW_COLOURS)  # nor two rows of drift
    assert colour_of("another") not in (COLOURS["MLP + DT+TTA"],)


def random_scores(seed: int) -> tuple[Ints, Floats]:
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 2, 60)
    return labels, rng.integers(0, 8, 60).astype(np.float64)  # with ties


@pytest.mark.parametrize("seed", range(5))
def test_the_area_under_the_drawn_roc_curve_is_auroc(seed: int) -> None:
    labels, scores = random_scores(seed)
    points = operating_points(labels, scores)
    area = np.trapezoid(points.recall, points.false_positive_rate)
    assert area == pytest.approx(auroc(labels, scores))


@pytest.mark.parametrize("seed", range(5))
def test_f1_against_threshold_is_f1_at_each_threshold_and_peaks_at_the_best(seed: int) -> None:
    labels, scores = random_scores(seed)
    thresholds = np.unique(scores)
    drawn = f1_against_threshold(labels, scores, thresholds)
    assert drawn.tolist() == [f1(labels, scores >= tau) for tau in thresholds]
    assert drawn.max() == pytest.approx(best_f1(labels, scores).value)


def test_dynamics_change_and_the_level_does_not() -> None:
    data = changed_dynamics(3)
    (change,) = data.shifts
    normal = data.labels == 0
    before, after = (data.test[part & normal, 0] for part in (_until(change), ~_until(change)))
    assert abs(before.mean() - after.mean()) < 0.1
    assert after.std() > 1.25 * before.std()
    assert data.labels[change:].any()


def _until(change: int) -> Bools:
    return np.arange(6_000) < change


def test_the_channel_that_moved_farthest_comes_first_and_one_that_stayed_does_not_come() -> None:
    rng = np.random.default_rng(0)
    train = rng.normal(size=(200, 3))
    test = rng.normal(size=(200, 3)) + np.array([0, 5, 2])
    data = Dataset("toy", train, test, np.zeros(200, dtype=np.int64), ("a", "b", "c"))
    assert farthest_channels(data, 3) == [1, 2]


def small_smd(folder: Path) -> Path:
    """Write SMD 1-4 in upstream's form, with an event."""
    rng = np.random.default_rng(0)
    root = folder / "SMD"
    for part in ("train", "test", "test_label"):
        (root / part).mkdir(parents=True)
    waves = np.sin(np.arange(300)[:, None] / 7 + np.arange(38)) + rng.normal(0, 0.1, (300, 38))
    test, labels = waves[::-1].copy(), np.zeros(300, dtype=int)
    test[200:210] += 4
    labels[200:210] = 1
    np.savetxt(root / "train" / "machine-1-4.txt", waves, delimiter=",")
    np.savetxt(root / "test" / "machine-1-4.txt", test, delimiter=",")
    np.savetxt(root / "test_label" / "machine-1-4.txt", labels, fmt="%d")
    return folder


def test_curves_and_traces_write_pages_and_pictures_from_one_cache(tmp_path: Path) -> None:
    runner = Runner(small_smd(tmp_path), cache=tmp_path / "cache")
    asked: Request = {"datasets": ["SMD/1-4"], "models": ["mlp"], "seeds": [1, 2]}
    drawn = [*curves(runner, **asked).write(tmp_path / "out")]
    computed = runner.computed
    drawn += traces(runner, **asked).write(tmp_path / "out")
    assert all(path.stat().st_size for path in drawn)
    assert runner.computed == computed  # the scores were kept
    names = {path.name for path in drawn}
    assert {"curves-roc.svg", "curves-f1.png", "traces-scores-smd-1-4.svg"} <= names
    assert {"traces-expected-smd-1-4.png", "traces-trend.svg", "traces-dynamics.svg"} <= names
    for page in ("curves.md", "traces.md"):
        text = (tmp_path / "out" / page).read_text(encoding="utf-8")
        pictures = re.findall(r"\]\(([\w.-]+\.png)\)", text)
        assert pictures
        assert all((tmp_path / "out" / picture).is_file() for picture in pictures)
