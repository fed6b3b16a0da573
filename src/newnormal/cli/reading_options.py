"""The options of how an input is read, the same for every command that reads one."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, NamedTuple, get_type_hints

from newnormal.cli.options import OWN_CLASSES, FileFormat, OnDuplicate, format_name, names, option
from newnormal.cli.streams import StreamNaming
from newnormal.errors import ParameterError

if TYPE_CHECKING:
    from newnormal.tabular import Reading

_many = partial(option, panel="How the input is read: many streams")
_taken = partial(option, panel="How the input is read: what is taken")
_written = partial(
    option, panel="How the input is read: how it is written (found by itself where it can be)"
)
_ordered = partial(option, panel="How the input is read: order and time")


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


def _declared(
    by: list[str] | None = _many(
        "The column that names the stream of a sample (a,b: several, joined by /).",
        metavar="COLUMN",
    ),
    long: bool = _many(
        "A line is a value: its time, its tag (the channel's name) and the value. "
        "Without --by it is one stream.",
        "--long",
        default=False,
    ),
    tag: str | None = _many("The column of tags with --long; found by its name.", metavar="COLUMN"),
    value: str | None = _many(
        "The column of values with --long; found by its name.", metavar="COLUMN"
    ),
    time: str | None = _taken(
        "The column of times; DATE,TIME for two. Found by itself if there is one.", metavar="COLUMN"
    ),
    columns: list[str] | None = _taken(
        "Take only these channels (a,b,c; repeatable).", metavar="NAMES"
    ),
    drop: list[str] | None = _taken(
        "Leave these columns out (a,b,c; repeatable).", metavar="NAMES"
    ),
    label: str | None = _taken("The column of 0/1 truth: no channel.", metavar="COLUMN"),
    rate: list[str] | None = _taken(
        "These columns are counters: take what they rise by, a second.", metavar="NAMES"
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
    format: FileFormat | None = _written(  # noqa: A002
        "If name and content do not show it: " + ", ".join(FileFormat) + ".",
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
    on_duplicate: OnDuplicate | None = _ordered(
        "What counts of several samples of one time.",
        metavar="|".join(OnDuplicate),
        show_choices=False,
        shown="last; in watch, the first",
    ),
    reorder: int = _ordered(
        "Hold N samples back to put late ones in their place (watch).",
        default=0,
        metavar="N",
        min=0,
    ),
    resample: str | None = _ordered(
        "Bring samples to this period, such as 1min, by their mean.", metavar="TIME"
    ),
) -> None:
    """Declare the options of reading: `reads_input` gives them to a command."""


_STREAMS = ("by", "long", "tag", "value")
_SEVERAL = ("columns", "drop", "rate", "na")


def reads_input(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of reading, gathered in its parameter `options`."""
    hints = get_type_hints(command, include_extras=True)
    declared = inspect.signature(command).parameters
    options = inspect.signature(_declared, eval_str=True).parameters
    parameters = [
        parameter.replace(annotation=hints[name])
        for name, parameter in declared.items()
        if name != "options"
    ]
    parameters += options.values()
    parameters.sort(key=_is_own_class)  # the order of the help; what is rare comes last

    @wraps(command)
    def run(**arguments: Any) -> None:
        chosen = {name: arguments.pop(name) for name in options}
        command(**arguments, options=_input_options(chosen))

    del run.__wrapped__  # typer would look at its annotations
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def _is_own_class(parameter: inspect.Parameter) -> bool:
    info = getattr(parameter.annotation, "__metadata__", (parameter.default,))[0]
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
