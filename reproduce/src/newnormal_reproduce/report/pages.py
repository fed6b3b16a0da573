"""Results as a Markdown page: ours, the paper's, the difference."""

import platform
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from statistics import fmean

import numba
import numpy as np

import newnormal
from newnormal_reproduce.engine.comparison import Comparison
from newnormal_reproduce.engine.experiment import Experiment, Line
from newnormal_reproduce.engine.published import (
    APPENDIX_SEED,
    MEASURES,
    Figure,
    Rule,
    detail,
    options,
    title,
)
from newnormal_reproduce.engine.trial import TrialOutcome
from newnormal_reproduce.engine.variants import VARIANTS


@cache
def texts(page: str) -> dict[str, str]:
    """Return the parts of a page's prose, from ``prose``; a line ``<!-- name -->`` begins each.

    >>> print(texts("main")["introduction"].splitlines()[0])
    # The paper's main table, run again
    """
    text = files(__package__).joinpath("prose", f"{page}.md").read_text(encoding="utf-8")
    _, *pieces = re.split(r"^<!-- (.+) -->$", text, flags=re.MULTILINE)
    parts = zip(pieces[::2], pieces[1::2], strict=True)
    return {name: part.strip("\n") + "\n" for name, part in parts}


_TEXT = texts("results")  # of pages with figures of the paper


def results(experiment: Experiment, introduction: str) -> str:
    """Return the page of an experiment with figures of the paper."""
    compared = experiment.comparisons()
    parts = [introduction.format(command=experiment.command) + _notes(experiment)]
    if compared:
        parts += [_TEXT["ranking"], _ranking(compared)]
        for text, oracle in ((_TEXT["honest"], False), (_TEXT["oracle"], True)):
            if lines := _decisions(experiment, compared, oracle=oracle):
                parts += [text, lines]
        parts += [_differences(compared), settings_used(experiment)]
    return "\n".join([*parts, *not_run(experiment)])


def _notes(experiment: Experiment) -> str:
    return "\n" + _TEXT["notes"].format(
        seeds=over_seeds(experiment), name=experiment.name, versions=versions()
    )


def over_seeds(*experiments: Experiment, where: str = "its line") -> str:
    """Return the seeds of a figure: the same for all figures, or those named at `where`."""
    every = sorted({seed for experiment in experiments for seed in experiment.seeds})
    numbers = ", ".join(map(str, every)) or "none"
    lines = [
        seeds
        for experiment in experiments
        for _, trials in experiment.lines
        if (seeds := experiment.seeds_of(trials))
    ]
    if all(seeds == every for seeds in lines):
        return f"seeds {numbers}"
    return f"the seeds named in {where} ({span(map(len, lines))} of {numbers})"


def span(counts: Iterable[int]) -> str:
    """Return a count, or the range of several counts.

    >>> span([5, 5]), span([3, 1, 5])
    ('5', '1 to 5')
    """
    ordered = sorted(set(counts))
    return str(ordered[0]) if len(ordered) == 1 else f"{ordered[0]} to {ordered[-1]}"


def table(header: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table.

    >>> print(table(("a", "b"), [("1", "2")]), end="")
    | a | b |
    | --- | --- |
    | 1 | 2 |
    """
    rows = [header, ["---"] * len(header)]
    rows += [[" ".join(cell.replace("|", "\\|").split()) for cell in line] for line in lines]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def summary(sentences: Sequence[str]) -> list[str]:
    """Return the section of a summary as a list, if there is anything in it."""
    return ["## Summary\n", "".join(f"- {text}\n" for text in sentences)] if sentences else []


def not_run(*experiments: Experiment) -> list[str]:
    """Return the section of what is missing from all of the experiments, if anything is."""
    failed: dict[str, dict[str, list[str]]] = {}
    for experiment in experiments:
        for line, trials in experiment.lines:
            for trial in trials:
                if trial in experiment.failures:
                    what = f"{trial.dataset}, {line.competitor.name} {trial.variant}"
                    why = f"failed: {experiment.failures[trial]}"
                    failed.setdefault(what, {}).setdefault(why, []).append(str(trial.seed))
    lines = [
        (name, why)
        for name, why in experiments[0].not_run.items()
        if all(name in experiment.not_run for experiment in experiments)
    ]
    for what, reasons in failed.items():
        for why, seeds in reasons.items():
            numbers = ", ".join(dict.fromkeys(seeds))
            lines.append((f"{what}, seed{'s'[: ',' in numbers]} {numbers}", why))
    return ["## Not run\n", table(("what", "why"), lines)] if lines else []


def _ranking(compared: Sequence[Comparison]) -> str:
    header = [*_heads(), "seeds", "rule", "τ"]
    for measure in ("auroc", "auprc"):
        header += [MEASURES[measure], "paper", "difference"]
    areas = {(c.dataset, c.model, c.variant, str(c.rule), c.measure): c for c in compared}
    adapting = {variant.name for variant in VARIANTS if variant.adapt}
    lines = []
    for (*key, measure), first in areas.items():
        if measure == "auroc":
            dataset, model, variant, rule = key
            second = areas[dataset, model, variant, rule, "auprc"]
            threshold = [_rule(first.rule), _tau(first.tau)] if variant in adapting else ["", ""]
            who = [*_who(first), str(first.seeds)]
            lines.append([*who, *threshold, *beside(first), *beside(second)])
    return table(header, lines)


def _decisions(experiment: Experiment, compared: Sequence[Comparison], *, oracle: bool) -> str:
    header = [*_heads(), "seeds", "measure", "rule", "τ", "ours", "paper", "difference"]
    header += ["precision", "recall", "TP", "FP", "FN", "TN"]
    runs: dict[tuple[str, str, str, str], list[TrialOutcome]] = {}
    for line, trials in experiment.lines:
        for rule in line.rules.distinct():
            key = (line.stream.name, line.competitor.name, line.variant.name, str(rule))
            runs[key] = experiment.outcomes_of(trials, rule)
    lines = []
    for c in compared:
        if c.measure not in ("f1", "adjusted_f1") or c.rule.oracle != oracle:
            continue
        prefix = c.measure.removesuffix("f1")
        reports = [run.report for run in runs[c.dataset, c.model, c.variant, str(c.rule)]]
        means = {
            name: fmean(getattr(report, prefix + name) for report in reports)
            for name in ("precision", "recall", "tp", "fp", "fn", "tn")
        }
        ratios = [f"{means[name]:.3f}" for name in ("precision", "recall")]
        counts = [f"{means[name]:.0f}" for name in ("tp", "fp", "fn", "tn")]
        what = [str(c.seeds), MEASURES[c.measure], _rule(c.rule), _tau(c.tau)]
        lines.append([*_who(c), *what, *beside(c), *ratios, *counts])
    return table(header, lines) if lines else ""


def _differences(compared: Sequence[Comparison]) -> str:
    judged = [c for c in compared if c.agrees is not None]
    beyond = [c for c in judged if not c.agrees]
    text = _TEXT["differences"].format(within=len(judged) - len(beyond), judged=len(judged))
    if beyond:
        header = (*_heads(), "seeds", "measure", "rule", "ours", "paper", "difference")
        lines = [
            [*_who(c), str(c.seeds), MEASURES[c.measure], _rule(c.rule), *beside(c)] for c in beyond
        ]
        text += "\n" + table(header, lines)
    return text


def _heads() -> list[str]:
    return ["data set", "model", "variant"]


def _who(c: Comparison) -> list[str]:
    return [c.dataset, c.model, c.variant]


def settings_used(experiment: Experiment) -> str:
    """Return the section of the settings of every model on every data set."""
    header = ["data set", "model", "window", "stride", "step", "latent", "epochs", "batch"]
    header += ["γ", "η", "seeds"]
    names = ("window", "stride", "fit_stride", "latent", "epochs", "batch")
    lines: dict[tuple[str, str], list[str]] = {}
    seeds: dict[tuple[str, str], set[int]] = {}
    for line, trials in experiment.lines:
        usual, trial = options(line.competitor.model, line.stream.setting), trials[0]
        cells = []
        for name in (*names, "decay", "lr"):
            value = getattr(trial.options, name)
            shown = f"{value:g}" if value != 0.99999 else "0.99999"
            cells.append(shown if value == getattr(usual, name) else f"**{shown}**")
        key = (line.stream.name, line.competitor.name)
        lines[key] = [*key, *cells]
        seeds.setdefault(key, set()).update(experiment.seeds_of(trials))
    complete = [[*cells, _numbers(seeds[key])] for key, cells in lines.items()]
    return _TEXT["settings"] + "\n" + table(header, complete)


def _numbers(seeds: Iterable[int]) -> str:
    """Return seeds as a short text.

    >>> _numbers({2021, 2022, 2023}), _numbers({2022, 2021}), _numbers([])
    ('2021 to 2023', '2021, 2022', 'none')
    """
    numbers = sorted(seeds)
    if len(numbers) > 2 and numbers[-1] - numbers[0] == len(numbers) - 1:
        return f"{numbers[0]} to {numbers[-1]}"
    return ", ".join(map(str, numbers)) or "none"


def details(experiment: Experiment, heading: str) -> str:
    """Return the page of the appendix: one seed of each line beside the paper's.

    It is the paper's seed if the line has it, else the line's first.
    """
    ratios, counts = ("accuracy", "precision", "recall", "f1"), ("tn", "fp", "fn", "tp")
    names = [*ratios, "auroc", *counts]
    adjusted = [f"adjusted_{name}" for name in (*ratios, *counts)]
    header = ["data set", "model", "variant", "for", "", "seed", "rule", "τ"]
    header += ["acc.", "prec.", "recall", "F1", "AUROC", "TN", "FP", "FN", "TP"]
    header += [f"PA {name}" for name in ("acc.", "prec.", "recall", "F1", "TN", "FP", "FN", "TP")]
    lines = []
    for line, trials in experiment.lines:
        for rule, serves in line.rules.distinct().items():
            if (outcome := experiment.shown(trials, rule)) is None:
                continue
            who = [line.stream.name, line.competitor.name, line.variant.name]
            who.append(", ".join(MEASURES[measure] for measure in serves))
            cells = [_detail(getattr(outcome.report, name)) for name in (*names, *adjusted)]
            ours = ["ours", str(outcome.trial.seed), _rule(rule), f"{outcome.tau:.4g}"]
            lines.append([*who, *ours, *cells])
            for measure in serves:
                if (printed := _printed(line, measure)) is not None:
                    cells = [printed[name] for name in (*names, *adjusted)]
                    who[3] = MEASURES[measure]
                    rule_text = printed["threshold"].replace("*", "\\*")
                    paper = ["paper", str(APPENDIX_SEED), rule_text, printed["tau"]]
                    lines.append([*who, *paper, *cells])
    text = _TEXT["detail"].format(title=heading, command=experiment.command, name=experiment.name)
    return text + "\n" + table(header, lines)


def _printed(line: Line, measure: str) -> Mapping[str, str] | None:
    model = title(line.competitor.model) if line.compared else None
    if model is None:
        return None
    return detail(line.stream.name, line.variant.name, measure, model)


def _detail(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.3f}"


def beside(compared: Comparison) -> list[str]:
    """Return ours, the paper's and the difference."""
    if compared.paper is None or compared.difference is None:
        return [str(compared.ours), "-", ""]
    difference = f"{compared.difference:+.3f}"
    if compared.agrees is False:
        difference = f"**{difference}**"
    return [str(compared.ours), str(compared.paper), difference]


def _tau(tau: Figure) -> str:
    return f"{tau.mean:.3g}" + ("" if tau.std is None else f" ± {tau.std:.2g}")


def _rule(rule: Rule) -> str:
    return "Q\\* (oracle)" if rule.oracle else str(rule)


def versions() -> str:
    """Return the versions that computed the figures."""
    return (
        f"newnormal {newnormal.__version__}, Python {platform.python_version()}, "
        f"NumPy {np.__version__} and Numba {numba.__version__} on "
        f"{platform.system()} {platform.machine()}"
    )
