"""`newnormal reproduce drift`: the detector without a setting beside fixed ones."""

import csv
import math
import re
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pytest

from newnormal.detector import Detector
from newnormal.metrics import auprc
from newnormal_reproduce.engine import fingerprint
from newnormal_reproduce.engine.drifting import DRIFTING, KINDS, grown, kind_of
from newnormal_reproduce.engine.fit import TrialFit
from newnormal_reproduce.engine.published import DEFAULT, Figure, Rule, settings
from newnormal_reproduce.engine.runner import Runner
from newnormal_reproduce.engine.store import ResultStore
from newnormal_reproduce.engine.streams import load_stream
from newnormal_reproduce.engine.variants import variant_named
from newnormal_reproduce.ours.averages import covered, macro, shared
from newnormal_reproduce.ours.drift import Drift, drift
from newnormal_reproduce.ours.drift_alarms import LATER, Shares, shares
from newnormal_reproduce.ours.drift_figures import COMPONENTS, OURS, PLAIN, TUNED
from newnormal_reproduce.ours.today import NAMES, ONE_LINERS
from newnormal_reproduce.paper.dataset_table import dataset_table
from newnormal_reproduce.paper.main import main
from tests.present import present
from tests.reproduce.small_data import check_tables, write_machine

FAST = {"mlp": {"epochs": 1}, "default": {"epochs": 1}}
FIXED = ["γ 0.8, η 0.1", "γ 0.99, η 0.05", "γ 0.999, η 0.005"]


def series(channels: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    mixed = rng.normal(size=(3, channels))
    waves = np.sin(np.arange(600)[:, None] / [5, 7, 11])
    values = waves @ mixed + rng.normal(0, 0.1, (600, channels))
    labels = np.zeros(300, dtype=int)
    labels[220:230] = 1
    values[300:][labels == 1, :4] += 2
    return values, labels


def write_smd(root: Path, stream: str, channels: int, seed: int) -> None:
    values, labels = series(channels, seed)
    write_machine(root, stream, values[:300], values[300:], labels)


def write_asd(root: Path, stream: str, channels: int, seed: int) -> None:
    values, labels = series(channels, seed)
    (root / "ASD").mkdir(parents=True, exist_ok=True)
    for part, rows in (("train", values[:300]), ("test", values[300:]), ("test_label", labels)):
        np.save(root / "ASD" / f"{stream}_{part}.npy", rows)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    write_smd(folder, "1-4", 12, seed=0)  # one of the paper's
    write_smd(folder, "3-4", 14, seed=1)
    write_asd(folder, "omi-1", 12, seed=2)
    return folder


@pytest.fixture(scope="module")
def runner(root: Path) -> Runner:
    return Runner(root, overrides=FAST)


@pytest.fixture(scope="module")
def result(runner: Runner) -> Drift:
    datasets = ["SMD", "ASD", "SWaT", "drift/wave-level-1"]
    models = ["mlp", "pca", DEFAULT, *(row.competitor.model for row in ONE_LINERS)]
    return drift(runner, datasets=datasets, models=models, seeds=[1, 2])


def test_pca_is_kept_and_read_back(runner: Runner, tmp_path: Path) -> None:
    stream = runner.streams.about("SMD/3-4")
    trial = runner.trial(stream, "pca", "frozen", Rule(99.0), 1)
    data = load_stream(stream.name, stream.root)
    fitted = TrialFit.on(data.train, trial)
    ResultStore.write_fit(tmp_path / "fit.nn", fitted)
    stored = present(ResultStore.read_fit(tmp_path / "fit.nn", "pca"))
    ref, comp = (
        each.as_variant(variant_named("frozen"), 1.0, decay=1.0, lr=0.0).run(data.test).scores
        for each in (fitted, stored)
    )
    np.testing.assert_array_equal(ref, comp)


def test_a_macro_mean_counts_a_collection_once_over_the_seeds_that_all_streams_have() -> None:
    values = {"a": {1: 0.0}, "b": {1: 0.2}, "c": {1: 0.4}, "d": {1: 1.0}}
    figure = present(macro(values, [["a", "b", "c"], ["d"]]))
    assert figure.mean == pytest.approx((0.2 + 1.0) / 2)
    assert figure.std is None
    values = {"a": {1: 0.0, 2: 0.25, 3: 9.0}, "b": {1: 1.0, 2: 0.25}}
    assert macro(values, [["a"], ["b"]]) == Figure.of([0.5, 0.25])
    assert macro({"a": {1: 0.5}}, [["a"], ["b"]]) is None
    assert macro({"a": {1: 0.5}, "b": {2: 0.5}}, [["a", "b"]]) is None
    assert macro({}, []) is None


def test_rows_are_compared_on_the_streams_that_all_of_them_have() -> None:
    one, two = {"a": {1: 0.5}, "b": {1: 0.5}}, {"b": {1: 0.5}}
    assert shared([one, two], ["a", "b"]) == ["b"]
    assert shared([one, two, {}], ["a", "b"]) == ["b"]  # one that has none is not compared
    assert shared([{}], ["a"]) == []


def test_the_share_of_the_way_covered() -> None:
    assert covered(0.2, 0.6, 0.5) == pytest.approx(0.75)
    assert covered(0.2, 0.6, 0.1) == pytest.approx(-0.25)
    assert covered(0.2, 0.6, 0.7) == pytest.approx(1.25)
    assert covered(0.6, 0.2, 0.5) is None  # tuning by hand made it worse: there is no way


def test_shares_around_changes_are_of_normal_samples_since_the_last_and_to_the_next() -> None:
    labels = np.zeros(5000, dtype=np.int64)
    labels[:10] = labels[4000:] = 1
    anomalous = np.zeros(5000, dtype=bool)
    anomalous[:109] = True  # 99 of 990 normal ones before
    anomalous[1000 : 1000 + LATER] = True  # then all, until it has come to terms with it
    anomalous[3000:3500] = True
    first, second = shares(anomalous, labels, (1000, 3000))
    assert first == Shares(99 / 990, LATER / 2000, 0.0)
    assert second.before == LATER / 2000
    assert second.after == 500 / 1000
    assert math.isnan(second.later)  # labelled throughout


def test_generated_streams_change_where_they_say_and_anomalies_are_on_both_sides() -> None:
    assert {kind_of(name) for name in DRIFTING} == set(KINDS)
    assert len(DRIFTING) == 3 * len(KINDS)
    for kind in KINDS:
        data = kind.make(1)
        assert len(data.shifts) == len(kind.changes)
        assert data.labels[: data.shifts[0]].any()
        assert data.labels[data.shifts[-1] :].any()
    assert kind_of("SMD/1-4") is None
    assert kind_of("synthetic/plant") is None


def test_a_grown_wave_swings_as_much_further_about_the_same_middle() -> None:
    data = grown(1, factor=2.0)
    (since,) = data.shifts
    normal = data.labels == 0
    before, after = data.test[:since][normal[:since]], data.test[since:][normal[since:]]
    assert after.std() / before.std() == pytest.approx(2.0, rel=0.02)
    assert abs(after.mean() - before.mean()) < 0.05 * before.std()


def test_the_default_trial_is_the_detector_with_the_threshold_of_its_rule(runner: Runner) -> None:
    stream = runner.streams.about("SMD/1-4")
    trial = runner.trial(stream, DEFAULT, "DT+TTA", Rule(99.0), 7)
    (outcome,) = runner.run([trial]).outcomes.values()
    data = load_stream(stream.name, stream.root)
    detector = Detector(seed=7, epochs=1, threshold=0.99).fit(data.train)
    verdicts = detector.run(data.test)
    np.testing.assert_array_equal(outcome.judgement.scores, verdicts.scores)
    np.testing.assert_array_equal(outcome.judgement.anomalous, verdicts.anomalous)
    assert outcome.tau == detector.threshold_
    assert outcome.report.auprc == auprc(data.labels, verdicts.scores)


def test_the_default_detector_has_no_frozen_variant(runner: Runner) -> None:
    result = main(runner, datasets=["SMD/1-4"], models=["default"], seeds=[1])
    assert [trial.variant for trial in result.outcomes] == ["DT+TTA"] * len(result.outcomes)
    assert len(result.outcomes) > 0
    assert set(result.failures.values()) == {
        "ParameterError: variants: Detector always detrends and adapts, found 'frozen'\n"
        "hint: use DT+TTA, or another model"
    }


def test_how_the_default_detector_chooses_counts_for_it_alone() -> None:
    def tuning(model: str) -> set[str]:
        files = fingerprint._fitting_files(model)
        return {module for module in files if module.startswith("newnormal.tuning")}

    assert len(tuning(DEFAULT)) > 1
    assert not tuning("mlp")
    assert "newnormal.models.pca" in fingerprint._fitting_files("pca")


def values_of(result: Drift, row: str, stream: str) -> list[float]:
    return [
        result.experiment.outcomes[trial].report.auprc
        for line, trials in result.experiment.lines
        for trial in trials
        if (line.competitor.name, line.stream.name) == (row, stream)
    ]


def test_every_row_has_its_setting_and_pca_is_left_out_where_it_leaves_nothing(
    result: Drift,
) -> None:
    experiment = result.experiment
    assert experiment.failures == {}
    rows: dict[str, list[str]] = {}
    for line, trials in experiment.lines:
        rows.setdefault(line.stream.name, []).append(line.competitor.name)
        assert len(trials) == (1 if line.competitor.name in ("PCA", *NAMES) else 2)
        assert line.competitor.name != "PCA" or trials[0].options.latent == COMPONENTS
        if line.competitor.name in (PLAIN, *FIXED):
            options = trials[0].options
            assert (options.window, options.stride, options.fit_stride) == (5, 5, 5)
            assert (options.latent, options.batch) == (16, 64)
            assert {str(trial.rule) for trial in trials} == {"Q99"}
    one_liners = [row.competitor.name for row in ONE_LINERS]
    assert rows["SMD/1-4"] == [*one_liners, PLAIN, *FIXED, TUNED, "PCA", OURS]
    assert rows["SMD/3-4"] == rows["ASD/omi-1"] == [*one_liners, PLAIN, *FIXED, "PCA", OURS]
    assert rows["drift/wave-level-1"] == [*one_liners, PLAIN, *FIXED, OURS]


def test_the_hand_tuned_row_has_the_papers_settings(result: Drift) -> None:
    (setting,) = settings(["SMD/1-4"])
    (trials,) = [
        trials for line, trials in result.experiment.lines if line.competitor.name == TUNED
    ]
    for trial in trials:
        assert (trial.options.decay, trial.options.lr) == (
            setting.options.decay,
            setting.options.lr,
        )
        assert trial.rule == setting.thresholds["DT+TTA"].f1


def test_macros_are_means_of_collections_means(result: Drift) -> None:
    for row in (PLAIN, *FIXED, OURS):
        smd = [fmean(values_of(result, row, name)) for name in ("SMD/1-4", "SMD/3-4")]
        expected = (fmean(smd) + fmean(values_of(result, row, "ASD/omi-1"))) / 2
        assert result.figures.macros("auprc")[row].mean == pytest.approx(expected)
    assert result.figures.macros("auprc")["PCA"].std is None
    assert TUNED not in result.figures.macros("auprc")


def test_the_page_says_what_the_tables_show(result: Drift) -> None:
    page = result.markdown()
    macros = result.figures.macros("vus_pr")
    best = max((name for name in macros if name != OURS), key=lambda name: macros[name].mean)
    gain = macros[OURS].mean / macros[best].mean - 1
    side = "above" if gain >= 0 else "below"
    assert (
        f"- Macro VUS-PR: {macros[OURS].mean:.3f} for the default detector, {abs(gain):.0%} {side} "
        f"the best other row ({best}, {macros[best].mean:.3f})."
    ) in page
    assert "The mean over SMD (2) and ASD (1) of the mean over" in page
    assert "| macro, mean of the 2 above | 3 |" in page
    sets, five = result.figures.five("auprc")
    assert sets == ["SMD/1-4"]
    (row,) = [line for line in page.splitlines() if line.startswith(f"| {TUNED} | ")]
    assert str(five[TUNED]) in row
    assert "over seeds 1, 2;" in page
    assert "| wave-level: level | frozen MLP |" in page
    assert "| SWaT | get Secure Water Treatment" in page
    for section in ("What an operator gets", "Until a new normal is accepted", "Faults that stay"):
        assert f"## {section}\n" in page


def test_what_people_have_today_is_in_the_operators_table_alone(result: Drift) -> None:
    before, _, rest = result.markdown().partition("## What an operator gets")
    operator, _, after = rest.partition("\n## ")
    assert "| SMD | fixed limit | 2 | 2 |" in operator
    assert not any(f"| {row.competitor.name} |" in before + after for row in ONE_LINERS)
    measured = {of.row for of in (*result.alarms.around, *result.alarms.faults)}
    assert OURS in measured
    assert measured.isdisjoint(NAMES)


def test_samples_in_alarm_after_the_change_are_few(result: Drift) -> None:
    around = result.alarms.around_changes()["drift/wave-level", "level"]
    assert around[PLAIN].later.mean > 0.9  # it never learns the new level
    assert around[OURS].later.mean < around[PLAIN].later.mean / 2


def test_every_table_is_rectangular_and_every_picture_is_there(
    result: Drift, tmp_path: Path
) -> None:
    pytest.importorskip("matplotlib", reason="needs the extra plot")
    paths = result.write(tmp_path)
    pictures = [
        f"drift-{name}.{end}"
        for name in ("macro", "collections", "found", "false")
        for end in ("svg", "png")
    ]
    assert [path.name for path in paths] == [
        *("drift.md", "drift-detail.md", "drift.csv", "drift-alarms.csv", "drift-changes.csv"),
        *pictures,
    ]
    assert set(re.findall(r"\]\((drift-\w+\.png)\)", paths[0].read_text(encoding="utf-8"))) == {
        name for name in pictures if name.endswith(".png")
    }
    for path in paths[:2]:
        check_tables(path.read_text(encoding="utf-8"))


def test_the_csv_has_a_line_a_run_and_one_for_what_is_absent(result: Drift) -> None:
    lines = list(csv.DictReader(result.csv().splitlines()))
    ok = [line for line in lines if line["status"] == "ok"]
    assert len(ok) == len(result.experiment.outcomes)
    assert [line["dataset"] for line in lines if line["status"] == "absent"] == ["SMD/2-1", "SWaT"]
    for line in ok:
        assert 0 <= float(line["auprc"]) <= 1
    (one,) = [line for line in ok if (line["row"], line["dataset"]) == ("PCA", "SMD/3-4")]
    assert float(one["auprc"]) == pytest.approx(values_of(result, "PCA", "SMD/3-4")[0], rel=1e-5)


def test_models_and_variants_narrow_it(root: Path, runner: Runner) -> None:
    asked: dict[str, Any] = {"datasets": ["SMD/1-4"], "seeds": [1]}
    alone = drift(runner, models=["mlp"], **asked)
    assert alone.figures.rows == [PLAIN, *FIXED]
    assert "for the default detector" not in alone.markdown()
    frozen = drift(runner, variants=["frozen"], **asked)
    assert frozen.figures.rows == [PLAIN, "PCA"]
    assert "## The paper's five sets" not in frozen.markdown()


def test_half_way_it_shows_what_is_there(root: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    full = Runner(root, cache=cache, overrides=FAST)
    drift(full, datasets=["SMD/1-4"], models=["mlp"], seeds=[1, 2])
    drift(full, datasets=["SMD/1-4"], models=["default", "pca"], seeds=[1])
    drift(full, datasets=["SMD/3-4"], models=["mlp"], seeds=[1])
    kept = Runner(root, cache=cache, overrides=FAST, compute=False)
    half = drift(kept, datasets=["SMD", "ASD"], seeds=[1, 2])
    assert kept.computed == 0
    page = half.markdown()
    assert "over the seeds named in the first table (1 to 2 of 1, 2)" in page
    assert "The mean over SMD (1) of the mean over" in page  # the other has no default yet
    assert f"| {PLAIN} | 2 |" in page
    assert f"| {OURS} | 1 |" in page
    assert "| ASD/omi-1 | not computed |" in page


def test_generated_drift_is_there_when_asked_for_and_in_no_other_table(runner: Runner) -> None:
    assert runner.streams.chosen(["drift"], []) == list(DRIFTING)
    names = [stream.name for stream in dataset_table(runner.streams).streams]
    assert "synthetic/plant" in names
    assert not set(names) & set(DRIFTING)
