"""The operator's table of `newnormal reproduce drift`, and the halves of SKAB, NAB and UCR."""

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from newnormal.metrics import AlarmCounts
from newnormal_reproduce.engine.published import DEFAULT, SEEDS, Figure
from newnormal_reproduce.engine.runner import Runner
from newnormal_reproduce.ours import drift_operator
from newnormal_reproduce.ours.drift import Drift, drift
from newnormal_reproduce.ours.drift_alarms import Run
from newnormal_reproduce.ours.drift_figures import OURS, PLAIN, mark_found
from newnormal_reproduce.ours.drift_operator import Operator

FAST = {"mlp": {"epochs": 1}, "default": {"epochs": 1}}


class Rows:
    """A stand-in for figures: two rows, and streams grouped by their data set."""

    names = (PLAIN, OURS)

    def groups(self, streams: Any) -> dict[str, list[str]]:
        groups: dict[str, list[str]] = {}
        for name in dict.fromkeys(streams):
            groups.setdefault(name.partition("/")[0], []).append(name)
        return groups


def counts(events: int, found: int, false: int, days: float = 1.0) -> AlarmCounts:
    return AlarmCounts(
        events=events,
        openings=found + false,
        true=found,
        normal=100,
        days=days,
        in_alarm=10,
        pending=20,
        delays=(4,) * found,
    )


def table(found: dict[Run, AlarmCounts]) -> Operator:
    rows: Any = Rows()
    return Operator(rows, found)


def test_streams_of_a_collection_are_pooled_seed_by_seed() -> None:
    operator = table(
        {
            Run("SMD/1-4", OURS, 1): counts(10, 5, 2),
            Run("SMD/2-1", OURS, 1): counts(2, 2, 1, days=3.0),
            Run("SMD/1-4", OURS, 2): counts(10, 1, 0),
            Run("SMD/2-1", OURS, 2): counts(2, 2, 0, days=3.0),
        }
    )
    over = operator.by_collection()["SMD"][OURS]
    assert (over.streams, over.events) == (2, 12)
    assert over.figures["found"] == Figure.of([7 / 12, 3 / 12])
    assert over.figures["true"] == Figure.of([7 / 10, 1.0])
    assert over.figures["false a day"] == Figure.of([3 / 4, 0.0])
    assert over.figures["in alarm"] == Figure.of([0.1, 0.1])
    assert over.figures["change pending"] == Figure.of([0.2, 0.2])
    assert over.figures["median delay"] == Figure.of([4.0, 4.0])


def test_rows_are_compared_on_the_streams_and_seeds_that_they_have() -> None:
    operator = table(
        {
            Run("SMD/1-4", OURS, 1): counts(10, 5, 2),
            Run("SMD/2-1", OURS, 1): counts(2, 2, 1),
            Run("SMD/1-4", PLAIN, 1): counts(10, 1, 2),
            Run("SMD/1-4", PLAIN, 2): counts(10, 3, 2),
        }
    )
    rows = operator.by_collection()["SMD"]
    assert rows[OURS].figures["found"] == Figure.of([0.5])
    assert rows[PLAIN].figures["found"] == Figure.of([0.1, 0.3])


def test_the_mean_gives_every_collection_the_same_weight_and_leaves_others_out() -> None:
    operator = table(
        {
            Run("SMD/1-4", OURS, 1): counts(10, 5, 2),
            Run("SMD/2-1", OURS, 1): counts(10, 5, 2),
            Run("ASD/omi-1", OURS, 1): counts(1, 1, 0),
            Run("NAB/a", OURS, 1): counts(1, 0, 9),
        }
    )
    mean = operator.mean()[OURS]
    assert (mean.streams, mean.events) == (3, 21)
    assert mean.figures["found"] == Figure(0.75, None)
    assert mean.figures["false a day"] == Figure(1.0, None)
    page = "\n".join(drift_operator.sections(operator))
    assert "| mean of SMD and ASD | default | 3 | 21 | 75.0% |" in page
    assert page.index("| mean of SMD and ASD |") < page.index("| NAB | default | 1 | 1 | 0.0% |")
    assert drift_operator.summary(operator) == (
        "With a limit of 1 alarm a day, mean of collections: 0.75 of events found, 1.00 false "
        "openings a day, 0.10 of normal samples in alarm, 0.20 with a change pending."
    )


def test_what_finds_nothing_has_no_delay_and_without_counts_nothing_is_said() -> None:
    operator = table({Run("SMD/1-4", OURS, 1): counts(3, 0, 1)})
    assert operator.by_collection()["SMD"][OURS].figures["median delay"] is None
    (line,) = [
        each for each in drift_operator.sections(operator)[1].splitlines() if "| SMD |" in each
    ]
    assert line.endswith("| 0.0% | 0.0% | 1.00 | 10.0% | 20.0% | - |")
    assert drift_operator.sections(table({})) == []
    assert drift_operator.summary(table({})) is None
    assert drift_operator.draw(table({}), Path("nowhere")) == []
    assert drift_operator.summary(table({Run("SMD/1-4", PLAIN, 1): counts(3, 0, 1)})) is None


@pytest.mark.parametrize(
    ("highest", "found"), [(349, False), (350, True), (500, True), (850, True), (851, False)]
)
def test_a_mark_is_found_from_150_samples_before_it_to_350_after_it(
    highest: int, found: bool
) -> None:
    labels, scores = np.zeros(1000, dtype=np.int64), np.zeros(1000)
    labels[500] = 1
    scores[highest] = 1
    scores[10] = np.nan
    assert mark_found(scores, labels) == found


@pytest.fixture(scope="module")
def halved(tmp_path_factory: pytest.TempPathFactory) -> Drift:
    root = tmp_path_factory.mktemp("data")
    (root / "UCR").mkdir()
    for number in range(3):
        rng = np.random.default_rng(number)
        values = np.sin(np.arange(1200) / 9) + rng.normal(0, 0.1, 1200)
        values[900:910] += 4
        marked = (np.arange(1200) == 900).astype(int)
        path = root / "UCR" / f"{number:03}_Wave.csv"
        np.savetxt(
            path,
            np.column_stack([values, marked]),
            fmt=["%.6g", "%d"],
            delimiter=",",
            header="value,anomaly",
            comments="",
        )
    return drift(Runner(root, overrides=FAST), datasets=["UCR"], models=["mlp", DEFAULT])


def test_seeds_are_2021_to_2023_unless_told(halved: Drift) -> None:
    assert halved.experiment.seeds == [2021, 2022, 2023]
    assert SEEDS[:3] == (2021, 2022, 2023)
    assert "--seeds 2021,2022,2023" in halved.experiment.command


def test_halves_stand_apart_and_ucr_counts_series(halved: Drift) -> None:
    groups = halved.figures.groups(["UCR/001_Wave", "UCR/000_Wave", "UCR/002_Wave"])
    assert list(groups.items()) == [
        ("UCR, choosing", ["UCR/000_Wave", "UCR/002_Wave"]),
        ("UCR, reporting", ["UCR/001_Wave"]),
    ]
    assert halved.figures.values("auprc") == {}
    found = halved.figures.means(halved.figures.mark)
    assert {name: count for name, (count, _) in found.items()} == {
        "UCR, choosing": 2,
        "UCR, reporting": 1,
    }
    assert found["UCR, reporting"][1][PLAIN].mean == 1.0
    page = halved.markdown()
    assert "| UCR, choosing: found | 2 | **1.000" in page
    assert "Of UCR's series it finds" in page
    assert "| UCR, reporting | frozen MLP | 1 | 1 |" in page


def test_the_csv_names_the_half_of_each_stream(halved: Drift) -> None:
    lines = [line for line in csv.DictReader(halved.csv().splitlines()) if line["status"] == "ok"]
    halves = {(line["dataset"], line["half"]) for line in lines}
    assert halves == {
        ("UCR/000_Wave", "choosing"),
        ("UCR/001_Wave", "reporting"),
        ("UCR/002_Wave", "choosing"),
    }
    assert {line["found"] for line in lines if line["row"] == PLAIN} == {"1"}
