"""Series of TSB-AD-M beside published figures, and a user's file as one more stream."""

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from newnormal.errors import NewnormalError, ParameterError
from newnormal_reproduce.engine.runner import Runner
from newnormal_reproduce.engine.series import LabelledFile, period
from newnormal_reproduce.engine.streams import DataStreams, load_stream
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
