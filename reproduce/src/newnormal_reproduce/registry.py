"""Every experiment, one `ExperimentEntry` each, in the order of the paper.

The command ``newnormal reproduce``, the order of ``reproduce all`` and the HTML page are made from
this list. To add an experiment, write its module and add its entry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

if TYPE_CHECKING:
    from newnormal_reproduce.engine.plan import Request, TrialPlan
    from newnormal_reproduce.engine.runner import Runner


class Input(Enum):
    """What an experiment is called with."""

    TRIALS = "trials"  # a `Runner` and a `Request`; results are stored
    DATA = "data"  # `DataStreams`, datasets and progress; nothing is stored
    MODELS = "models"  # models and progress, no data; nothing is stored
    # Generated streams, seeds, processes and progress; and the store, for one that is `kept`.
    GENERATED = "generated"


@dataclass(frozen=True)
class ExperimentEntry:
    """An experiment."""

    name: str  # of the command and of its files
    function: str  # "module:function" in this package; what it returns has `write`
    title: str  # of its section on the HTML page
    about: str  # what it computes, in one line
    labels: tuple[str, ...] = ()  # the paper's LaTeX labels; none for an experiment of ours
    input: Input = Input.TRIALS
    only: str | None = None  # the one data set it runs on, on which no other runs by default
    kept: bool = True  # whether --computed shows it: it is stored, or computed in seconds

    @property
    def help(self) -> str:
        """The help of its command."""
        return f"{self.about} ({', '.join(self.labels) or 'ours'})"

    @property
    def command(self) -> str:
        """The command that runs it."""
        data = "" if self.input in (Input.MODELS, Input.GENERATED) else " --data DIR"
        return f"newnormal reproduce {self.name}{data}"

    def load(self) -> Callable[..., Any]:
        """Import its function."""
        module, _, function = self.function.partition(":")
        loaded: Callable[..., Any] = getattr(import_module(f"{__package__}.{module}"), function)
        return loaded


ENTRIES = (
    ExperimentEntry(
        "datasets",
        "paper.dataset_table:dataset_table",
        "The data",
        "Sizes, features and share of anomalies of every data set found.",
        ("table:Data_Description",),
        input=Input.DATA,
    ),
    ExperimentEntry(
        "shift",
        "paper.shift:shift",
        "How far normal moves",
        "The divergence of test from train, and pictures of both.",
        ("fig:Main_Figure (a)", "fig:main_kld", "fig:A_vis"),
        input=Input.DATA,
        kept=False,
    ),
    ExperimentEntry(
        "main",
        "paper.main:main",
        "The main table",
        "Five models as fitted, and the MLP with detrending and adaptation.",
        (
            "table:Main_Exp",
            "table:Main_Exp_Full",
            "table:Appendix:DetailExpMain",
            "fig:Main_Figure (b)",
        ),
    ),
    ExperimentEntry(
        "curves",
        "paper.curves:curves",
        "All thresholds at once",
        "ROC and precision-recall curves, and F1 against the threshold.",
        ("fig:main_roc", "fig:ab_f1trace"),
    ),
    ExperimentEntry(
        "anoshift",
        "paper.anoshift:anoshift",
        "Ten years of network traffic",
        "AnoShift: NEAR, FAR, and year by year.",
        ("table:anoshift", "fig:anoshift"),
        only="AnoShift",
    ),
    ExperimentEntry(
        "ablation",
        "paper.ablation:ablation",
        "The ablation",
        "The MLP frozen, detrended, adapted, and both.",
        ("table:Ablation", "table:Ablation_Full", "table:Appendix:DetailExpAb"),
    ),
    ExperimentEntry(
        "traces",
        "paper.traces:traces",
        "Scores over time",
        "Scores, thresholds and alarms of each model, and its expectations.",
        ("fig:Main_Figure (c)", "fig:main_ion", "fig:ab_qual", "fig:A_anosc"),
    ),
    ExperimentEntry(
        "cost",
        "paper.cost:cost",
        "The cost of each model",
        "Time, multiply-adds and memory of each model for one window.",
        ("table:Appendix:CC",),
        input=Input.MODELS,
        kept=False,
    ),
    ExperimentEntry(
        "all-models",
        "paper.all_models:all_models",
        "Every model, detrended and adapted",
        "Detrending, adaptation and both on all five models.",
    ),
    ExperimentEntry(
        "peers",
        "ours.peers:peers",
        "Beside classic detectors",
        "One-liners, River's trees and five detectors of PyOD on every stream found.",
    ),
    ExperimentEntry(
        "drift",
        "ours.drift:drift",
        "No settings",
        "Detector, which chooses its settings, beside fixed settings, and when normal changes.",
    ),
    ExperimentEntry(
        "tsb-ad",
        "ours.tsb_ad:tsb_ad",
        "Beside published figures",
        "Detector on series of TSB-AD-M, beside the published figures of other methods.",
        only="TSB-AD-M",
    ),
    ExperimentEntry(
        "obvious",
        "ours.obvious:obvious_faults",
        "Obvious faults",
        "Detector on generated faults that a person sees at once, and on a nightly job.",
        input=Input.GENERATED,
        kept=False,
    ),
    ExperimentEntry(
        "truth",
        "ours.truth:truth",
        "What is reported, beside the truth",
        "Every word and number that Detector reports of generated faults, beside the truth.",
        input=Input.GENERATED,
    ),
)


def write(
    entry: ExperimentEntry, runner: Runner, output: Path, **request: Unpack[Request]
) -> Sequence[Path]:
    """Run an experiment, write its files into a folder, and return their paths.

    What failed is in the pages, and in the runner's `failed`.
    """
    function = entry.load()
    failures: Mapping[str, str] = {}
    if entry.input is Input.MODELS:
        result = function(request.get("models"), progress=runner.progress)
        failures = result.failed
    elif entry.input is Input.DATA:
        datasets = request.get("datasets")
        result = function(runner.streams, datasets=datasets, progress=runner.progress)
    elif entry.input is Input.GENERATED:
        store = {"cache": runner.store.folder, "compute": runner.compute} if entry.kept else {}
        result = function(
            request.get("datasets"),
            seeds=request.get("seeds"),
            processes=runner.processes,
            progress=runner.progress,
            **store,
        )
        failures = result.failures
    else:
        result = function(runner, **request)
    for what, why in failures.items():
        runner.note_failure(what, why)
    paths: Sequence[Path] = result.write(output)
    return paths


def write_all(
    runner: Runner, output: Path, **request: Unpack[Request]
) -> Iterator[tuple[str, Sequence[Path] | Exception]]:
    """Run every experiment and then write the HTML page; yield each name and its paths or error.

    An experiment with a data set of its own is left out if that was not found, and one on generated
    streams if data sets are named. A runner that does not compute leaves out experiments that are
    not `kept`.
    """
    from newnormal_reproduce.engine.plan import TrialPlan
    from newnormal_reproduce.report.site import build

    plan = TrialPlan.of(runner, **request)
    # A wrong request is an error now, not once for each experiment.
    plan.competitors(())
    plan.streams(())
    for entry, datasets in list(_chosen(plan)):
        narrowed: Request = {**request, "datasets": datasets}
        result: Sequence[Path] | Exception
        try:
            result = write(entry, runner, output, **narrowed)
        except Exception as error:  # noqa: BLE001 - one failed experiment must not lose the others
            result = error
        yield entry.name, result
    yield "page", (build(output),)


def _chosen(plan: TrialPlan) -> Iterator[tuple[ExperimentEntry, Sequence[str] | None]]:
    """Yield the experiments to run, each with its streams; None: the usual ones."""
    everything = plan.datasets is None
    names = plan.runner.streams.places if plan.datasets is None else plan.datasets
    reserved = {entry.only.lower() for entry in ENTRIES if entry.only is not None}
    owners = {name: name.partition("/")[0].lower() for name in names}
    for entry in ENTRIES:
        if entry.input is Input.GENERATED and not everything:
            continue
        if entry.only is None:
            streams = [name for name in names if owners[name] not in reserved]
            runs = bool(streams) or everything  # the page states where to get what is missing
        else:
            streams = [name for name in names if owners[name] == entry.only.lower()]
            runs = bool(streams)
        if (runs or entry.input is Input.MODELS) and (plan.runner.compute or entry.kept):
            yield entry, None if everything else streams
