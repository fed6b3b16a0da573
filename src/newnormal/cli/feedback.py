"""`newnormal feedback`: what a person decides about an alarm or a change."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from newnormal.cli.console import say
from newnormal.cli.options import Classes, Loading, Rule, from_state
from newnormal.cli.streams import is_fleet
from newnormal.errors import ParameterError

if TYPE_CHECKING:
    from newnormal.runtime.feedback import Act


def feedback(
    state: Annotated[
        Path,
        typer.Argument(
            metavar="STATE",
            help="What `watch --state` writes, a detector's file, or the folder of a fleet.",
        ),
    ],
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="[STREAM] ACT",
            help="accept, reject or rollback; of a fleet, the stream before it.",
        ),
    ],
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

    newnormal feedback plant.fleet web-1 accept

    Without a number it is about the newest pending change, or else the newest open alarm. A running
    `watch` of this state applies it before its next samples.
    """
    from newnormal.runtime.feedback import Act

    act, stream = _parsed(state, words)
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
    if stream is not None:
        from newnormal.runtime import fleet_feedback

        fleet_feedback.submit(state, stream, act, alarm, say, change, classes)
        return
    from newnormal.runtime.submit import submit

    submit(state, act, alarm, say, lambda found, origin: from_state(found, origin, classes), change)


def _parsed(state: Path, words: list[str]) -> tuple[Act, str | None]:
    """Return the act, and the stream of a fleet."""
    from newnormal.runtime.feedback import Act

    *streams, word = words
    if word not in list(Act):
        raise typer.BadParameter(f"{word!r} is not one of {', '.join(Act)}", param_hint="ACT")
    if len(streams) > 1:
        raise typer.BadParameter(f"expected one STREAM, found {' '.join(streams)}")
    if is_fleet(state) and not streams:
        raise ParameterError(
            f"{state} is a fleet: expected a stream before {word}, found none",
            hint=f"newnormal feedback {state} STREAM {word}",
        )
    if streams and not is_fleet(state):
        raise ParameterError(
            f"expected no stream with a detector of one stream, found {streams[0]}",
            hint=f"newnormal feedback {state} {word}",
        )
    return Act(word), streams[0] if streams else None
