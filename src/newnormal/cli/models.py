"""`newnormal put` and `newnormal take`: models into a service that runs, and out of it."""

from pathlib import Path
from typing import Annotated

import typer

from newnormal.cli.console import say
from newnormal.cli.options import Model, Stream

Url = Annotated[
    str, typer.Option("--url", metavar="URL", envvar="NEWNORMAL_URL", help="Where the service is.")
]
Token = Annotated[
    str | None,
    typer.Option("--token", metavar="TOKEN", envvar="NEWNORMAL_TOKEN", help="Its token."),
]
_URL = "http://127.0.0.1:8765"


def put(model: Model, stream: Stream, url: Url = _URL, token: Token = None) -> None:
    """Put a model into a service that runs.

    newnormal put plant.nn press-1

    The stream goes on where the model is: samples that the model has judged are late. A stream that
    has a model goes on with its next sample, and its older model can be restored. The service
    keeps a copy: what it learns does not change the file.
    """
    from newnormal.client import Client

    with Client(url, token) as client:
        client.put(stream, model)
    say(f"{stream} goes on with {model}")


def take(
    stream: Stream,
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FILE", help="Where the model is written.")
    ],
    url: Url = _URL,
    token: Token = None,
) -> None:
    """Take a copy of a stream's model out of a service that runs.

    newnormal take press-1 -o press-1.nn

    It is an ordinary state file with all that was learned: `watch`, `report`, `score` and Python
    read it. The stream goes on as before.
    """
    from newnormal.client import Client
    from newnormal.state import check_target

    check_target(out)
    with Client(url, token) as client:
        client.take(stream).save(out)
    say(f"wrote {out}")
