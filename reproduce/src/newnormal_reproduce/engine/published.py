"""The paper's settings and printed numbers, transcribed as data.

Kim et al. (2024), "When Model Meets New Normals: Test-Time Adaptation for Unsupervised Time-Series
Anomaly Detection". The folder ``data`` beside this file holds

- ``settings.toml``: hyperparameters and threshold rules for each of its nine data sets, and those
  of the other models;
- ``printed.csv``: table:Main_Exp_Full and table:Ablation_Full, means and standard deviations over
  five seeds;
- ``dataset_sizes.csv``: table:Data_Description. It prints SMD (M-1-4)'s 0.0304 with a percent sign;
- ``anoshift.csv``: table:anoshift; ``original`` marks AnoShift's own figures, which it quotes;
- ``cost.csv``: table:Appendix:CC; ``shift.csv``: the values of fig:main_kld;
- ``detail.csv``: table:Appendix:DetailExpMain and table:Appendix:DetailExpAb, one seed. In the
  row of SMD (M-2-1), DT+TTA, the AUROC stands at the end in print; here it is in its column.
"""

import csv
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from importlib.resources import files
from statistics import fmean, pstdev
from typing import Any, NamedTuple

from newnormal.errors import ParameterError

DEFAULT = "default"  # the model of trials that run `Detector()`, which chooses its own settings

SEEDS = (2021, 2022, 2023, 2024, 2025)
APPENDIX_SEED = 2023  # of its detail tables

# The paper's measures by our names, with the paper's.
MEASURES = {"f1": "F1", "adjusted_f1": "F1-PA", "auroc": "AUROC", "auprc": "AUPRC"}


class Figure(NamedTuple):
    """A mean over seeds and its population standard deviation; None for a single run.

    >>> Figure.of([0.25, 0.75])
    Figure(mean=0.5, std=0.25)
    >>> print(Figure.of([0.25, 0.75]), "|", Figure.of([0.25]))
    0.500 ± 0.250 | 0.250
    """

    mean: float
    std: float | None

    @classmethod
    def of(cls, values: Sequence[float]) -> "Figure":
        """Return the figure of at least one run."""
        return cls(fmean(values), pstdev(values) if len(values) > 1 else None)

    def __str__(self) -> str:
        return f"{self.mean:.3f}" + ("" if self.std is None else f" ± {self.std:.3f}")


@dataclass(frozen=True)
class Rule:
    """How the paper chose a threshold: a percentile of history's scores, or the oracle Q*.

    Q* is the threshold with the best F1 on the test labels and the frozen model's test scores. The
    paper uses the same value with detrending and adaptation. A rule of ours that needs no history
    has its own, `fixed`.

    >>> Rule.parse("Q99.9"), Rule.parse("Q*").oracle, str(Rule.parse("=1.5"))
    (Rule(percentile=99.9, fixed=None), True, '=1.5')
    """

    percentile: float | None
    fixed: float | None = None

    @classmethod
    def parse(cls, text: str) -> "Rule":
        """Return the rule written as in the paper's appendix, or as ``=`` and a threshold."""
        if text.startswith("="):
            return cls(None, float(text[1:]))
        return cls(None if text == "Q*" else float(text.removeprefix("Q")))

    @property
    def oracle(self) -> bool:
        """Whether the rule uses the test labels."""
        return self.percentile is None and self.fixed is None

    def __str__(self) -> str:
        if self.fixed is not None:
            return f"={self.fixed!r}"
        return "Q*" if self.percentile is None else f"Q{self.percentile:g}"


class Rules(NamedTuple):
    """The threshold rules of one variant's F1 and F1-PA."""

    f1: Rule
    adjusted_f1: Rule

    def distinct(self) -> dict[Rule, tuple[str, ...]]:
        """Return each rule once, with the measures it is used for; the rule for F1 comes first."""
        return {
            rule: tuple(measure for measure, used in self._asdict().items() if used == rule)
            for rule in self
        }


@dataclass(frozen=True, kw_only=True)
class TrialOptions:
    """Options of `newnormal.M2N2` for one model on one data set; 0 means the detector's default."""

    window: int
    stride: int
    fit_stride: int
    latent: int
    decay: float
    lr: float
    epochs: int
    batch: int


@dataclass(frozen=True, kw_only=True)
class PaperSetting:
    """The paper's settings for its MLP on one data set."""

    name: str  # of the data set, as in `newnormal.datasets.load`
    options: TrialOptions
    thresholds: Mapping[str, Rules]  # by variant of the ablation
    like: str  # the data set of the paper that has these settings: another one if `borrowed`

    @property
    def of_the_paper(self) -> bool:
        """Whether the paper has this data set."""
        return self.like == self.name


@cache
def _settings() -> tuple[PaperSetting, ...]:
    names = {field.name for field in fields(TrialOptions)}
    return tuple(
        PaperSetting(
            name=block["name"],
            options=TrialOptions(
                stride=block["window"], **{name: block[name] for name in names & block.keys()}
            ),
            thresholds={
                variant: Rules(*map(Rule.parse, rules))
                for variant, rules in block["thresholds"].items()
            },
            like=block["name"],
        )
        for block in _tables()["dataset"]
    )


def settings(datasets: Sequence[str] | None = None) -> tuple[PaperSetting, ...]:
    """Return the paper's settings for some of its data sets, or all nine, in its order.

    >>> [setting.options.window for setting in settings(["SMD/1-4", "creditcard"])]
    [5, 12]
    """
    if datasets is None:
        return _settings()
    wanted = {name.lower() for name in datasets}
    names = [setting.name for setting in _settings()]
    unknown = sorted(name for name in datasets if name.lower() not in map(str.lower, names))
    if unknown:
        raise ParameterError(
            f"datasets: expected data sets of the paper, found {unknown[0]!r}",
            hint=f"they are {', '.join(names)}",
        )
    return tuple(setting for setting in _settings() if setting.name.lower() in wanted)


def borrowed(name: str, channels: int) -> PaperSetting:
    """Return settings for a stream that is not in the paper, chosen by its channels alone.

    One channel: those of Yahoo (A1-R20). Several: those of SMD (M-2-1). Every threshold is Q99.

    >>> setting = borrowed("NAB/x", 1)
    >>> setting.like, setting.options.window, str(setting.thresholds["DT"].f1)
    ('Yahoo/A1-R20', 5, 'Q99')
    """
    (setting,) = settings(["Yahoo/A1-R20" if channels == 1 else "SMD/2-1"])
    rules = Rules(Rule(99.0), Rule(99.0))
    return replace(setting, name=name, thresholds=dict.fromkeys(setting.thresholds, rules))


def options(model: str, setting: PaperSetting) -> TrialOptions:
    """Return a model's options on a data set; a model that is not in the paper has the MLP's.

    γ and η are the MLP's for every model. `DEFAULT` has no options: `Detector` chooses them.

    >>> (setting,) = settings(["MSL/P-15"])
    >>> options("usad", setting)  # doctest: +NORMALIZE_WHITESPACE
    TrialOptions(window=5, stride=5, fit_stride=5, latent=33, decay=0.6, lr=0.1, epochs=30, batch=8)
    """
    if model == DEFAULT:
        return TrialOptions(**dict.fromkeys((field.name for field in fields(TrialOptions)), 0))
    if (block := _model(model)) is None:
        return setting.options
    column = [paper.name for paper in _settings()].index(setting.like)
    columns = ("window", "stride", "fit_stride", "latent", "batch")
    changed = {name: block[name][column] for name in columns}
    return replace(setting.options, epochs=block["epochs"], **changed)


def title(model: str) -> str | None:
    """Return the paper's name of a model, or None if the paper does not have it.

    >>> title("transformer"), title("mlp"), title("pyod:ECOD")
    ('AT', 'MLP', None)
    """
    if model in ("mlp", "torch-mlp"):
        return "MLP"
    block = _model(model)
    return None if block is None else str(block["title"])


def printed(table: str, dataset: str, row: str, measure: str, model: str = "MLP") -> Figure | None:
    """Return a figure of one of the paper's result tables, or None if it prints none.

    The table is ``"main"`` (table:Main_Exp_Full) or ``"ablation"`` (table:Ablation_Full), the row a
    variant such as ``"DT+TTA"``, the measure one of `MEASURES`, and the model as in `title`.

    >>> printed("main", "SMD/1-4", "DT+TTA", "auroc")
    Figure(mean=0.845, std=0.002)
    """
    line = _line("printed", table=table, dataset=dataset, model=model, row=row)
    return None if line is None else Figure(float(line[measure]), float(line[f"{measure}_std"]))


def detail(dataset: str, row: str, measure: str, model: str = "MLP") -> Mapping[str, str] | None:
    """Return the appendix's line for the threshold chosen for `measure`, as printed.

    It is a single run (seed 2023). `measure` is ``"f1"`` or ``"adjusted_f1"``.

    >>> line = detail("MSL/P-15", "DT+TTA", "f1")
    >>> line["threshold"], line["tau"], line["tp"], line["fp"]
    ('Q99.9', '28.991', '10', '1')
    """
    return _line("detail", dataset=dataset, model=model, row=row, measure=measure)


def dataset_size(dataset: str) -> Mapping[str, str] | None:
    """Return the paper's line on a data set's size: train, test, features, anomalous, printed.

    >>> line = dataset_size("SMAP/T-3")
    >>> line["train"], line["test"], line["features"], line["anomalous"]
    ('2876', '8579', '25', '0.0212')
    """
    return _line("dataset_sizes", dataset=dataset)


def anoshift_table() -> list[dict[str, str]]:
    """Return the lines of table:anoshift."""
    return _lines("anoshift")


def printed_values(table: str, key: str, value: str) -> dict[str, float] | None:
    """Return the numbers of a small table's line: of ``cost`` by model, of ``shift`` by dataset.

    >>> printed_values("shift", "dataset", "SMAP/T-3")
    {'divergence': 2.927}
    """
    line = _line(table, **{key: value})
    return None if line is None else {name: float(line[name]) for name in line if name != key}


@cache
def _tables() -> dict[str, Any]:
    return tomllib.loads(_text("settings.toml"))


def _model(name: str) -> dict[str, Any] | None:
    blocks = _tables()["model"]
    return next((block for block in blocks if name in (block["name"], *block["variants"])), None)


@cache
def _lines(table: str) -> list[dict[str, str]]:
    return list(csv.DictReader(_text(f"{table}.csv").splitlines()))


def _line(table: str, /, **where: str) -> dict[str, str] | None:
    """Return the line of a table that has these values, or None."""
    return next((line for line in _lines(table) if where.items() <= line.items()), None)


def _text(name: str) -> str:
    return files(__package__).joinpath("data", name).read_text(encoding="utf-8")
