"""`newnormal accept`, `reject` and `undo`: what a person decides about an alarm or a change."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from newnormal.cli.console import say
from newnormal.cli.options import Classes, StateOrFleet, is_fleet, with_shared
from newnormal.errors import ParameterError

Stream = Annotated[
    str | None,
    typer.Argument(metavar="[STREAM]", help="The stream of a fleet.", show_default=False),
]
AlarmNumber = Annotated[
    int | None,
    typer.Option(
        metavar="NUMBER", help="This alarm; one of the last 100, also if it is over.", min=1
    ),
]
ChangeNumber = Annotated[
    int | None, typer.Option(metavar="NUMBER", help="This change, which is open.", min=1)
]


def _decision(verb: str, what: str) -> Callable[..., None]:
    """Return the command that accepts or rejects; `what` it does is the first line of its help."""

    def decide(
        state: StateOrFleet,
        stream: Stream = None,
        alarm: AlarmNumber = None,
        change: ChangeNumber = None,
        *,
        classes: Classes,
    ) -> None:
        _submit(verb, state, stream, classes, alarm, change)

    decide.__name__ = verb
    decide.__doc__ = f"""{what}

    newnormal {verb} plant.state --change 3

    newnormal {verb} fleet.state web-1

    Without a number it is about the newest pending change, or else the newest open alarm. A process
    that uses the folder applies it before its next samples.
    """
    return with_shared(decide)


accept = _decision("accept", "Accept a change or an alarm as normal.")
reject = _decision(
    "reject", "Reject a change or an alarm as a fault: it stays one, however long it lasts."
)


@with_shared
def undo(state: StateOrFleet, stream: Stream = None, *, classes: Classes) -> None:
    """Undo the newest acceptance.

    newnormal undo plant.state

    newnormal undo fleet.state web-1

    A process that uses the folder applies it before its next samples.
    """
    _submit("undo", state, stream, classes)


def _submit(
    verb: str,
    state: Path,
    stream: str | None,
    classes: Classes,
    alarm: int | None = None,
    change: int | None = None,
) -> None:
    from newnormal.engine.folder import is_engine_folder
    from newnormal.runtime.feedback import decide

    if alarm is not None and change is not None:
        raise ParameterError(
            f"expected --alarm or --change, found --alarm {alarm} and --change {change}",
            hint="an alarm that a change began with means that change",
        )
    if not state.exists():
        raise ParameterError(
            f"expected the folder of a `watch` or of a service, found no folder {state}",
            hint=f"newnormal watch MODEL INPUT --state {state} makes one",
        )
    if not is_engine_folder(state):
        raise ParameterError(
            f"expected the folder of a `watch` or of a service, found {state}",
            hint=f"newnormal watch {state} INPUT --state FOLDER makes one",
        )
    if is_fleet(state) and stream is None:
        raise ParameterError(
            f"{state} has many streams: expected a stream after it, found none",
            hint=f"newnormal {verb} {state} STREAM",
        )
    if stream is not None and not is_fleet(state):
        raise ParameterError(
            f"expected no stream with a detector of one stream, found {stream}",
            hint=f"newnormal {verb} {state}",
        )
    decide(state, stream or "", verb, alarm, change, say, classes)
