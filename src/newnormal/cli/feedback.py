"""`newnormal feedback`: what a person decides about an alarm or a change."""

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
        typer.Option(
            metavar="NUMBER", help="This alarm; one of the last 100, also if it is over.", min=1
        ),
    ] = None,
    change: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(metavar="NUMBER", help="This change, which is open.", min=1),
    ] = None,
    model: Loading = None,
    rule: Rule = None,
) -> None:
    """Accept a change or an alarm as normal, reject it as a fault, or undo the newest acceptance.

    newnormal feedback plant.state reject --change 3

    Without a number it is about the newest pending change, or else the newest open alarm. A running
    `watch` of this state applies it before its next samples.
    """
    from newnormal.runtime.submit import submit

    named = {"--alarm": alarm, "--change": change}
    given = [f"{option} {number}" for option, number in named.items() if number is not None]
    if act is Act.rollback and given:
        raise ParameterError(
            f"expected no number with rollback, found {' and '.join(given)}",
            hint="rollback undoes the newest acceptance",
        )
    if len(given) > 1:
        raise ParameterError(
            f"expected --alarm or --change, found {' and '.join(given)}",
            hint="an alarm that a change began with means that change",
        )
    classes = Classes.of(model, rule)
    submit(state, act, alarm, say, lambda found, origin: from_state(found, origin, classes), change)
