"""`newnormal reproduce`: the paper's experiments, and ours."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from newnormal.cli.console import FAILED, announce_compiling, say
from newnormal.cli.options import names
from newnormal.errors import ParameterError

if TYPE_CHECKING:
    from newnormal.experiments.lab import Lab
    from newnormal.experiments.plan import Asked

__all__ = ["reproduce_app"]

reproduce_app = typer.Typer(
    help="The paper's experiments, with its figures beside ours.", no_args_is_help=True
)

Data = Annotated[
    list[Path], typer.Option(metavar="DIR", help="Where benchmark data is; may be repeated.")
]
Output = Annotated[
    Path, typer.Option("--output", "-o", metavar="DIR", help="Where pages, tables, pictures go.")
]
Datasets = Annotated[
    Optional[list[str]],  # noqa: UP045 - typer evaluates it
    typer.Option(metavar="NAMES", help="Only these, such as SMD/1-4,MSL/P-15 or NAB."),
]
Models = Annotated[
    Optional[list[str]],  # noqa: UP045
    typer.Option(
        metavar="NAMES", help="Only these, such as mlp,usad; package.module:Class is one of yours."
    ),
]
Rows = Annotated[
    Optional[list[str]],  # noqa: UP045
    typer.Option(metavar="NAMES", help="Only these of frozen,DT,TTA,DT+TTA."),
]
Seeds = Annotated[
    Optional[list[str]],  # noqa: UP045
    typer.Option(metavar="NUMBERS", help="These seeds.", show_default="2021 to 2025"),
]
Extra = Annotated[
    Optional[Path],  # noqa: UP045
    typer.Option(metavar="FILE", help="A TOML file of further models."),
]
Options = Annotated[
    Optional[list[str]],  # noqa: UP045
    typer.Option(
        "--set",
        metavar="MODEL.OPTION=VALUE",
        help="Such as thoc.batch=8, or thoc@CreditCard.batch=64 for one data set; repeatable.",
    ),
]
Cache = Annotated[
    Optional[Path],  # noqa: UP045
    typer.Option(
        metavar="DIR", help="Where results are kept.", show_default=".newnormal-cache in the output"
    ),
]
Computed = Annotated[
    bool,
    typer.Option(
        "--computed", help="Compute nothing: show what is kept so far, of however many seeds."
    ),
]
Processes = Annotated[int, typer.Option(min=1, help="Processes at work at once.")]

_RESULTS = Path("results")

_ALL = """\
Every experiment, one after the other, and the page.

AnoShift takes part if it is found. If one fails, the others go on, and the exit code is 1.

With --computed neither shift nor cost takes part: nothing is kept of them."""


def reads_data(name: str, about: str) -> None:
    """Register an experiment on the data alone."""

    @reproduce_app.command(name, help=about)
    def command(data: Data, output: Output = _RESULTS, datasets: Datasets = None) -> None:
        with at_work(data, output, None, 1) as lab:
            _run(name, lab, output, {"datasets": names(datasets)})


def keeps_results(name: str, about: str) -> None:
    """Register an experiment whose results are kept, and which all options narrow."""

    @reproduce_app.command(name, help=about)
    def command(
        data: Data,
        output: Output = _RESULTS,
        datasets: Datasets = None,
        models: Models = None,
        rows: Rows = None,
        seeds: Seeds = None,
        extra: Extra = None,
        set_: Options = None,
        cache: Cache = None,
        computed: Computed = False,
        processes: Processes = 2,
    ) -> None:
        asked: Asked = {
            "datasets": names(datasets),
            "models": names(models),
            "rows": names(rows),
            "seeds": _seeds(seeds),
            "extra": extra,
        }
        with at_work(data, output, cache, processes, set_, computed) as lab:
            if name == "all":
                _run_all(lab, output, asked)
            else:
                _run(name, lab, output, asked)


keeps_results("all", _ALL)
reads_data(
    "datasets",
    "Sizes, features and share of anomalies of every data set found (table:Data_Description).",
)
keeps_results(
    "main", "Five models frozen, and the MLP detrended and adapted (table:Main_Exp, figure 1b)."
)
keeps_results("ablation", "Frozen, detrended, adapted, both: the paper's MLP (table:Ablation).")
keeps_results("everyone", "Detrending, adaptation and both on all five models (ours).")
keeps_results("peers", "Classic detectors beside the five models on every stream found (ours).")
keeps_results(
    "drift", "The detector without a setting beside fixed ones, and when normal changes (ours)."
)
keeps_results(
    "anoshift", "Ten years of traffic: NEAR, FAR, and year by year (table:anoshift, fig:anoshift)."
)
reads_data("shift", "How far test lies from train: divergence and t-SNE (fig:main_kld, fig:A_vis).")
keeps_results(
    "curves", "ROC, precision-recall, and F1 against the threshold (fig:main_roc, fig:ab_f1trace)."
)
keeps_results(
    "traces", "Scores, alarms and expectations over time (fig:A_anosc, fig:ab_qual, fig:main_ion)."
)


@reproduce_app.command()
def cost(
    output: Output = _RESULTS,
    models: Models = None,
) -> None:
    """Time, multiply-adds and memory of each model for one window (table:Appendix:CC)."""
    from newnormal.experiments.cost import cost as experiment

    announce_compiling()
    with progress_bar() as progress:
        _wrote(experiment(names(models), progress=progress).write(output))


@reproduce_app.command()
def page(output: Output = _RESULTS) -> None:
    """Gather what has been run into one self-contained HTML page, index.html."""
    from newnormal.experiments.site import build

    say(f"wrote {build(output)}: open it in a browser")


@contextmanager
def at_work(
    data: list[Path],
    output: Path,
    cache: Path | None,
    processes: int,
    options: list[str] | None = None,
    computed: bool = False,
) -> Iterator[Lab]:
    """Give a lab whose progress is a bar on standard error."""
    from newnormal.experiments.entrants import overrides
    from newnormal.experiments.lab import Lab

    announce_compiling()
    with progress_bar() as progress:
        yield Lab(
            data,
            cache=output / ".newnormal-cache" if cache is None else cache,
            processes=processes,
            compute=not computed,
            progress=progress,
            overrides=overrides(options or []),
        )


@contextmanager
def progress_bar() -> Iterator[Callable[[int, int, str], None]]:
    """Give what draws a bar on standard error, when called with done, total and what."""
    from rich.console import Console
    from rich.progress import MofNCompleteColumn, Progress, TimeElapsedColumn

    columns = (*Progress.get_default_columns(), MofNCompleteColumn(), TimeElapsedColumn())
    console = Console(stderr=True)
    still = not console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=still) as bar:
        task = bar.add_task("starting", total=None)

        def progress(done: int, total: int, what: str) -> None:
            bar.update(task, completed=done, total=total, description=what)

        yield progress


def _run(name: str, lab: Lab, output: Path, asked: Asked) -> None:
    from newnormal.experiments.programme import write

    _wrote(write(name, lab, output, **asked), lab.computed)


def _run_all(lab: Lab, output: Path, asked: Asked) -> None:
    from newnormal.experiments.programme import write_all

    failed, before = [], 0
    for name, result in write_all(lab, output, **asked):
        if isinstance(result, Exception):
            failed.append(name)
            say(f"{name} failed: {type(result).__name__}: {result}")
        else:
            _wrote(result, lab.computed - before)
        before = lab.computed
    if failed:
        say(f"failed: {', '.join(failed)}")
        raise typer.Exit(FAILED)


def _wrote(paths: Sequence[Path], computed: int = 0) -> None:
    done = f"computed {computed} results, " if computed else ""
    say(f"{done}wrote {', '.join(map(str, paths))}")


def _seeds(texts: list[str] | None) -> list[int] | None:
    given = names(texts)
    if given is None:
        return None
    try:
        return [int(text) for text in given]
    except ValueError:
        raise ParameterError(
            f"--seeds: expected whole numbers, found {','.join(given)}", hint="such as 2021,2022"
        ) from None
