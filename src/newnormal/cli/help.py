"""Help that reads well: on a terminal in boxes, elsewhere a line an option.

--help has the options that people need, --help-all those of panels that begin with `MORE`, too.
"""

import re
from collections.abc import Iterator
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from newnormal.cli.console import has_width
from newnormal.texts import UNBROKEN

MORE = "More: "
_BRIEF = "newnormal.brief"  # in the context: whether panels with more are left out


def paragraphs(text: str | None) -> str:
    r"""Return a docstring with each paragraph in one line.

    >>> paragraphs("One.\n\nTwo is long,\nand goes on.")
    'One.\n\nTwo is long, and goes on.'
    """
    return re.sub(r"(?<!\n)\n[ \t]*(?!\n)", " ", (text or "").strip())


def show_all(ctx: typer.Context, chosen: bool) -> None:
    """Print the help with every option, and exit: the callback of --help-all."""
    if chosen:
        ctx.meta[_BRIEF] = False
        typer.echo(ctx.get_help())
        raise typer.Exit


def _panel(parameter: Any) -> str:
    usual = "Arguments" if parameter.param_type_name == "argument" else "Options"
    return getattr(parameter, "rich_help_panel", None) or usual


class _Readable:
    """What commands and groups of them have in common."""

    help: Any
    epilog: Any
    rich_markup_mode: Any
    get_usage: Any

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.help, self.epilog = paragraphs(self.help), paragraphs(self.epilog)

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run it; what is wrong with its arguments is in a box as the help is, or plain, too."""
        if not has_width():
            self.rich_markup_mode = None
        return super().main(*args, **kwargs)  # type: ignore[misc]

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters, --help among them; flags have no type, which says nothing."""
        params: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for parameter in params:
            if getattr(parameter, "is_flag", False) and parameter.metavar is None:
                parameter.metavar = ""
        brief = ctx.meta.get(_BRIEF, False)
        return [option for option in params if not (brief and _panel(option).startswith(MORE))]

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help: in boxes where there is a width, else plain and without broken lines."""
        every = len(self.get_params(ctx))
        ctx.meta.setdefault(_BRIEF, True)
        left = every - len(self.get_params(ctx))
        if has_width():
            super().format_help(ctx, formatter)  # type: ignore[misc]
        else:
            self._format_plain(ctx, formatter)
        if left:
            formatter.write(f"\n{left} more options: {ctx.command_path} --help-all\n")

    def _format_plain(self, ctx: Any, formatter: Any) -> None:
        formatter.width = UNBROKEN
        formatter.write(f"{self.get_usage(ctx)}\n\n{self.help}\n")
        panels: dict[str, list[tuple[str, str]]] = {}
        for panel, row in self._rows(ctx):
            panels.setdefault(panel, []).append(row)
        for panel, rows in panels.items():
            with formatter.section(panel):
                formatter.write_dl(rows, col_max=UNBROKEN)
        if self.epilog:
            formatter.write(f"\n{self.epilog}\n")

    def _rows(self, ctx: Any) -> Iterator[tuple[str, tuple[str, str]]]:
        """Yield the name of its panel, and the name and the help, of each parameter and command."""
        for parameter in self.get_params(ctx):
            if (record := parameter.get_help_record(ctx)) is not None:
                yield _panel(parameter), record
        for name, command in getattr(self, "commands", {}).items():
            yield command.rich_help_panel or "Commands", (name, command.help.partition("\n")[0])


class Command(_Readable, TyperCommand):
    """A command of the command line."""


class CommandGroup(_Readable, TyperGroup):
    """A command that has commands."""
