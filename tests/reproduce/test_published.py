"""The paper's numbers as data: typed again from the paper, and held to their own arithmetic."""

import csv
from dataclasses import asdict
from importlib.resources import files

import pytest

from newnormal.datasets import catalogue
from newnormal.errors import ParameterError
from newnormal_reproduce.engine import published
from newnormal_reproduce.engine.comparison import paper_figure
from tests.errors import raised

NINE = [
    *("SWaT", "WADI", "SMD/1-4", "SMD/2-1", "MSL/P-15", "SMAP/T-3", "CreditCard", "Yahoo/A1-R20"),
    "Yahoo/A1-R55",
]


def lines(name: str) -> list[dict[str, str]]:
    text = files("newnormal_reproduce.engine").joinpath("data", name).read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("SWaT", (12, 12, 128, 0.99999, 0.005, 10, 64)),
        ("WADI", (12, 12, 128, 0.99, 0.001, 10, 64)),
        ("SMD/1-4", (5, 5, 16, 0.4, 0.1, 10, 8)),
        ("SMD/2-1", (5, 5, 16, 0.99, 0.05, 10, 8)),
        ("MSL/P-15", (5, 5, 16, 0.6, 0.1, 10, 8)),
        ("SMAP/T-3", (5, 5, 16, 0.8, 1.0, 10, 8)),
        ("CreditCard", (12, 12, 128, 0.999, 0.01, 10, 64)),
        ("Yahoo/A1-R20", (5, 1, 2, 0.9, 0.005, 30, 8)),
        ("Yahoo/A1-R55", (5, 1, 2, 0.1, 0.005, 30, 8)),
    ],
)
def test_hyperparameters_are_the_papers(name: str, expected: tuple[float, ...]) -> None:
    (setting,) = published.settings([name])
    options = asdict(setting.options)
    assert options.pop("stride") == setting.options.window
    assert tuple(options.values()) == expected


@pytest.mark.parametrize(
    ("name", "row", "f1", "adjusted_f1"),
    [
        ("SWaT", "DT+TTA", "Q99.56", "Q99.3"),
        ("WADI", "TTA", "Q92", "Q99.5"),
        ("SMD/1-4", "DT+TTA", "Q97", "Q99"),
        ("SMD/2-1", "DT+TTA", "Q99.76", "Q99.76"),
        ("MSL/P-15", "TTA", "Q93", "Q100"),
        ("SMAP/T-3", "DT+TTA", "Q96", "Q96"),
        ("SMAP/T-3", "frozen", "Q*", "Q100"),
        ("CreditCard", "DT", "Q99.93", "Q99.93"),
        ("Yahoo/A1-R20", "DT", "Q88", "Q90"),
        ("Yahoo/A1-R55", "DT+TTA", "Q95", "Q95"),
    ],
)
def test_threshold_rules_are_the_papers(name: str, row: str, f1: str, adjusted_f1: str) -> None:
    (setting,) = published.settings([name])
    rules = setting.thresholds[row]
    assert (str(rules.f1), str(rules.adjusted_f1)) == (f1, adjusted_f1)


def test_every_data_set_has_a_loader_and_rules_of_which_equal_ones_serve_both_measures() -> None:
    owners = {entry.name for entry in catalogue()}
    assert [setting.name for setting in published.settings()] == NINE
    for setting in published.settings():
        assert list(setting.thresholds) == ["frozen", "DT", "TTA", "DT+TTA"]
        assert setting.name.partition("/")[0] in owners
    same, other = published.Rule(99.0), published.Rule(None)
    assert published.Rules(same, same).distinct() == {same: ("f1", "adjusted_f1")}
    assert list(published.Rules(other, same).distinct().items()) == [
        (other, ("f1",)),
        (same, ("adjusted_f1",)),
    ]


@pytest.mark.parametrize(
    ("table", "dataset", "model", "row", "measure", "mean", "std"),
    [
        ("main", "SWaT", "MLP", "frozen", "adjusted_f1", 0.831, 0.004),
        ("main", "WADI", "USAD", "frozen", "auprc", 0.205, 0.003),
        ("main", "SMD/1-4", "MLP", "frozen", "f1", 0.273, 0.011),
        ("main", "SMD/1-4", "MLP", "DT+TTA", "auprc", 0.354, 0.005),
        ("main", "SMD/2-1", "LSTM", "frozen", "auroc", 0.727, 0.007),
        ("main", "MSL/P-15", "AT", "frozen", "adjusted_f1", 0.437, 0.357),
        ("main", "SMAP/T-3", "THOC", "frozen", "auroc", 0.591, 0.062),
        ("main", "CreditCard", "MLP", "DT+TTA", "auroc", 0.943, 0.002),
        ("main", "Yahoo/A1-R20", "MLP", "DT+TTA", "f1", 0.678, 0.170),
        ("main", "Yahoo/A1-R55", "MLP", "DT+TTA", "auprc", 0.624, 0.004),
        ("ablation", "SWaT", "MLP", "frozen", "adjusted_f1", 0.834, 0.003),
        ("ablation", "SWaT", "MLP", "TTA", "auroc", 0.888, 0.003),
        ("ablation", "SMD/2-1", "MLP", "DT", "adjusted_f1", 0.855, 0.018),
        ("ablation", "SMD/2-1", "MLP", "DT+TTA", "f1", 0.249, 0.137),
        ("ablation", "MSL/P-15", "MLP", "TTA", "auprc", 0.060, 0.026),
    ],
)
def test_printed_figures_are_the_papers(
    table: str, dataset: str, model: str, row: str, measure: str, mean: float, std: float
) -> None:
    assert published.printed(table, dataset, row, measure, model) == published.Figure(mean, std)


def test_both_result_tables_and_the_appendix_are_whole_and_hold_nothing_else() -> None:
    cells = [(line["table"], line["dataset"]) for line in lines("printed.csv")]
    full = [("main", name) for name in NINE for _ in range(6)]
    assert cells == full + [
        ("ablation", name) for name in ("SWaT", "SMD/2-1", "MSL/P-15") for _ in range(4)
    ]
    for line in lines("printed.csv"):
        assert all(0 <= float(line[measure]) <= 1 for measure in published.MEASURES)
        assert all(0 <= float(line[f"{measure}_std"]) <= 0.5 for measure in published.MEASURES)
    keys = {(line["model"], line["row"], line["dataset"]) for line in lines("detail.csv")}
    models = {(model, row) for model, row, _ in keys}
    assert len(models) == 8
    assert keys == {(*model, name) for model in models for name in NINE}
    assert len(lines("detail.csv")) == 2 * len(keys)


def test_the_two_tables_agree_where_both_print_a_variant_but_for_one_known_cell() -> None:
    apart = [
        (line["dataset"], line["row"], measure)
        for line in lines("printed.csv")
        if line["table"] == "ablation" and line["row"] in ("frozen", "DT+TTA")
        for measure in published.MEASURES
        if published.printed("main", line["dataset"], line["row"], measure)
        != published.printed("ablation", line["dataset"], line["row"], measure)
    ]
    assert apart == [("SWaT", "frozen", "adjusted_f1")]


@pytest.mark.parametrize("prefix", ["", "adjusted_"])
def test_every_line_of_the_appendix_obeys_its_own_arithmetic(prefix: str) -> None:
    for line in lines("detail.csv"):
        tn, fp, fn, tp = (int(line[prefix + name]) for name in ("tn", "fp", "fn", "tp"))
        ratios = {
            "accuracy": (tp + tn) / (tp + tn + fp + fn),
            "precision": tp / (tp + fp),
            "recall": tp / (tp + fn),
            "f1": 2 * tp / (2 * tp + fp + fn),
        }
        for name, ratio in ratios.items():
            assert float(line[prefix + name]) == pytest.approx(ratio, abs=0.00051), line


@pytest.mark.parametrize(
    ("dataset", "row", "measure", "expected"),
    [
        ("MSL/P-15", "DT+TTA", "f1", ("Q99.9", "28.991", "0.809", "2835", "1", "10", "10")),
        ("SMAP/T-3", "DT+TTA", "f1", ("Q96", "0.078", "0.605", "8175", "222", "142", "40")),
        ("SMD/2-1", "DT+TTA", "f1", ("Q99.76", "1.473", "0.703", "22102", "422", "951", "219")),
        ("SMD/1-4", "DT", "f1", ("Q98", "0.248", "0.838", "22503", "484", "372", "348")),
        ("CreditCard", "TTA", "f1", ("Q99.93", "20.458", "0.947", "141973", "208", "187", "36")),
    ],
)
def test_lines_of_the_appendix_are_the_papers(
    dataset: str, row: str, measure: str, expected: tuple[str, ...]
) -> None:
    line = published.detail(dataset, row, measure)
    assert line is not None
    names = ("threshold", "tau", "auroc", "tn", "fp", "fn", "tp")
    assert tuple(line[name] for name in names) == expected


def test_the_papers_figure_is_of_five_seeds_or_the_appendixs_one_run_of_that_threshold() -> None:
    assert paper_figure("SMD/2-1", "TTA", "auroc") == published.Figure(0.689, 0.007)
    assert paper_figure("SMD/1-4", "DT+TTA", "auroc") == published.Figure(0.845, 0.002)
    assert paper_figure("SMD/1-4", "DT", "f1") == published.Figure(0.448, None)
    assert paper_figure("SMD/1-4", "DT", "adjusted_f1") == published.Figure(0.881, None)
    assert paper_figure("SMD/1-4", "DT", "auprc") is None


def test_data_sets_are_found_in_any_case_in_the_papers_order_and_others_are_named() -> None:
    assert [s.name for s in published.settings(["smap/t-3", "SWAT"])] == ["SWaT", "SMAP/T-3"]
    assert str(raised(ParameterError, lambda: published.settings(["SMD/1-4", "NAB/x"]))) == (
        "datasets: expected data sets of the paper, found 'NAB/x'\n"
        f"hint: they are {', '.join(NINE)}"
    )
