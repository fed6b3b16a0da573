"""`newnormal reproduce`: the paper's experiments, and ours. One command for each entry."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from newnormal.cli.console import FAILED, announce_compiling, say
from newnormal.cli.help import MORE, Command
from newnormal.cli.options import names, with_shared
from newnormal.errors import DatasetError, ParameterError
from newnormal.texts import shown

if TYPE_CHECKING:
    from newnormal_reproduce.engine.plan import Request
    from newnormal_reproduce.engine.runner import Runner
    from newnormal_reproduce.engine.series import LabelledFile
    from newnormal_reproduce.registry import ExperimentEntry

Data = Annotated[
    list[Path],
    typer.Option(
        metavar="DIR", envvar="NEWNORMAL_DATA", help="Folder of benchmark data; may be repeated."
    ),
]
Output = Annotated[
    Path, typer.Option("--output", "-o", metavar="DIR", help="Folder for pages, tables, figures.")
]
Datasets = Annotated[
    list[str] | None,
    typer.Option(metavar="NAMES", help="Only these, such as SMD/1-4,MSL/P-15 or NAB."),
]
Models = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAMES", help="Only these, such as mlp,usad or your own package.module:Class."
    ),
]
Variants = Annotated[
    list[str] | None, typer.Option(metavar="NAMES", help="Only these of frozen,DT,TTA,DT+TTA.")
]
Seeds = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NUMBERS",
        help="These seeds.",
        show_default="2021 to 2025; drift, tsb-ad: 2021 to 2023",
    ),
]
_own = partial(typer.Option, rich_help_panel=f"{MORE}streams and models of your own")
_SERIES = "A labelled file of yours, as one more stream; repeatable."
_LABEL = "Column of --series: 1 is anomalous, 0 is not."
_HISTORY = "Samples of --series that are history."
Series = Annotated[list[Path] | None, _own(metavar="FILE", help=_SERIES)]
Label = Annotated[str | None, _own(metavar="COLUMN", help=_LABEL)]
History = Annotated[int | None, _own(metavar="SAMPLES", help=_HISTORY)]
Generated = Annotated[
    list[str] | None,
    typer.Option(metavar="NAMES", help="Only these, such as 1min/sine-2, or load-3 of truth."),
]
ThreeSeeds = Annotated[
    list[str] | None,
    typer.Option(metavar="NUMBERS", help="These seeds.", show_default="2021 to 2023"),
]
Extra = Annotated[Path | None, _own(metavar="FILE", help="A TOML file of further models.")]
Options = Annotated[
    list[str] | None,
    _own(
        "--set",
        metavar="MODEL.OPTION=VALUE",
        help="Such as thoc.batch=8, or thoc@CreditCard.batch=64 for one data set; repeatable.",
    ),
]
Cache = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR", help="Folder of stored results.", show_default=".newnormal-cache in output"
    ),
]
Computed = Annotated[
    bool, typer.Option("--computed", help="Compute nothing: show the results stored so far.")
]
Processes = Annotated[int, typer.Option(min=1, help="Number of processes.")]

_RESULTS = Path("results")
_PLACES = 3  # data sets named in an error

_ALL = """\
Run every experiment, and write the HTML page.

AnoShift and TSB-AD-M are run if they are found. If an experiment or a model fails, the others
continue; the reason is printed, and the exit code is 1.

With --computed, shift, cost and obvious are left out: their results are not stored."""


def reproduce_app() -> typer.Typer:
    """Return the command: one for each experiment, `all` and `page`."""
    from newnormal_reproduce.registry import ENTRIES

    app = typer.Typer(no_args_is_help=True)
    _add(app, "all", _ALL, _run_all)
    for entry in ENTRIES:
        _add_entry(app, entry)
    app.command(cls=Command)(page)
    return app


def _add(
    app: typer.Typer, name: str, about: str, run: Callable[[Runner, Path, Request], None]
) -> None:
    """Add a command whose results are stored, and which all options narrow."""

    @app.command(name, cls=Command, help=about)
    @with_shared
    def command(
        data: Data,
        output: Output = _RESULTS,
        datasets: Datasets = None,
        models: Models = None,
        variants: Variants = None,
        seeds: Seeds = None,
        extra: Extra = None,
        set_: Options = None,
        series: Series = None,
        label: Label = None,
        history: History = None,
        cache: Cache = None,
        computed: Computed = False,
        processes: Processes = 2,
    ) -> None:
        files = _labelled(series, label, history)
        request: Request = {
            "datasets": names(datasets),
            "models": names(models),
            "variants": names(variants),
            "seeds": _seeds(seeds),
            "extra": extra,
        }
        with _runner(data, output, cache, processes, set_, computed, files, datasets) as runner:
            run(runner, output, request)
        _exit_if_failed(runner)


def _add_entry(app: typer.Typer, entry: ExperimentEntry) -> None:
    """Add the command of an experiment, with the options that it uses."""
    from newnormal_reproduce.registry import Input, write

    def run(runner: Runner, output: Path, request: Request) -> None:
        _wrote(write(entry, runner, output, **request), runner.computed)

    if entry.input is Input.TRIALS:
        _add(app, entry.name, entry.help, run)
    elif entry.input is Input.DATA:

        @app.command(entry.name, cls=Command, help=entry.help)
        @with_shared
        def on_data(
            data: Data,
            output: Output = _RESULTS,
            datasets: Datasets = None,
            series: Series = None,
            label: Label = None,
            history: History = None,
        ) -> None:
            files = _labelled(series, label, history)
            with _runner(data, output, None, 1, files=files, named=datasets) as runner:
                run(runner, output, {"datasets": names(datasets)})
            _exit_if_failed(runner)

    elif entry.input is Input.GENERATED:

        @app.command(entry.name, cls=Command, help=entry.help)
        def on_generated(
            output: Output = _RESULTS,
            datasets: Generated = None,
            seeds: ThreeSeeds = None,
            processes: Processes = 2,
        ) -> None:
            with _runner([], output, None, processes) as runner:
                run(runner, output, {"datasets": names(datasets), "seeds": _seeds(seeds)})
            _exit_if_failed(runner)

    else:

        @app.command(entry.name, cls=Command, help=entry.help)
        def on_models(output: Output = _RESULTS, models: Models = None) -> None:
            with _runner([], output, None, 1) as runner:
                run(runner, output, {"models": names(models)})
            _exit_if_failed(runner)


def _run_all(runner: Runner, output: Path, request: Request) -> None:
    from newnormal_reproduce.registry import write_all

    failed, before = [], 0
    for name, result in write_all(runner, output, **request):
        if isinstance(result, Exception):
            failed.append(name)
            say(f"{name} failed: {type(result).__name__}: {result}")
        else:
            _wrote(result, runner.computed - before)
        before = runner.computed
    if failed:
        _say_failed(runner)
        say(f"failed: {', '.join(failed)}")
        raise typer.Exit(FAILED)


def page(output: Output = _RESULTS) -> None:
    """Write one self-contained HTML page, index.html, of the results in the folder."""
    from newnormal_reproduce.report.site import build

    say(f"wrote {build(output)}: open it in a browser")


@contextmanager
def _runner(
    data: list[Path],
    output: Path,
    cache: Path | None,
    processes: int,
    options: list[str] | None = None,
    computed: bool = False,
    files: Sequence[LabelledFile] = (),
    named: list[str] | None = None,
) -> Iterator[Runner]:
    """Give a runner that shows its progress as a bar on standard error."""
    from newnormal.state.targets import check_folder
    from newnormal_reproduce.engine.competitors import overrides
    from newnormal_reproduce.engine.runner import Runner

    check_folder(output, error=ParameterError)
    if cache is not None:
        check_folder(cache, error=ParameterError)
    announce_compiling()
    here = str(Path.cwd())
    if here not in sys.path:  # so that --models finds a class in a module of the working folder
        sys.path.append(here)
    with _progress_bar() as progress:
        runner = Runner(
            data,
            cache=output / ".newnormal-cache" if cache is None else cache,
            processes=processes,
            compute=not computed,
            progress=progress,
            overrides=overrides(options or []),
            series=files,
        )
        if data and not named and not runner.streams.places:
            raise DatasetError(
                f"expected data sets in {', '.join(map(str, data))}, found none",
                hint="`newnormal data list` shows which there are and where to get them",
            )
        yield runner


def _labelled(
    series: list[Path] | None, label: str | None, history: int | None
) -> list[LabelledFile]:
    """Return the files of a user, which have one label and one length of history."""
    from newnormal_reproduce.engine.series import LabelledFile

    if series and label is not None and history is not None:
        return [LabelledFile(path, label, history) for path in series]
    if series or label is not None or history is not None:
        raise ParameterError(
            "expected --series, --label and --history together, found one without another",
            hint="such as --series plant.csv --label fault --history 2000",
        )
    return []


@contextmanager
def _progress_bar() -> Iterator[Callable[[int, int, str], None]]:
    """Give a function of done, total and what, which draws a bar on standard error."""
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import MofNCompleteColumn, Progress, TimeElapsedColumn

    columns = (*Progress.get_default_columns(), MofNCompleteColumn(), TimeElapsedColumn())
    console = Console(stderr=True)
    hidden = not console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=hidden) as bar:
        task = bar.add_task("starting", total=None)

        def progress(done: int, total: int, what: str) -> None:
            bar.update(task, completed=done, total=total, description=escape(shown(what)))

        yield progress


def _exit_if_failed(runner: Runner) -> None:
    if runner.failed or runner.streams.absent:
        _say_failed(runner)
        raise typer.Exit(FAILED)


def _say_failed(runner: Runner) -> None:
    for name, where in runner.streams.absent.items():
        say(f"error: found no {name}: {where}")
    for (what, why), places in runner.failed.items():
        where = f" on {', '.join(places[:_PLACES])}" if places else ""
        where += f" and {len(places) - _PLACES} more" if len(places) > _PLACES else ""
        say(f"error: {what} failed{where}: {why}")


def _wrote(paths: Sequence[Path], computed: int = 0) -> None:
    done = f"computed {computed} results, " if computed else ""
    say(f"{done}wrote {', '.join(map(str, paths))}")


def _seeds(texts: list[str] | None) -> list[int] | None:
    if (numbers := names(texts)) is None:
        return None
    try:
        return [int(text) for text in numbers]
    except ValueError:
        raise ParameterError(
            f"--seeds: expected whole numbers, found {','.join(numbers)}", hint="such as 2021,2022"
        ) from None
