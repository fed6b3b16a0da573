"""`newnormal feedback`: what a person decides about an alarm."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from newnormal.cli.console import say
from newnormal.cli.options import Classes, Loading, Rule, from_state
from newnormal.errors import ParameterError
from newnormal.runtime.feedback import Act

__all__ = ["feedback"]


def feedback(
    state: Annotated[
        Path,
        typer.Argument(metavar="STATE", help="What `watch --state` writes, or a detector's file."),
    ],
    act: Annotated[Act, typer.Argument(metavar="ACT", help="accept, reject or rollback.")],
    alarm: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(metavar="NUMBER", help="Only if this is the open alarm.", min=1),
    ] = None,
    model: Loading = None,
    rule: Rule = None,
) -> None:
    """Accept an alarm as a new normal, reject it as a fault, or undo an acceptance (rollback).

    newnormal feedback plant.state reject --alarm 3

    A running `watch` of this state applies it before its next samples.
    """
    from newnormal.runtime.submit import submit

    if act is Act.rollback and alarm is not None:
        raise ParameterError(
            f"--alarm: expected none with rollback, found {alarm}",
            hint="rollback undoes the newest acceptance",
        )
    classes = Classes.of(model, rule)
    submit(state, act, alarm, say, lambda found, origin: from_state(found, origin, classes))
