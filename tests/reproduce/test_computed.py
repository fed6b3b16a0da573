"""A sweep looked at half-way: what has been computed is shown, with how many seeds it rests on."""

import csv
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from newnormal_reproduce.engine.experiment import Experiment
from newnormal_reproduce.engine.runner import Runner
from newnormal_reproduce.ours.peers import peers
from newnormal_reproduce.paper.ablation import ablation
from newnormal_reproduce.paper.all_models import all_models
from newnormal_reproduce.paper.curves import curves
from newnormal_reproduce.paper.main import main
from newnormal_reproduce.paper.traces import traces
from newnormal_reproduce.report.pages import over_seeds
from newnormal_reproduce.report.site import build
from tests.reproduce.test_ablation import write_smd

FAST = {"mlp": {"epochs": 1}}
SEEDS = (1, 2, 3)
ASKED: dict[str, Any] = {"datasets": ["SMD/1-4", "SMD/2-1", "SWaT"], "seeds": SEEDS}


class Sweep:
    """Data of two streams, and a cache that a sweep over them has begun to fill."""

    def __init__(self, folder: Path) -> None:
        self.data, self.cache, self.rows = folder / "data", folder / "cache", folder / "rows.toml"
        write_smd(self.data, "1-4", seed=0)
        write_smd(self.data, "2-1", seed=1)
        self.rows.write_text('[[row]]\nmodel = "mlp"\nname = "Other"\nbatch = 4\n')

    def runner(self, *, compute: bool) -> Runner:
        return Runner(self.data, cache=self.cache, overrides=FAST, compute=compute)


@pytest.fixture
def sweep(tmp_path: Path) -> Sweep:
    return Sweep(tmp_path)


def rows(page: str, start: str) -> list[list[str]]:
    return [
        [cell.strip() for cell in line.split("|")[1:-1]]
        for line in page.splitlines()
        if line.startswith(start)
    ]


def statuses(result: Experiment) -> list[tuple[str, str]]:
    lines = csv.DictReader(result.csv().splitlines())
    return [(line["status"], line["dataset"]) for line in lines]


def test_a_runner_that_does_not_compute_returns_what_is_kept_and_calls_nothing_a_failure(
    sweep: Sweep,
) -> None:
    done = ablation(
        sweep.runner(compute=True), datasets=["SMD/1-4"], seeds=[2], variants=["frozen"]
    )
    runner = sweep.runner(compute=False)
    result = ablation(runner, **ASKED)
    assert runner.computed == 0
    assert result.outcomes.keys() == done.outcomes.keys()
    assert result.failures == {}
    assert [(line.variant.name, len(trials)) for line, trials in result.lines] == [("frozen", 1)]
    assert statuses(result) == [("ok", "SMD/1-4"), ("absent", "SWaT"), ("absent", "SMD/2-1")]


def test_a_data_set_with_nothing_computed_is_said_to_be_so(sweep: Sweep) -> None:
    page = ablation(sweep.runner(compute=False), **ASKED).markdown()
    assert "| SMD/2-1 | not computed |" in page
    assert "| SWaT | get Secure Water Treatment" in page
    assert "failed" not in page
    assert "## The score" not in page
    assert "--computed`" in page


def test_every_line_says_how_many_seeds_it_rests_on(sweep: Sweep) -> None:
    full = sweep.runner(compute=True)
    main(full, datasets=["SMD/1-4"], models=["mlp"], seeds=SEEDS)
    main(full, datasets=["SMD/1-4"], models=[], extra=sweep.rows, seeds=[3])
    result = main(sweep.runner(compute=False), models=["mlp"], extra=sweep.rows, **ASKED)
    page = result.markdown()
    assert "over the seeds named in its line (1 to 3 of 1, 2, 3)" in page
    heads = rows(page, "| data set |")
    assert all("seeds" in head for head in heads)
    for head, line in zip(heads[:3], ("| SMD/1-4 | MLP |", "| SMD/1-4 | Other |"), strict=False):
        at = head.index("seeds")
        assert {row[at] for row in rows(page, line) if len(row) == len(head)} == (
            {"3"} if "MLP" in line else {"1"}
        )
    settings = [row for row in rows(page, "| SMD/1-4 |") if len(row) == len(heads[-1])]
    assert [(row[1], row[-1]) for row in settings] == [("MLP", "1 to 3"), ("Other", "3")]
    assert {c.seeds for c in result.comparisons() if c.model == "Other"} == {1}
    detail = result.pages["main-detail.md"](result)
    assert {(row[1], row[5]) for row in rows(detail, "| SMD/1-4 |") if row[4] == "ours"} == {
        ("MLP", "1"),
        ("Other", "3"),
    }


def test_with_the_same_seeds_everywhere_they_are_named_once(sweep: Sweep) -> None:
    result = ablation(
        sweep.runner(compute=True), datasets=["SMD/1-4"], seeds=[1, 2], variants=["DT"]
    )
    assert over_seeds(result) == "seeds 1, 2"


def test_all_models_compares_variants_over_seeds_all_have_and_counts_each_data_set_once(
    sweep: Sweep,
) -> None:
    full = sweep.runner(compute=True)
    all_models(full, datasets=["SMD/1-4"], models=["mlp"], seeds=[1, 2, 3])
    all_models(full, datasets=["SMD/2-1"], models=["mlp"], seeds=[1])
    other: dict[str, Any] = {"models": [], "extra": sweep.rows}
    all_models(full, datasets=["SMD/1-4"], seeds=[2], **other)
    all_models(full, datasets=["SMD/1-4"], seeds=[3], variants=["frozen"], **other)
    all_models(full, datasets=["SMD/2-1"], seeds=[1, 3], **other)
    result = all_models(sweep.runner(compute=False), models=["mlp"], extra=sweep.rows, **ASKED)
    page = result.markdown()
    assert {row[1]: row[2] for row in rows(page, "| SMD/1-4 |") if len(row) == 8} == {
        "MLP": "3",
        "Other": "1",  # seed 3 has one row of four
    }

    def mean(dataset: str, row: str, seeds: list[int]) -> float:
        return fmean(
            outcome.report.auroc
            for trial, outcome in result.outcomes.items()
            if (trial.dataset, trial.variant, trial.options.batch) == (dataset, row, 4)
            and trial.seed in seeds
        )

    frozen, both = (
        fmean([mean("SMD/1-4", row, [2]), mean("SMD/2-1", row, [1, 3])])
        for row in ("frozen", "DT+TTA")
    )
    (found,) = rows(page, "| Other | AUROC |")
    assert found[2:5] == ["2", "1 to 2", f"{frozen:.3f}"]
    assert found[-2:] == [f"{both:.3f}", f"{both - frozen:+.3f}"]
    raised = int(both > frozen)
    assert f"raises the mean AUROC of {raised}\nof the 1 other models than the MLP" in page
    assert "## Over all streams" not in page


def test_all_models_has_the_papers_data_sets_first_and_all_streams_after(sweep: Sweep) -> None:
    write_smd(sweep.data, "3-7", seed=2)  # a machine the paper does not have
    result = all_models(sweep.runner(compute=True), datasets=["SMD"], models=["mlp"], seeds=[1])
    page = result.markdown()
    papers, everything = page.split("## Over all streams")
    assert "## Over the paper's data sets" in papers
    (first,), (second,) = (rows(part, "| MLP | AUROC |") for part in (papers, everything))
    assert (first[2], second[2]) == ("2", "3")


def test_all_models_with_fewer_variants_has_means_of_those(sweep: Sweep) -> None:
    runner = sweep.runner(compute=True)
    asked: dict[str, Any] = {"datasets": ["SMD/1-4"], "models": ["mlp"], "seeds": [1]}
    page = all_models(runner, variants=["frozen", "DT"], **asked).markdown()
    (found,) = rows(page, "| MLP | AUROC |")
    assert found[6:] == ["-", "-", ""]
    assert "all-models-gain" not in page
    assert "raises the mean" not in page


def test_peers_say_below_the_table_how_many_seeds_a_column_rests_on(sweep: Sweep) -> None:
    full = sweep.runner(compute=True)
    peers(full, datasets=["SMD/1-4"], models=["mlp"], seeds=[1, 2])
    peers(full, datasets=["SMD/2-1"], models=["mlp"], seeds=[1])
    peers(full, datasets=["SMD/1-4"], models=[], extra=sweep.rows, seeds=[3])
    page = peers(sweep.runner(compute=False), models=["mlp"], extra=sweep.rows, **ASKED).markdown()
    assert page.count("Seeds: MLP 1 to 2, MLP + DT+TTA 1 to 2, Other 1, Other + DT+TTA 1.\n") == 2
    assert "the seeds named in the line below its table (1 to 2 of 1, 2, 3)" in page


def test_curves_say_of_how_many_seeds_the_median_was_taken(sweep: Sweep, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="needs the extra plot")
    main(sweep.runner(compute=True), datasets=["SMD/1-4"], models=["mlp"], seeds=[1, 2])
    runner = sweep.runner(compute=False)
    curves(runner, models=["mlp"], **ASKED).write(tmp_path / "out")
    assert runner.computed == 0
    lines = list(csv.DictReader((tmp_path / "out" / "curves.csv").read_text().splitlines()))
    assert {(line["curves"], line["name"], line["seeds"]) for line in lines} == {
        ("baselines", "MLP", "2"),
        ("baselines", "MLP + DT+TTA", "2"),
        ("variants", "MLP", "2"),
        ("variants", "MLP + DT+TTA", "2"),
    }
    page = (tmp_path / "out" / "curves.md").read_text(encoding="utf-8")
    assert "--computed`" in page
    assert "| SMD/2-1 | not computed |" in page


def test_traces_show_another_seed_where_that_is_all_there_is(sweep: Sweep, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="needs the extra plot")
    done = main(sweep.runner(compute=True), datasets=["SMD/1-4"], models=["mlp"], seeds=[2])
    runner = sweep.runner(compute=False)
    drawn = traces(runner, models=["mlp"], **ASKED).write(tmp_path / "out")
    assert runner.computed == 0
    names = {path.name for path in drawn}
    assert {"traces-scores-smd-1-4.svg", "traces-expected-smd-1-4.svg"} <= names
    assert "MLP, seed 2" in (tmp_path / "out" / "traces-scores-smd-1-4.svg").read_text("utf-8")
    for fit in (sweep.cache / "fits").iterdir():
        fit.unlink()
    assert not any(runner.has_fit(outcome) for outcome in done.outcomes.values())
    again = traces(runner, models=["mlp"], **ASKED).write(tmp_path / "again")
    assert "traces-expected-smd-1-4.svg" not in {path.name for path in again}
    assert not list((sweep.cache / "fits").iterdir())


def test_the_overview_says_from_how_many_to_how_many_seeds(tmp_path: Path) -> None:
    (tmp_path / "main.md").write_text(
        "over the seeds named in its line (1 to 5 of 2021, 2022); and\n"
    )
    assert "run: 1 to 5 seeds<" in build(tmp_path).read_text(encoding="utf-8")
