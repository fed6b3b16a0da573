"""Help that reads well at 80 columns: paragraphs are broken by the terminal, flags have no type."""

import re
from typing import Any

from typer.core import TyperCommand, TyperGroup


def paragraphs(text: str | None) -> str | None:
    r"""Return a docstring with each paragraph in one line.

    >>> paragraphs("One.\n\nTwo is long,\nand goes on.")
    'One.\n\nTwo is long, and goes on.'
    """
    return None if text is None else re.sub(r"(?<!\n)\n[ \t]*(?!\n)", " ", text.strip())


def _without_types(params: list[Any]) -> list[Any]:
    """Return parameters, of which flags are shown without a type: it says nothing."""
    for parameter in params:
        if getattr(parameter, "is_flag", False) and parameter.metavar is None:
            parameter.metavar = ""
    return params


class _Readable:
    """What commands and groups of them have in common."""

    help: str | None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.help = paragraphs(self.help)

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters, --help among them."""
        return _without_types(super().get_params(ctx))  # type: ignore[misc]


class Command(_Readable, TyperCommand):
    """A command of the command line."""


class CommandGroup(_Readable, TyperGroup):
    """A command that has commands."""
