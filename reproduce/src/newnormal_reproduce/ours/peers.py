"""Classic detectors beside the five models on every stream found, by AUPRC and VUS-PR."""

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import Unpack

from newnormal_reproduce.engine.competitors import FIVE, MOST_ROWS
from newnormal_reproduce.engine.experiment import Experiment, Line
from newnormal_reproduce.engine.plan import Request, TrialPlan
from newnormal_reproduce.engine.published import Figure, Rule, Rules, settings
from newnormal_reproduce.engine.runner import Runner
from newnormal_reproduce.engine.streams import SYNTHETIC, DataStream, Roots
from newnormal_reproduce.engine.variants import BOTH, FROZEN
from newnormal_reproduce.ours.today import ONE_LINERS, RIVER, split
from newnormal_reproduce.report import pages

PEERS = ("pyod:PCA", "pyod:IForest", "pyod:LOF", "pyod:OCSVM", "pyod:ECOD")
_MODELS = (*FIVE, *PEERS)
_CHANCE = ("pyod:IForest",)  # the other peers give the same scores for every seed
_RULE = Rule(99.0)

_TEXT = pages.texts("peers")


def peers(roots: Roots | Runner, **request: Unpack[Request]) -> Experiment:
    """Run classic detectors and the paper's models on every stream in the given folders.

    Needs the extra ``peers``, and ``deep`` for all of the paper's but the MLP.

    The request is as in `TrialPlan.of`. By default: every stream found, and the synthetic ones; the
    paper's five models, `PEERS`, `ONE_LINERS` and River's. Deterministic detectors have the first
    seed alone.
    """
    plan = TrialPlan.of(roots, **request)
    rows, taking_part = split(plan, (*ONE_LINERS, RIVER), _MODELS)
    usual = [*(setting.name for setting in settings()), *plan.runner.streams.common, *SYNTHETIC]

    def lines_of(stream: DataStream) -> Iterator[Line]:
        for row in rows:
            yield row.line(stream, plan.seeds)
        for competitor in taking_part:
            chance = not competitor.model.startswith("pyod:") or competitor.model in _CHANCE
            seeds = plan.seeds if chance else plan.seeds[:1]
            for variant in (FROZEN, BOTH) if competitor.model == "mlp" else (FROZEN,):
                yield Line(stream, competitor, variant, Rules(_RULE, _RULE), seeds, compared=False)

    return plan.conduct("peers", list(dict.fromkeys(usual)), lines_of, pages={"peers.md": _page})


def _page(result: Experiment) -> str:
    seeds = pages.over_seeds(result, where="the line below its table")
    parts = [
        _TEXT["introduction"].format(
            command=result.command, most=MOST_ROWS, seeds=seeds, versions=pages.versions()
        )
    ]
    if result.outcomes:
        for measure, name in (("auprc", "AUPRC"), ("vus_pr", "VUS-PR")):
            parts += [f"## {name}\n", _table(result, measure), f"{_seeds_of_columns(result)}\n"]
    return "\n".join([*parts, *pages.not_run(result)])


def _table(result: Experiment, measure: str) -> str:
    """Return a table with a column a detector and a line a stream; the best of a line is bold."""
    figures: dict[str, dict[str, Figure]] = {}
    columns: list[str] = []
    for line, trials in result.lines:
        name = line.name
        columns += [name] if name not in columns else []
        values = [getattr(outcome.report, measure) for outcome in result.outcomes_of(trials)]
        if values:
            figures.setdefault(line.stream.name, {})[name] = Figure.of(values)
    return by_stream(figures, columns)


def by_stream(figures: Mapping[str, Mapping[str, Figure]], columns: Sequence[str]) -> str:
    """Return a table with a line a stream, and the means; the best of a line is bold."""
    lines = []
    for stream, row in figures.items():
        best = max(figure.mean for figure in row.values())
        lines.append([stream, *(_shown(row.get(name), best) for name in columns)])
    if complete := [row for row in figures.values() if len(row) == len(columns)]:
        means = {name: Figure(fmean(row[name].mean for row in complete), None) for name in columns}
        best = max(figure.mean for figure in means.values())
        label = f"mean of the {len(complete)} with all"
        lines.append([label, *(_shown(means[name], best) for name in columns)])
    return pages.table(["stream", *columns], lines)


def _seeds_of_columns(result: Experiment) -> str:
    """Return the number of seeds of each column."""
    counts: dict[str, list[int]] = {}
    for line, trials in result.lines:
        counts.setdefault(line.name, []).append(len(result.seeds_of(trials)))
    return f"Seeds: {', '.join(f'{name} {pages.span(seeds)}' for name, seeds in counts.items())}."


def _shown(figure: Figure | None, best: float) -> str:
    if figure is None:
        return "-"
    return f"**{figure.mean:.3f}**" if figure.mean == best else f"{figure.mean:.3f}"
