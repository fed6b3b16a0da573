"""Series of TSB-AD-M beside published figures, a user's file, and what people have today."""

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from newnormal import M2N2
from newnormal.errors import NewnormalError, ParameterError
from newnormal_reproduce.engine.plan import TrialPlan
from newnormal_reproduce.engine.published import Rule
from newnormal_reproduce.engine.runner import Runner
from newnormal_reproduce.engine.series import LabelledFile, period
from newnormal_reproduce.engine.streams import DataStreams, load_stream
from newnormal_reproduce.ours import today
from newnormal_reproduce.ours.drift import drift
from newnormal_reproduce.ours.tsb_ad import tsb_ad
from newnormal_reproduce.paper.main import main
from tests.reproduce.test_ablation import write_smd

FAST = {"mlp": {"epochs": 1}, "default": {"epochs": 1}}
OFFICIAL, SMD = "900_SMD_id_9_Facility_tr_150_1st_230", "057_SMD_id_1_Facility_tr_120_1st_1"
MSL = "012_MSL_id_11_Sensor_tr_100_1st_140"
PUBLISHED = f"""\
file,stream,history,skipped,samples,anomalous,vus_pr:PCA,auc_pr:online:CNN,auc_pr:streaming:LODA
{SMD}.csv,1-4,120,30,{{samples}},{{anomalous}},0.4,0.99,0.01
{MSL}.csv,M-7,100,0,300,11,0.5,0.98,0.02
005_MSL_id_4_Sensor_tr_855_1st_2700.csv,F-4,855,0,3422,71,0.1,0.1,0.1
"""


def wave(samples: int, *, first: int) -> tuple[np.ndarray, np.ndarray]:
    rng, labels = np.random.default_rng(samples), np.zeros(samples, dtype=int)
    labels[first : first + 11] = 1
    values = np.sin(np.arange(samples)[:, None] / [3, 7]) + rng.normal(0, 0.1, (samples, 2))
    return values + 4 * labels[:, None], labels


def write_csv(path: Path, values: np.ndarray, labels: np.ndarray, names: str) -> Path:
    table = np.column_stack([values, labels])
    np.savetxt(path, table, delimiter=",", header=names, comments="", fmt="%.6g")
    return path


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    write_smd(folder, "1-4", seed=0)
    for name in ("TSB-AD-M", "SMAP_MSL", "more/MSL"):
        (folder / name).mkdir(parents=True)
    write_csv(folder / f"TSB-AD-M/{OFFICIAL}.csv", *wave(400, first=230), "a,b,Label")
    values, labels = wave(300, first=140)
    np.savez(folder / "more/MSL/M-7.npz", train=values, test=values, label=labels)
    lines = 'M-7,MSL,"[[0, 9]]"\nM-7,MSL,"[[140, 150]]"\n'  # the last counts, its end too
    header = "chan_id,spacecraft,anomaly_sequences\n"
    (folder / "SMAP_MSL/labeled_anomalies.csv").write_text(header + lines)
    data = load_stream("SMD/1-4", folder)
    size = {"samples": len(data.test) - 30, "anomalous": data.labels[30:].sum()}
    (folder / "TSB-AD-M/published.csv").write_text(PUBLISHED.format(**size))
    return folder


def test_our_rows_stand_beside_published_ones_of_official_and_rebuilt_series(
    root: Path, tmp_path: Path
) -> None:
    result = tsb_ad(Runner(root, overrides=FAST), seeds=[1])
    assert [name[9:] for name in result.streams] == [MSL, SMD, OFFICIAL]
    page, runs = result.markdown(), {of.dataset[9:]: run for of, run in result.runs.items()}
    assert "VUS-PR on 2 series: " in page and "the best published rows have 0.450 (PCA" in page
    assert "| CNN | online | 0.985 |" in page and "| **default** | **here** |" in page
    assert runs[MSL].alarms.normal == 300 - 100 - 11 and runs[MSL].alarms.events == 1
    assert runs[OFFICIAL].auc_pr > 0.5 and "| all | default | 3 |" in page
    official = result.streams[f"TSB-AD-M/{OFFICIAL}"]
    assert (official.train, official.test, official.anomalous) == (150, 400, 11)
    rows = [row for row in csv.DictReader(result.csv().splitlines()) if not row["row"]]
    assert [row["auc_pr:online:CNN"] for row in rows if not row["note"]] == ["0.98", "0.99"]
    assert {path.suffix for path in result.write(tmp_path)} == {".md", ".csv", ".svg", ".png"}
    (root / "TSB-AD-M/published.csv").unlink()
    alone = tsb_ad(Runner(root, overrides=FAST), seeds=[1])
    assert list(alone.streams) == [f"TSB-AD-M/{OFFICIAL}"]
    assert "has no `TSB-AD-M/published.csv`" in alone.markdown()


def test_a_series_that_is_not_rebuilt_exactly_is_a_failure_and_no_number(root: Path) -> None:
    path = root / "TSB-AD-M/published.csv"
    path.write_text(path.read_text().replace("300,11,", "300,12,"))
    result = tsb_ad(Runner(root, overrides=FAST), datasets=[f"TSB-AD-M/{MSL}"], seeds=[1])
    why = "expected 300 samples, 12 of them anomalous, found 300 and 11"
    assert result.runs == {} and why in result.markdown()
    assert why in str(result.experiment.runner.failed)


@pytest.mark.parametrize(("cycle", "expected"), [(40, 40), (5, 125), (6, 6), (310, 125)])
def test_the_period_is_the_highest_peak_of_the_autocorrelation(cycle: int, expected: int) -> None:
    values = (np.arange(4000) % cycle == 0).astype(float)
    centred = values - values.mean()
    slow = [float(centred[lag:] @ centred[: len(centred) - lag]) for lag in range(401)]
    peaks = [lag for lag in range(4, 400) if slow[lag - 1] < slow[lag] > slow[lag + 1]]
    best = max(peaks, key=slow.__getitem__)
    assert period(values) == expected == (best if 6 <= best <= 303 else 125)


def test_a_users_file_is_a_stream_of_every_experiment(root: Path, tmp_path: Path) -> None:
    path = write_csv(tmp_path / "plant.csv", *wave(400, first=300), "a,b,fault")
    runner = Runner(root, overrides=FAST, series=[LabelledFile(path, "fault", 200)])
    assert runner.streams.about("series/plant").test == 200
    asked: Any = {"datasets": ["SMD/1-4"], "models": ["mlp"], "seeds": [1]}
    page = main(runner, **asked).markdown()
    assert "| series/plant | MLP | frozen |" in page
    assert "--series plant.csv --label fault --history 200`" in page
    assert "| series | frozen MLP | 1 | 1 |" in drift(runner, **asked).markdown()
    assert "| plant | " in tsb_ad(runner, datasets=[f"TSB-AD-M/{MSL}"], seeds=[1]).markdown()


@pytest.mark.parametrize(
    ("label", "history", "message"),
    [
        ("faulty", 200, "label names column 'faulty'"),
        ("fault", 400, "expected history of 1 to 399 of its 400 samples, found 400"),
        ("fault", 0, "expected history of 1 to 399 of its 400 samples, found 0"),
        ("fault", 311, "expected samples after history with 1 in column 'fault'"),
    ],
)
def test_a_file_that_cannot_be_used_says_why(
    tmp_path: Path, label: str, history: int, message: str
) -> None:
    path = write_csv(tmp_path / "plant.csv", *wave(400, first=300), "a,b,fault")
    with pytest.raises(NewnormalError, match=message):
        DataStreams(tmp_path, [LabelledFile(path, label, history)])
    file = LabelledFile(path, "fault", 9)
    with pytest.raises(ParameterError, match="expected files of different names"):
        DataStreams(tmp_path, [file, file])


def test_every_series_with_published_figures_is_rebuilt_from_the_benchmark_data(
    data_root: Path,
) -> None:
    if not (data_root / "TSB-AD-M/published.csv").is_file():
        pytest.skip("needs the published figures of TSB-AD-M")
    streams = DataStreams(data_root)
    names = [name for name in streams.places if name.startswith("TSB-AD-M/")]
    assert len(names) >= 25 and all(streams.about(name).anomalous for name in names)


RNG = np.random.default_rng(4)
DAY = 1440
# Two days and a half, and a day after it: the first channel follows the day, the second is noise.
SAMPLES = np.c_[np.sin(2 * np.pi * np.arange(5040) / DAY), np.zeros(5040)]
SAMPLES += RNG.normal(0, 0.05, SAMPLES.shape)
HISTORY, LIVE = SAMPLES[:3600], SAMPLES[3600:]


def scores(name: str, live: np.ndarray, *, piece: int = 10_000) -> np.ndarray:
    """Return the scores of a rule by a detector, of live samples that come in pieces."""
    (row,) = [row for row in today.ONE_LINERS if row.competitor.name == name]
    options = dict(row.competitor.options)
    model = M2N2(model=row.competitor.model, detrend=False, adapt=False, **options)
    detector = model.fit(HISTORY)
    parts = [
        detector.run(live[start : start + piece], flush=False).scores
        for start in range(0, len(live), piece)
    ]
    return np.concatenate(parts)


def test_a_band_is_mean_and_three_deviations_of_its_hour_or_of_all_where_it_has_none() -> None:
    hours = np.arange(len(HISTORY)) // 60 % 24
    low, high = today.bands(HISTORY, hours)
    same = HISTORY[hours == 7]
    np.testing.assert_allclose((low[7] + high[7]) / 2, same.mean(axis=0))
    np.testing.assert_allclose(high[7] - low[7], 6 * same.std(axis=0))
    none = today.bands(HISTORY[:60], hours[:60])[0]
    np.testing.assert_array_equal(none[23], none[0])


def test_a_distance_is_above_1_outside_a_range_also_where_that_has_no_width() -> None:
    ranges = np.array([[0.0, 5.0], [4.0, 5.0]])
    assert (
        today.distances(np.array([[4.0, 5.0], [4.1, 5.0], [2.0, 5.1]]), ranges) > 1
    ).tolist() == [
        [False, False],
        [True, False],
        [False, True],
    ]


def test_the_fixed_limit_scores_the_farthest_channel_and_half_a_per_cent_of_history() -> None:
    low, high = today.limits(HISTORY)
    outside = ((low > LIVE) | (high < LIVE)).any(axis=1)
    np.testing.assert_array_equal(scores("fixed limit", LIVE) > 1, outside)
    assert outside.any()
    low, high = today.limits(HISTORY)
    outside = (low > HISTORY) | (high < HISTORY)
    np.testing.assert_allclose(outside.mean(axis=0), 0.005, atol=0.0005)


@pytest.mark.parametrize("piece", [10_000, 77])
def test_the_band_goes_on_with_the_hour_at_which_history_ended(piece: int) -> None:
    hours = np.arange(len(SAMPLES)) // 60 % 24
    low, high = today.bands(HISTORY, hours[: len(HISTORY)])[:, hours[len(HISTORY) :]]
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
    rules = {row.competitor.name: row.rule for row in today.ROWS}
    own = rules["fixed limit"]
    assert own == rules["band by hour"] == Rule.parse(str(own))
    assert own.fixed is not None and not own.oracle
    assert {rule for rule in rules.values() if rule != own} == {Rule(99.0)}
    quiet = np.array([[0.0], [1.0]])  # a value at its limit is not beyond it
    assert (today.distances(quiet, np.array([[0.0], [1.0]])) < own.fixed).all()


def test_rows_are_named_by_their_models_and_run_by_default(tmp_path: Path) -> None:
    def chosen(models: list[str] | None) -> tuple[list[today.TodayRow], list[str]]:
        plan = TrialPlan.of(Runner(str(tmp_path)), models=models)
        rows, others = today.split(plan, today.ROWS, ("mlp",))
        return rows, [other.model for other in others]

    assert chosen(None) == (list(today.ROWS), ["mlp"])
    assert chosen(["mlp"]) == ([], ["mlp"])
    assert chosen(["mlp", today.ONE_LINERS[1].competitor.model]) == ([today.ONE_LINERS[1]], ["mlp"])


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
    names = [row.competitor.model for row in (today.RIVER, today.PYOD[0])]
    result = drift(str(tmp_path), datasets=["SMD/1-4"], models=names, seeds=[1])
    assert list(result.operator.by_collection()["SMD"]) == ["River HST", "PyOD PCA"]
    assert "| SMD | River HST | 1 | 1 |" in result.markdown()
