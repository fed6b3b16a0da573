"""`newnormal store`: what a service keeps; check it, copy it, put a copy back."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from newnormal.cli.console import FAILED, put

store_app = typer.Typer(help="Check, back up and restore what `newnormal serve` keeps.")

Folder = Annotated[
    Path, typer.Argument(metavar="FOLDER", help="Where `newnormal serve` keeps its data.")
]


@store_app.command()
def check(folder: Folder) -> None:
    """Verify every sample, record and model of a service, which may be running."""
    from newnormal.service.store.checking import check as verify

    report = verify(folder)
    put(str(report))
    if not report.ok:
        sys.exit(FAILED)


@store_app.command()
def backup(
    folder: Folder,
    copy: Annotated[
        Path, typer.Argument(metavar="COPY", help="A folder to make, with the copy in it.")
    ],
) -> None:
    """Copy what a service keeps, while it runs, and verify the copy."""
    from newnormal.service.store.backup import backup as make

    put(str(make(folder, copy)))


@store_app.command()
def restore(
    folder: Folder,
    copy: Annotated[Path, typer.Argument(metavar="COPY", help="Made by `newnormal store backup`.")],
    overwrite: Annotated[
        bool,
        typer.Option(
            "--overwrite", help="Move what is in FOLDER to FOLDER/before-restore-1 first."
        ),
    ] = False,
) -> None:
    """Put a copy in the place of what a service keeps; the service must be stopped."""
    from newnormal.service.store.backup import restore as put_back

    put(str(put_back(folder, copy, overwrite=overwrite)))
