"""The options of how an input is read, the same for every command that reads one."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, Optional, get_type_hints

import typer

from newnormal.cli.options import OWN_CLASSES, FileFormat, OnDuplicate, format_name, names
from newnormal.cli.streams import By, LongLines, StreamNaming, Tag, Value
from newnormal.errors import ParameterError

if TYPE_CHECKING:
    from newnormal.tabular import Reading

_TAKEN = "How the input is read: what is taken"
_WRITTEN = "How the input is read: how it is written (found by itself where it can be)"
_ORDER = "How the input is read: order and time"


class InputOptions(NamedTuple):
    """How a command reads its input: the options of reading, and those of many streams."""

    reading: Reading
    streams: StreamNaming

    def after(self, facts: Mapping[str, Any] | None, *, label: bool = False) -> InputOptions:
        """Return it with what is not given taken from how history was read.

        Parameters
        ----------
        facts
            How history was read; None if that is not known.
        label
            Whether labels are read, too.
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


def _option(*spelled: str, metavar: str | None, panel: str, text: str, **more: Any) -> Any:
    return typer.Option(*spelled, metavar=metavar, help=text, rich_help_panel=panel, **more)


_Text = Optional[str]  # noqa: UP045 - typer evaluates it
_Texts = Optional[list[str]]  # noqa: UP045

_OPTIONS: dict[str, tuple[Any, Any]] = {
    "time": (
        Annotated[
            _Text,
            _option(
                metavar="COLUMN",
                panel=_TAKEN,
                text="The column of times; DATE,TIME for two. Found by itself if there is one.",
            ),
        ],
        None,
    ),
    "columns": (
        Annotated[
            _Texts,
            _option(
                metavar="NAMES", panel=_TAKEN, text="Take only these channels (a,b,c; repeatable)."
            ),
        ],
        None,
    ),
    "drop": (
        Annotated[
            _Texts,
            _option(
                metavar="NAMES", panel=_TAKEN, text="Leave these columns out (a,b,c; repeatable)."
            ),
        ],
        None,
    ),
    "label": (
        Annotated[
            _Text,
            _option(metavar="COLUMN", panel=_TAKEN, text="The column of 0/1 truth: no channel."),
        ],
        None,
    ),
    "rate": (
        Annotated[
            _Texts,
            _option(
                metavar="NAMES",
                panel=_TAKEN,
                text="These columns are counters: take what they rise by, a second.",
            ),
        ],
        None,
    ),
    "ignore_extra": (
        Annotated[
            bool,
            _option(
                "--ignore-extra",
                metavar=None,
                panel=_TAKEN,
                text="Say nothing of columns that are no channel of the detector.",
            ),
        ],
        False,
    ),
    "rows": (
        Annotated[
            _Text,
            _option(
                metavar="FIRST:LAST",
                panel=_TAKEN,
                text="Only these samples, counted from 0: 0:400 are the first 400.",
            ),
        ],
        None,
    ),
    "from_": (
        Annotated[
            _Text,
            _option("--from", metavar="TIME", panel=_TAKEN, text="Only samples from then on."),
        ],
        None,
    ),
    "until": (
        Annotated[
            _Text, _option(metavar="TIME", panel=_TAKEN, text="Only samples before that time.")
        ],
        None,
    ),
    "format": (
        Annotated[
            Optional[FileFormat],  # noqa: UP045
            _option(
                "--input-format",
                metavar="FORMAT",
                panel=_WRITTEN,
                text="If name and content do not show it: " + ", ".join(FileFormat) + ".",
                show_choices=False,
            ),
        ],
        None,
    ),
    "encoding": (
        Annotated[
            _Text, _option(metavar="NAME", panel=_WRITTEN, text="Such as utf-16 or latin-1.")
        ],
        None,
    ),
    "delimiter": (
        Annotated[
            _Text,
            _option(
                metavar="CHAR", panel=_WRITTEN, text="Between cells: one character, tab or space."
            ),
        ],
        None,
    ),
    "decimal": (
        Annotated[_Text, _option(metavar="CHAR", panel=_WRITTEN, text="The decimal point: . or ,")],
        None,
    ),
    "date_format": (
        Annotated[
            _Text,
            _option(
                metavar="PATTERN",
                panel=_WRITTEN,
                text="day-first, month-first, or a pattern such as '%d.%m.%Y %H:%M'.",
            ),
        ],
        None,
    ),
    "tz": (
        Annotated[
            _Text,
            _option(
                metavar="ZONE",
                panel=_WRITTEN,
                text="The zone of local times, such as Europe/Berlin.",
            ),
        ],
        None,
    ),
    "na": (
        Annotated[
            _Texts,
            _option(metavar="WORDS", panel=_WRITTEN, text="Words for missing values: Bad,-"),
        ],
        None,
    ),
    "sheet": (
        Annotated[
            _Text,
            _option(metavar="NAME", panel=_WRITTEN, text="The sheet of an Excel file."),
        ],
        None,
    ),
    "longest_line": (
        Annotated[
            Optional[int],  # noqa: UP045
            _option(
                metavar="BYTES",
                panel=_WRITTEN,
                text="A longer line is refused and skipped.",
                min=1,
                show_default="1000000",
            ),
        ],
        None,
    ),
    "on_duplicate": (
        Annotated[
            Optional[OnDuplicate],  # noqa: UP045
            _option(
                metavar="|".join(OnDuplicate),
                panel=_ORDER,
                text="What counts of several samples of one time.",
                show_choices=False,
                show_default="last; in watch, the first",
            ),
        ],
        None,
    ),
    "reorder": (
        Annotated[
            int,
            _option(
                metavar="N",
                panel=_ORDER,
                text="Hold N samples back to put late ones in their place (watch).",
                min=0,
            ),
        ],
        0,
    ),
    "resample": (
        Annotated[
            _Text,
            _option(
                metavar="TIME",
                panel=_ORDER,
                text="Bring samples to this period, such as 1min, by their mean.",
            ),
        ],
        None,
    ),
}
_STREAMS: dict[str, tuple[Any, Any]] = {
    "by": (By, None),
    "long": (LongLines, False),
    "tag": (Tag, None),
    "value": (Value, None),
}
_SEVERAL = ("columns", "drop", "rate", "na")


def reads_input(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of reading, gathered in its parameter `options`."""
    hints = get_type_hints(command, include_extras=True)
    declared = inspect.signature(command).parameters
    options = {**_STREAMS, **_OPTIONS}
    parameters = [
        each.replace(annotation=hints[name]) for name, each in declared.items() if name != "options"
    ]
    for name, (annotation, default) in options.items():
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        parameters.append(inspect.Parameter(name, kind, default=default, annotation=annotation))
    parameters.sort(key=_is_own_class)  # the order of the help; what is rare comes last

    @wraps(command)
    def run(**arguments: Any) -> None:
        chosen = {name: arguments.pop(name) for name in options}
        command(**arguments, options=_input_options(chosen))

    del run.__wrapped__  # typer would look at its annotations
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    return run


def _is_own_class(parameter: inspect.Parameter) -> bool:
    info = parameter.annotation.__metadata__[0]
    return getattr(info, "rich_help_panel", None) == OWN_CLASSES


def _input_options(chosen: dict[str, Any]) -> InputOptions:
    from newnormal.tabular import Reading

    streams = StreamNaming.of(*(chosen.pop(name) for name in _STREAMS))
    for name in _SEVERAL:
        chosen[name] = names(chosen[name])
    if chosen["time"] is not None:
        chosen["time"] = names([chosen["time"]])
    chosen["format"] = format_name(chosen["format"])
    chosen["on_duplicate"] = format_name(chosen["on_duplicate"])
    return InputOptions(Reading.of(chosen), streams)
