"""`newnormal reproduce`: the paper's experiments, and ours."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from newnormal.cli.console import announce_compiling, say
from newnormal.cli.options import names
from newnormal.errors import ParameterError

if TYPE_CHECKING:
    from newnormal.experiments.lab import Lab

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
Seeds = Annotated[
    Optional[list[str]],  # noqa: UP045
    typer.Option(metavar="NUMBERS", help="These seeds.", show_default="2021 to 2025"),
]
Rows = Annotated[
    Optional[list[str]],  # noqa: UP045
    typer.Option(metavar="NAMES", help="Only these of frozen,DT,TTA,DT+TTA."),
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


@reproduce_app.command("datasets")
def datasets_(
    data: Data,
    output: Output = _RESULTS,
    datasets: Datasets = None,
    cache: Cache = None,
) -> None:
    """Sizes, features and share of anomalies of every data set found (table:Data_Description)."""
    from newnormal.experiments.described import describe

    with at_work(data, output, cache, 1) as lab:
        _done(lab, describe(lab, datasets=names(datasets)).write(output))


@reproduce_app.command()
def main(
    data: Data,
    output: Output = _RESULTS,
    datasets: Datasets = None,
    models: Models = None,
    seeds: Seeds = None,
    extra: Extra = None,
    set_: Options = None,
    cache: Cache = None,
    computed: Computed = False,
    processes: Processes = 2,
) -> None:
    """Five models frozen, and the MLP detrended and adapted (table:Main_Exp, figure 1b)."""
    from newnormal.experiments.main import main as experiment

    with at_work(data, output, cache, processes, set_, computed) as lab:
        result = experiment(
            lab,
            datasets=names(datasets),
            models=names(models),
            extra=extra,
            **_seeds(seeds),
        )
        _done(lab, result.write(output))


@reproduce_app.command()
def ablation(
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
    """Frozen, detrended, adapted, both: the paper's MLP (table:Ablation)."""
    from newnormal.experiments.ablation import ablation as experiment

    with at_work(data, output, cache, processes, set_, computed) as lab:
        result = experiment(
            lab,
            datasets=names(datasets),
            models=names(models),
            rows=names(rows),
            extra=extra,
            **_seeds(seeds),
        )
        _done(lab, result.write(output))


@reproduce_app.command()
def everyone(
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
    """Detrending, adaptation and both on all five models (ours)."""
    from newnormal.experiments.everyone import everyone as experiment

    with at_work(data, output, cache, processes, set_, computed) as lab:
        result = experiment(
            lab,
            datasets=names(datasets),
            models=names(models),
            rows=names(rows),
            extra=extra,
            **_seeds(seeds),
        )
        _done(lab, result.write(output))


@reproduce_app.command()
def peers(
    data: Data,
    output: Output = _RESULTS,
    datasets: Datasets = None,
    models: Models = None,
    seeds: Seeds = None,
    extra: Extra = None,
    set_: Options = None,
    cache: Cache = None,
    computed: Computed = False,
    processes: Processes = 2,
) -> None:
    """Classic detectors beside the five models on every stream found (ours)."""
    from newnormal.experiments.peers import peers as experiment

    with at_work(data, output, cache, processes, set_, computed) as lab:
        result = experiment(
            lab,
            datasets=names(datasets),
            models=names(models),
            extra=extra,
            **_seeds(seeds),
        )
        _done(lab, result.write(output))


@reproduce_app.command()
def anoshift(
    data: Data,
    output: Output = _RESULTS,
    datasets: Datasets = None,
    models: Models = None,
    seeds: Seeds = None,
    extra: Extra = None,
    set_: Options = None,
    cache: Cache = None,
    computed: Computed = False,
    processes: Processes = 2,
) -> None:
    """Ten years of traffic: NEAR, FAR, and year by year (table:anoshift, fig:anoshift)."""
    from newnormal.experiments.anoshift import anoshift as experiment

    with at_work(data, output, cache, processes, set_, computed) as lab:
        result = experiment(
            lab,
            datasets=names(datasets),
            models=names(models),
            extra=extra,
            **_seeds(seeds),
        )
        _done(lab, result.write(output))


@reproduce_app.command()
def shift(
    data: Data,
    output: Output = _RESULTS,
    datasets: Datasets = None,
    cache: Cache = None,
) -> None:
    """How far test lies from train: divergence and t-SNE (fig:main_kld, fig:A_vis)."""
    from newnormal.experiments.shift import shift as experiment

    with at_work(data, output, cache, 1) as lab:
        _done(lab, tuple(experiment(lab, datasets=names(datasets), output=output)))


@reproduce_app.command()
def curves(
    data: Data,
    output: Output = _RESULTS,
    datasets: Datasets = None,
    models: Models = None,
    seeds: Seeds = None,
    set_: Options = None,
    cache: Cache = None,
    computed: Computed = False,
    processes: Processes = 2,
) -> None:
    """ROC, precision-recall, and F1 against the threshold (fig:main_roc, fig:ab_f1trace)."""
    from newnormal.experiments.curves import curves as experiment

    with at_work(data, output, cache, processes, set_, computed) as lab:
        paths = experiment(
            lab, datasets=names(datasets), models=names(models), output=output, **_seeds(seeds)
        )
        _done(lab, tuple(paths))


@reproduce_app.command()
def traces(
    data: Data,
    output: Output = _RESULTS,
    datasets: Datasets = None,
    models: Models = None,
    seeds: Seeds = None,
    set_: Options = None,
    cache: Cache = None,
    computed: Computed = False,
    processes: Processes = 2,
) -> None:
    """Scores, alarms and expectations over time (fig:A_anosc, fig:ab_qual, fig:main_ion)."""
    from newnormal.experiments.traces import traces as experiment

    with at_work(data, output, cache, processes, set_, computed) as lab:
        paths = experiment(
            lab, datasets=names(datasets), models=names(models), output=output, **_seeds(seeds)
        )
        _done(lab, tuple(paths))


@reproduce_app.command()
def cost(
    output: Output = _RESULTS,
    models: Models = None,
) -> None:
    """Time, multiply-adds and memory of each model for one window (table:Appendix:CC)."""
    from newnormal.experiments.cost import cost as experiment

    announce_compiling()
    with progress_bar() as progress:
        paths = experiment((), models=names(models), output=output, progress=progress)
    say(f"wrote {', '.join(map(str, paths))}")


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
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("starting", total=None)

        def progress(done: int, total: int, what: str) -> None:
            bar.update(task, completed=done, total=total, description=what)

        yield progress


def _done(lab: Lab, paths: tuple[Path, ...]) -> None:
    done = f"computed {lab.computed} results, " if lab.computed else ""
    say(f"{done}wrote {', '.join(map(str, paths))}")


def _seeds(texts: list[str] | None) -> dict[str, Any]:
    """Return the seeds as an option, or none where none were given."""
    given = names(texts)
    if given is None:
        return {}
    try:
        return {"seeds": tuple(int(text) for text in given)}
    except ValueError:
        raise ParameterError(
            f"--seeds: expected whole numbers, found {','.join(given)}", hint="such as 2021,2022"
        ) from None
