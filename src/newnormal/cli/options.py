"""Options that several commands share: those of detectors, and how an input is read."""

import inspect
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, get_args, get_type_hints

import typer

from newnormal.cli.help import MORE, show_all
from newnormal.errors import ParameterError, StateError

if TYPE_CHECKING:
    from newnormal.tabular import Long, Reading

_COMMA = re.compile(r",(?![^\[({]*[\])}])")


_FORMATS = Literal["csv", "jsonl", "parquet", "excel", "prometheus"]
_DUPLICATES = Literal["last", "mean", "error"]
OWN_CLASSES = f"{MORE}classes of your own"


def option(
    text: str,
    *names: str,
    default: Any = None,
    shown: bool | str = True,
    panel: str | None = None,
    **more: Any,
) -> Any:
    """Return an option of a command, as the default value of its parameter.

    `text` is its help, `names` how it is spelled where that is not the parameter's name. `default`
    is its value where it is left out (... if it must be there), `shown` that as the help has it,
    `panel` the panel of the help, `more` other arguments of typer's.
    """
    more |= {"help": text, "show_default": shown, "rich_help_panel": panel}
    return typer.Option(default, *names, **more)


def argument(text: str, *, default: Any = None, shown: bool | str = True, **more: Any) -> Any:
    """Return an argument of a command, as the default value of its parameter."""
    return typer.Argument(default, help=text, show_default=shown, **more)


Model = Annotated[
    Path, typer.Argument(metavar="MODEL", help="A detector, written by `newnormal fit`.")
]
StateOrFleet = Annotated[
    Path,
    typer.Argument(
        metavar="STATE",
        help="What `watch --state` writes, a detector's file, or the folder of a fleet.",
    ),
]
Input = Annotated[
    str,
    typer.Argument(
        metavar="INPUT", help="CSV, JSON lines, Excel, Parquet, ...; - is standard input."
    ),
]
Stream = Annotated[str, typer.Argument(metavar="STREAM", help="The name of a stream.")]
Frozen = Annotated[
    bool,
    typer.Option("--frozen", help="Hold weights and trend as they are: no learning on the way."),
]


_own_class = partial(option, panel=OWN_CLASSES, metavar="CLASS")


def names(values: list[str] | None) -> list[str] | None:
    """Return the names in repeated, comma-separated options.

    A comma inside brackets is part of a name.

    >>> names(["a,b", "size[/var,free],c"])
    ['a', 'b', 'size[/var,free]', 'c']
    """
    if not values:
        return None
    parts = [name for value in values for name in _COMMA.split(value)]
    return [name.strip() for name in parts if name.strip()]


def samples_or_time(value: str | None) -> float | str | None:
    """Return a number of samples if it is a plain number, else the duration's text."""
    try:
        return None if value is None else float(value)
    except ValueError:
        return value


def importable(path: str) -> str:
    """Return an import path; modules in the current folder can be imported from here on."""
    folder = os.getcwd()
    if ":" in path and folder not in sys.path:
        sys.path.insert(0, folder)
    return path


class Classes(NamedTuple):
    """Import paths of what a state file may hold besides what is built in."""

    model: str | None = None
    threshold: str | None = None

    @classmethod
    def of(
        cls,
        loading: str | None = _own_class(
            "The model of MODEL, where it is not built in: package.module:Class.", "--model"
        ),
        rule: str | None = _own_class(
            "The threshold's rule of MODEL, where it is not built in: package.module:Class.",
            "--threshold",
        ),
    ) -> "Classes":
        """Return the classes that were named; modules in the current folder can be imported."""
        return cls(*(None if path is None else importable(path) for path in (loading, rule)))


class StreamNaming(NamedTuple):
    """How an input holds streams."""

    by: list[str]  # the columns that name the stream; none: there is one stream, or a file a stream
    long: "Long | None"  # the columns of long lines; None for a line a sample

    @classmethod
    def of(
        cls, by: list[str] | None, long: bool, tag: str | None = None, value: str | None = None
    ) -> "StreamNaming":
        """Return them from options."""
        from newnormal.tabular import Long

        for option, column in (("--tag", tag), ("--value", value)):
            if column is not None and not long:
                raise ParameterError(
                    f"{option}: expected only with --long, found it without", hint="add --long"
                )
        return cls(names(by) or [], Long(None, tag, value) if long else None)

    def after(self, by: Sequence[str]) -> "StreamNaming":
        """Return it with the columns of names taken from how history was read, if none is given."""
        return self._replace(by=self.by or list(by))


def is_fleet(path: Path) -> bool:
    """Whether a path is a fleet's: a folder, but not what a `watch` of one stream keeps."""
    from newnormal.fleet.folder.listing import stream_names

    try:
        return path.is_dir() and stream_names(path) != ("",)
    except (FileNotFoundError, StateError):  # what reads the fleet names what is wrong
        return True


def check_streams(fleet: Path, streams: StreamNaming, source: str) -> None:
    """Raise a ParameterError if an input for a fleet does not say which stream a sample is of."""
    if not streams.by and not (source != "-" and Path(source).is_dir()):
        raise ParameterError(
            f"{fleet} is a fleet: expected --by with the column that names the stream, found none",
            hint="add --by COLUMN, such as --by host",
        )


def check_one_stream(path: Path, streams: StreamNaming) -> None:
    """Raise a ParameterError if --by is given for a detector of one stream."""
    if streams.by:
        raise ParameterError(
            f"--by: expected the folder of a fleet, found {path}, which is none",
            hint="`newnormal fit HISTORY --by COLUMN -o FOLDER` makes one; "
            "leave --by out for a detector of one stream",
        )


def stream_text(name: str) -> str:
    """Return what to call a stream in a message; lines that name none are under ""."""
    return f"stream {name!r}" if name else "lines without a stream"


_read = partial(option, panel="How the input is read")
_many = partial(option, panel=f"{MORE}many streams")
_taken = partial(option, panel=f"{MORE}what is read")
_written = partial(option, panel=f"{MORE}how it is written (found by itself where it can be)")
_ordered = partial(option, panel=f"{MORE}order and time")


class InputOptions(NamedTuple):
    """How a command reads its input: the options of reading, and those of many streams."""

    reading: "Reading"
    streams: StreamNaming

    def after(self, facts: Mapping[str, Any] | None, *, label: bool = False) -> "InputOptions":
        """Return it with what is not given taken from how history was read, if that is known.

        With `label`, labels are read, too.
        """
        if facts is None:
            return self
        reading = self.reading.after(facts)
        if label and reading.label is None:
            reading = replace(reading, label=facts["label"])
        return InputOptions(reading, self.streams.after(facts["by"]))

    def check_label(self) -> None:
        """Raise a ParameterError if it is not known where the labels are."""
        if self.reading.label is None:
            raise ParameterError(
                "--label: expected the column of 0/1 truth, found none given",
                hint="name it with --label COLUMN",
            )


_STREAMS = ("by", "long", "tag", "value")
_SEVERAL = ("columns", "drop", "rates", "without", "na")


def with_shared(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options that its parameters `options` and `classes` stand for."""
    hints = get_type_hints(command, include_extras=True)
    declared = inspect.signature(command).parameters
    shared = {
        name: (inspect.signature(make, eval_str=True).parameters, make)
        for name, make in (("options", _input_options), ("classes", Classes.of))
        if name in declared
    }
    parameters = [
        parameter.replace(annotation=hints[name])
        for name, parameter in declared.items()
        if name not in shared
    ]
    parameters += [option for options, _ in shared.values() for option in options.values()]
    parameters.sort(key=_rareness)  # the order of the help
    if any(map(_rareness, parameters)):
        parameters.append(inspect.signature(_with_all).parameters["help_all"])

    @wraps(command)
    def run(help_all: bool = False, **arguments: Any) -> None:
        del help_all
        for name, (options, make) in shared.items():
            arguments[name] = make(**{option: arguments.pop(option) for option in options})
        command(**arguments)

    del run.__wrapped__  # typer would look at its annotations
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def _with_all(
    help_all: bool = option(
        "Show every option and exit.", "--help-all", default=False, is_eager=True, callback=show_all
    ),
) -> None: ...


def _rareness(parameter: inspect.Parameter) -> int:
    """Return 0 for what --help shows, 1 for what --help-all has besides, 2 for what is last."""
    info = getattr(parameter.annotation, "__metadata__", (parameter.default,))[0]
    panel = info.rich_help_panel or ""
    return panel.startswith(MORE) + (panel == OWN_CLASSES)


def _input_options(
    by: list[str] | None = _read(
        "The column that names the stream of a sample (a,b: several, joined by /).",
        metavar="COLUMN",
    ),
    long: bool = _read(
        "A line is a value: its time, its tag (the channel's name) and the value. "
        "Without --by it is one stream.",
        "--long",
        default=False,
    ),
    time: str | None = _read(
        "The column of times; DATE,TIME for two. Found by itself if there is one.", metavar="COLUMN"
    ),
    columns: list[str] | None = _read(
        "Take only these channels (a,b,c; repeatable).", metavar="NAMES"
    ),
    drop: list[str] | None = _read("Leave these columns out (a,b,c; repeatable).", metavar="NAMES"),
    label: str | None = _read("The column of 0/1 truth: no channel.", metavar="COLUMN"),
    tag: str | None = _many("The column of tags with --long; found by its name.", metavar="COLUMN"),
    value: str | None = _many(
        "The column of values with --long; found by its name.", metavar="COLUMN"
    ),
    rates: list[str] | None = _taken(
        "These columns are counters (net_*,hits): take what they rise by, a second.",
        metavar="PATTERNS",
    ),
    without: list[str] | None = _taken(
        "Leave these labels out of the names of channels (series with labels).", metavar="LABELS"
    ),
    ignore_extra: bool = _taken(
        "Say nothing of columns that are no channel of the detector.",
        "--ignore-extra",
        default=False,
    ),
    rows: str | None = _taken(
        "Only these samples, counted from 0: 0:400 are the first 400.", metavar="FIRST:LAST"
    ),
    from_: str | None = _taken("Only samples from then on.", "--from", metavar="TIME"),
    until: str | None = _taken("Only samples before that time.", metavar="TIME"),
    format: _FORMATS | None = _written(  # noqa: A002
        "If name and content do not show it: " + ", ".join(get_args(_FORMATS)) + ".",
        "--input-format",
        metavar="FORMAT",
        show_choices=False,
    ),
    encoding: str | None = _written("Such as utf-16 or latin-1.", metavar="NAME"),
    delimiter: str | None = _written("Between cells: one character, tab or space.", metavar="CHAR"),
    decimal: str | None = _written("The decimal point: . or ,", metavar="CHAR"),
    date_format: str | None = _written(
        "day-first, month-first, or a pattern such as '%d.%m.%Y %H:%M'.", metavar="PATTERN"
    ),
    tz: str | None = _written("The zone of local times, such as Europe/Berlin.", metavar="ZONE"),
    na: list[str] | None = _written("Words for missing values: Bad,-", metavar="WORDS"),
    sheet: str | None = _written("The sheet of an Excel file.", metavar="NAME"),
    longest_line: int | None = _written(
        "A longer line is refused and skipped.", metavar="BYTES", min=1, shown="1000000"
    ),
    on_duplicate: _DUPLICATES | None = _ordered(
        "What counts of several samples of one time.",
        metavar="|".join(get_args(_DUPLICATES)),
        show_choices=False,
        shown="last; in watch, the first",
    ),
    lateness: str | None = _ordered(
        "Wait so long, such as 2m, for samples that are late (watch).", metavar="TIME"
    ),
    resample: str | None = _ordered(
        "Bring samples to this period, such as 1min, by their mean.", metavar="TIME"
    ),
) -> InputOptions:
    """Return how to read an input: `with_shared` gives these options to a command."""
    chosen = dict(locals())
    from newnormal.tabular import Reading

    streams = StreamNaming.of(*(chosen.pop(name) for name in _STREAMS))
    for name in _SEVERAL:
        chosen[name] = names(chosen[name])
    if chosen["time"] is not None:
        chosen["time"] = names([chosen["time"]])
    return InputOptions(Reading.of(chosen), streams)
