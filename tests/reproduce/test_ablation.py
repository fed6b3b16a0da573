"""The ablation on small files in the benchmark's own form: its rows, its rules, its pages."""

import csv
import math
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from newnormal import M2N2, Fixed
from newnormal.datasets import Dataset, load
from newnormal.errors import DatasetError, ParameterError
from newnormal.metrics import auprc, auroc, best_f1, confusion
from newnormal_reproduce.engine.comparison import Comparison
from newnormal_reproduce.engine.experiment import Experiment
from newnormal_reproduce.engine.fit import TrialFit
from newnormal_reproduce.engine.published import Figure, Rule, settings
from newnormal_reproduce.engine.runner import Runner
from newnormal_reproduce.engine.sweep import Failure, sweep
from newnormal_reproduce.engine.trial import Trial, TrialOutcome
from newnormal_reproduce.engine.variants import VARIANTS, Variant
from newnormal_reproduce.paper.ablation import ablation
from tests.errors import raised
from tests.reproduce.small_data import check_tables, write_machine

SEEDS = (3, 4)


def write_smd(root: Path, stream: str, seed: int) -> None:
    """Write a small stream whose level moves, with labelled spikes after that."""
    rng = np.random.default_rng(seed)
    series = np.sin(np.arange(700)[:, None] / [7, 9, 11]) + rng.normal(0, 0.1, (700, 3))
    series[450:] += 2
    labels = np.zeros(300, dtype=int)
    for start in (120, 200, 260):
        labels[start : start + 4] = 1
    series[400:][labels == 1] += rng.normal(0, 3, (12, 3))
    write_machine(root, stream, series[:400], series[400:], labels)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    write_smd(folder, "1-4", seed=0)
    return folder


@pytest.fixture(scope="module")
def result(root: Path) -> Experiment:
    return ablation(root, seeds=SEEDS)


@pytest.fixture(scope="module")
def data(root: Path) -> Dataset:
    return load("SMD/1-4", root)


@pytest.fixture(scope="module")
def trial(root: Path) -> Trial:
    runner = Runner(root)
    return runner.trial(runner.streams.about("SMD/1-4"), "mlp", "frozen", Rule(99.0), SEEDS[0])


def run_of(result: Experiment, row: str, rule: str, seed: int = SEEDS[0]) -> TrialOutcome:
    (run,) = [
        each
        for trial, each in result.outcomes.items()
        if (trial.variant, str(trial.rule), trial.seed) == (row, rule, seed)
    ]
    return run


def test_each_variant_runs_once_for_each_distinct_threshold_and_seed(result: Experiment) -> None:
    first = [trial for trial in result.outcomes if trial.seed == SEEDS[0]]
    found = [(trial.variant, str(trial.rule)) for trial in first]
    assert found == [
        ("frozen", "Q*"),
        ("DT", "Q98"),
        ("DT", "Q*"),
        ("TTA", "Q*"),
        ("DT+TTA", "Q97"),
        ("DT+TTA", "Q99"),
    ]
    assert len(result.outcomes) == len(found) * len(SEEDS)


def fitted_alone(data: Dataset, **options: object) -> M2N2:
    (setting,) = settings(["SMD/1-4"])
    chosen = {**asdict(setting.options), "seed": SEEDS[0], **options}
    return M2N2(**chosen).fit(data.train)


@pytest.mark.parametrize(
    ("row", "detrend", "adapt", "rule", "quantile"),
    [("DT", True, False, "Q98", 0.98), ("DT+TTA", True, True, "Q97", 0.97)],
)
def test_a_variant_equals_a_detector_fitted_for_it_alone(
    result: Experiment,
    data: Dataset,
    row: str,
    detrend: bool,
    adapt: bool,
    rule: str,
    quantile: float,
) -> None:
    detector = fitted_alone(data, detrend=detrend, adapt=adapt, threshold=quantile)
    verdicts = detector.run(data.test)
    run = run_of(result, row, rule)
    assert run.tau == detector.threshold_
    counts = confusion(data.labels, verdicts.anomalous)
    report = run.report
    assert (report.tp, report.fp) == (counts.tp, counts.fp)
    assert (report.fn, report.tn) == (counts.fn, counts.tn)
    assert report.auroc == auroc(data.labels, verdicts.scores)
    assert report.auprc == auprc(data.labels, verdicts.scores)
    np.testing.assert_array_equal(run.judgement.scores, verdicts.scores)
    np.testing.assert_array_equal(run.judgement.thresholds, verdicts.thresholds)
    np.testing.assert_array_equal(run.judgement.anomalous, verdicts.anomalous)
    assert run.learned == detector.counters["learned"]


def test_the_oracle_is_the_frozen_models_best_f1_also_where_another_variant_uses_it(
    result: Experiment, data: Dataset
) -> None:
    frozen = fitted_alone(data, detrend=False, adapt=False).run(data.test)
    best = best_f1(data.labels, frozen.scores)
    assert run_of(result, "frozen", "Q*").report.f1 == best.value
    for row in ("frozen", "DT", "TTA"):
        assert run_of(result, row, "Q*").tau == best.threshold
    alone = fitted_alone(data, detrend=False, adapt=True, threshold=Fixed(best.threshold))
    scores = alone.run(data.test).scores
    assert run_of(result, "TTA", "Q*").report.auroc == auroc(data.labels, scores)


def test_only_adapting_variants_learn_and_oracle_runs_are_marked(result: Experiment) -> None:
    learning = {trial.variant for trial, run in result.outcomes.items() if run.learned}
    assert learning == {"TTA", "DT+TTA"}
    lines = list(csv.DictReader(result.csv().splitlines()))
    assert {line["rule"] for line in lines if line["oracle"] == "True"} == {"Q*"}
    assert "Q*" not in {line["rule"] for line in lines if line["oracle"] == "False"}


@pytest.mark.parametrize("row", VARIANTS, ids=lambda row: row.name)
def test_scores_depend_on_the_threshold_only_where_the_variant_adapts(
    row: Variant, data: Dataset, trial: Trial
) -> None:
    fitted = TrialFit.on(data.train, trial)
    low, high = (
        fitted.as_variant(row, tau, decay=0.4, lr=0.1).run(data.test).scores for tau in (0.5, 50.0)
    )
    assert np.array_equal(low, high) != row.adapt


def test_variants_leave_each_other_and_the_fitted_detector_alone(
    data: Dataset, trial: Trial
) -> None:
    fitted = TrialFit.on(data.train, trial)
    before, after = (
        [fitted.as_variant(row, 0.5, decay=0.4, lr=0.1).run(data.test).scores for row in VARIANTS]
        for _ in range(2)
    )
    np.testing.assert_array_equal(before, after)
    assert fitted.detector.counters["seen"] == 0


def test_comparisons_are_over_seeds_with_the_population_deviation(result: Experiment) -> None:
    (compared,) = [
        c for c in result.comparisons() if (c.variant, c.measure) == ("DT+TTA", "adjusted_f1")
    ]
    values = [run_of(result, "DT+TTA", "Q99", seed).report.adjusted_f1 for seed in SEEDS]
    assert compared.ours.mean == pytest.approx(np.mean(values))
    assert compared.ours.std == pytest.approx(np.std(values))
    assert compared.paper == Figure(0.874, 0.006)
    assert compared.rule == Rule(99.0)


def test_the_papers_one_auroc_is_compared_under_the_threshold_for_f1(result: Experiment) -> None:
    found = {
        str(c.rule): c.paper
        for c in result.comparisons()
        if (c.variant, c.measure) == ("DT+TTA", "auroc")
    }
    assert found == {"Q97": Figure(0.845, 0.002), "Q99": None}


@pytest.mark.parametrize(
    ("ours", "paper", "agrees"),
    [
        (Figure(0.50, 0.03), Figure(0.59, 0.04), True),
        (Figure(0.50, 0.03), Figure(0.61, 0.04), False),
        (Figure(0.5000, 0.0), Figure(0.5009, 0.0), True),  # rounding of the last digit printed
        (Figure(0.500, 0.0), Figure(0.502, 0.0), False),
        (Figure(0.5, None), Figure(0.9, 0.0), None),
        (Figure(0.5, 0.1), Figure(0.9, None), None),
        (Figure(0.5, 0.1), None, None),
    ],
)
def test_figures_agree_within_twice_both_deviations(
    ours: Figure, paper: Figure | None, agrees: bool | None
) -> None:
    compared = Comparison(
        dataset="SMD/1-4",
        model="MLP",
        variant="DT",
        measure="f1",
        rule=Rule(99.0),
        seeds=5,
        tau=Figure(1.0, 0.0),
        ours=ours,
        paper=paper,
    )
    assert compared.agrees is agrees


def test_the_csv_has_a_line_a_run_and_a_line_for_each_absent_data_set(result: Experiment) -> None:
    lines = list(csv.DictReader(result.csv().splitlines()))
    assert [line["status"] for line in lines] == ["ok"] * len(result.outcomes) + ["absent"] * 8
    for line in lines[: len(result.outcomes)]:
        run = run_of(result, line["variant"], line["rule"], int(line["seed"]))
        assert float(line["tau"]) == pytest.approx(run.tau, rel=1e-5)
        assert float(line["auroc"]) == pytest.approx(run.report.auroc, rel=1e-5)
        assert int(line["tp"]) + int(line["fp"]) + int(line["fn"]) + int(line["tn"]) == 300
    swat = next(line for line in lines if line["dataset"] == "SWaT")
    assert "itrust.sutd.edu.sg" in swat["note"]
    assert swat["auroc"] == ""


def test_the_page_shows_ours_the_papers_and_the_difference_in_rectangular_tables(
    result: Experiment,
) -> None:
    page = result.markdown()
    (compared,) = [
        c
        for c in result.comparisons()
        if (c.variant, c.measure, str(c.rule)) == ("DT+TTA", "auroc", "Q97")
    ]
    assert compared.difference is not None
    start = "| SMD/1-4 | MLP | DT+TTA | 2 | Q97 |"
    line = next(line for line in page.splitlines() if line.startswith(start))
    cells = [cell.strip() for cell in line.split("|")]
    assert cells[7:9] == [str(compared.ours), "0.845 ± 0.002"]
    assert cells[9].strip("*") == f"{compared.difference:+.3f}"
    assert "`newnormal reproduce ablation --data DIR --seeds 3,4`" in page
    assert "| Yahoo/A1-R20 | get Yahoo Webscope S5" in page
    check_tables(result.markdown(), least=4)


def test_oracle_thresholds_have_a_table_of_their_own(result: Experiment) -> None:
    page = result.markdown()
    honest = page[page.index("thresholds from history") : page.index("## The decision: oracle")]
    oracle = page[page.index("## The decision: oracle") : page.index("## Where ours differs")]
    assert "| SMD/1-4 | MLP | DT | 2 | F1 | Q98 |" in honest
    assert "(oracle)" not in honest
    rows = [line for line in oracle.splitlines() if line.startswith("| SMD")]
    assert rows
    assert all("| Q\\* (oracle) |" in line for line in rows)


def test_nothing_is_measured_twice_differently(root: Path, result: Experiment) -> None:
    again = ablation([root], datasets=["smd/1-4"], seeds=SEEDS[:1], variants=["DT+TTA", "frozen"])
    assert len(again.outcomes) == 3
    for trial, outcome in again.outcomes.items():
        assert outcome.report.as_dict() == result.outcomes[trial].report.as_dict()
        assert outcome.tau == result.outcomes[trial].tau
    assert again.not_run == {}
    assert again.command == (
        "newnormal reproduce ablation --data DIR --datasets smd/1-4 --variants DT+TTA,frozen "
        "--seeds 3"
    )


def test_the_first_folder_that_has_a_data_set_gives_it(root: Path, tmp_path: Path) -> None:
    write_smd(tmp_path, "1-4", seed=9)
    write_smd(tmp_path, "2-1", seed=5)
    both = ablation([root, tmp_path], seeds=SEEDS[:1], variants=["frozen"])
    alone = ablation(root, seeds=SEEDS[:1], variants=["frozen"])
    assert {trial.dataset for trial in both.outcomes} == {"SMD/1-4", "SMD/2-1"}
    for trial, outcome in alone.outcomes.items():
        assert both.outcomes[trial].report.as_dict() == outcome.report.as_dict()


def test_a_univariate_data_set_with_overlapping_training_windows_runs_too(tmp_path: Path) -> None:
    folder = tmp_path / "Yahoo" / "A1Benchmark"
    folder.mkdir(parents=True)
    values = np.sin(np.arange(600) / 5)
    values[500] += 9
    (folder / "real_55.csv").write_text(
        "timestamp,value,is_anomaly\n"
        + "".join(f"{at},{value:.6g},{int(at == 500)}\n" for at, value in enumerate(values))
    )
    result = ablation(tmp_path, seeds=[1])
    assert result.failures == {}
    assert [(trial.variant, str(trial.rule)) for trial in result.outcomes] == [
        ("frozen", "Q*"),
        ("DT", "Q94"),
        ("TTA", "Q*"),
        ("DT+TTA", "Q95"),
    ]
    assert {trial.dataset for trial in result.outcomes} == {"Yahoo/A1-R55"}
    assert all(run.report.auroc == 1 for run in result.outcomes.values())


def test_a_data_set_that_cannot_be_read_is_a_row_that_says_so(tmp_path: Path) -> None:
    write_smd(tmp_path, "1-4", seed=0)
    write_smd(tmp_path, "2-1", seed=0)
    (tmp_path / "SMD" / "test_label" / "machine-2-1.txt").write_text("1\n0\n")
    result = ablation(tmp_path, seeds=SEEDS[:1], variants=["frozen"])
    assert {trial.dataset for trial in result.outcomes} == {"SMD/1-4"}
    assert result.not_run["SMD/2-1"].startswith(
        "failed: DatasetError: SMD/2-1: expected a label for each of 300"
    )
    assert "| SMD/2-1 | failed: DatasetError:" in result.markdown()


def test_a_run_that_fails_is_a_row_that_says_so(root: Path) -> None:
    runner = Runner(root, overrides={"mlp": {"window": 1000}})
    result = ablation(runner, seeds=SEEDS, variants=["frozen"])
    assert result.outcomes == {}
    assert len(result.failures) == 2
    assert "| SMD/1-4, MLP frozen, seeds 3, 4 | failed: InputError:" in result.markdown()
    lines = [
        line for line in csv.DictReader(result.csv().splitlines()) if line["status"] == "failed"
    ]
    assert [(line["dataset"], line["seed"], line["auroc"]) for line in lines] == [
        ("SMD/1-4", "3", ""),
        ("SMD/1-4", "4", ""),
    ]
    assert lines[0]["note"].startswith("InputError:")


def test_without_any_data_set_there_are_only_rows_that_say_where_to_get_them(
    tmp_path: Path,
) -> None:
    result = ablation(tmp_path)
    assert result.outcomes == {}
    assert len(result.not_run) == 9
    assert "## The score" not in result.markdown()


def test_page_and_csv_are_written_where_asked(result: Experiment, tmp_path: Path) -> None:
    paths = result.write(tmp_path / "new" / "folder")
    assert [path.name for path in paths] == ["ablation.md", "ablation-detail.md", "ablation.csv"]
    assert paths[0].read_text(encoding="utf-8") == result.markdown()
    assert paths[2].read_text(encoding="utf-8") == result.csv()


def test_progress_counts_every_trial(root: Path) -> None:
    calls: list[tuple[int, int, str]] = []
    ablation(root, seeds=SEEDS, variants=["DT"], progress=lambda *call: calls.append(call))
    assert calls == [
        (0, 4, "starting"),
        (2, 4, "SMD/1-4, mlp, seed 3"),
        (4, 4, "SMD/1-4, mlp, seed 4"),
    ]


def test_a_folder_that_is_not_there_an_unknown_variant_and_no_seeds_are_errors(
    tmp_path: Path, root: Path
) -> None:
    with pytest.raises(DatasetError, match="expected a folder with data sets, found no folder"):
        ablation(tmp_path / "nowhere")
    assert str(raised(ParameterError, lambda: ablation(root, variants=["both"]))) == (
        "variants: expected variants of the ablation, found 'both'\n"
        "hint: they are frozen, DT, TTA, DT+TTA"
    )
    with pytest.raises(ParameterError, match="seeds: expected at least one, found none"):
        ablation(root, seeds=())


def test_two_processes_give_the_same_results_in_the_same_order() -> None:
    tasks = [4.0, 1.0, -1.0, 9.0]
    one, two = sweep(math.sqrt, tasks), sweep(math.sqrt, tasks, processes=2)
    assert one == two
    assert one[0] == 2.0
    assert isinstance(one[2], Failure)
