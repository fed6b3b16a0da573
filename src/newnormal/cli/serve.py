"""`newnormal serve`: the service, its data folder, and the tokens of those who may use it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from newnormal.cli.console import FAILED, put, say
from newnormal.cli.help import Command, CommandGroup
from newnormal.cli.options import argument, option
from newnormal.errors import ParameterError
from newnormal.texts import shown

if TYPE_CHECKING:
    from newnormal.engine.store import Store
    from newnormal.service.config import ServiceConfig

_STORE = "store.sqlite"
_TOKENS = "tokens"


class ServeGroup(CommandGroup):
    """A command with an optional FILE that has commands besides."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take the first word for a command if it is the name of one, else for FILE."""
        first = bool(args) and args[0] in self.commands
        second = len(args) > 1 and not args[0].startswith("-") and args[1] in self.commands
        # Options may come after FILE; those after the name of a command belong to that.
        ctx.allow_interspersed_args = not (first or second)
        rest: list[str] = super().parse_args(ctx, ["", *args] if first else args)
        return rest


serve_app = typer.Typer(cls=ServeGroup, invoke_without_command=True)
token_app = typer.Typer(help="Tokens of those who may use the service.", no_args_is_help=True)
serve_app.add_typer(token_app, name="token", cls=CommandGroup)

Data = Annotated[
    Path | None, typer.Option("--data", metavar="FOLDER", help="The folder that keeps everything.")
]
_WHERE = "newnormal-data"


@serve_app.callback()
def serve(
    ctx: typer.Context,
    file: str | None = argument("A configuration, such as service.toml.", metavar="FILE"),
    host: str | None = option("The address to listen on.", shown="127.0.0.1"),
    port: int | None = option("The port to listen on.", metavar="N", shown="8765"),
    data: Path | None = option("The folder that keeps everything.", metavar="FOLDER", shown=_WHERE),
    public_url: str | None = option(
        "How people reach the page, for links in alerts.", metavar="URL"
    ),
    workers: int | None = option(
        "How many processes fit models.", metavar="N", shown="the processors less one, at most 4"
    ),
    token_file: Path | None = option("A file with a token that may do everything.", metavar="PATH"),
    insecure: bool = option(
        "Everybody who reaches --host may do everything.", "--insecure", default=False
    ),
    assignments: list[str] | None = option(
        "Any other setting, such as limits.streams=100.", "--set", metavar="NAME=VALUE"
    ),
    demo: bool = option("Twenty simulated machines send samples.", "--demo", default=False),
    check: bool = option(
        "Check the configuration, try each connection, and end.", "--check", default=False
    ),
) -> None:
    """Watch streams that come over HTTP, and show them on a page.

    newnormal serve --demo

    newnormal serve service.toml --check

    newnormal serve token add grafana --role read

    newnormal serve service.toml token add grafana --role read

    It listens on http://127.0.0.1:8765 and keeps everything in ./newnormal-data. Every setting can
    come from FILE, from an environment variable such as NEWNORMAL_SERVE_PORT, or from an option,
    which goes before both. SIGTERM ends it when all that came is kept; SIGHUP reads FILE again.
    """
    if ctx.invoked_subcommand is not None:
        ctx.obj = file or None
        return
    options: dict[str, Any] = {
        "host": host,
        "port": port,
        "data": data,
        "public_url": public_url,
        "workers": workers,
        "token_file": token_file,
        "insecure": insecure or None,
        "demo": demo or None,
        **dict(_assigned(assignments or [])),
    }

    def load() -> ServiceConfig:
        from newnormal.service.config_file import load_config

        return load_config(_config_path(file), os.environ, options)

    config = load()
    if check:
        from newnormal.cli.serving import check as check_all

        check_all(config, check_reachable)
        return
    with _data_folder(config) as kept:
        _serve(kept, load)


def _config_path(file: str | None) -> Path | None:
    """Return the path of the configuration: of the command line, else of the environment."""
    from newnormal.service.config_file import PREFIX

    path = file or os.environ.get(f"{PREFIX}CONFIG")
    return Path(path) if path else None


def _serve(config: ServiceConfig, load: Callable[[], ServiceConfig]) -> None:
    from newnormal.cli.bars import compile_first
    from newnormal.cli.serving import run
    from newnormal.service.connectors import check_connections
    from newnormal.service.demo import demo_config

    check_reachable(config)
    check_connections(config)
    again = (lambda: demo_config(load())) if config.demo else load
    run(config, again, prepare=partial(compile_first, "serve"))


def _assigned(assignments: list[str]) -> Iterator[tuple[str, str]]:
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        if not equals or not name.strip():
            raise ParameterError(
                f"--set: expected NAME=VALUE, found {assignment!r}",
                hint="such as --set limits.streams=100",
            )
        yield name.strip(), value.strip()


@contextmanager
def _data_folder(config: ServiceConfig) -> Iterator[ServiceConfig]:
    """Give a demo without a folder of its own one that is removed afterwards."""
    from dataclasses import replace
    from tempfile import TemporaryDirectory

    from newnormal.service.config import ServiceConfig as Defaults
    from newnormal.service.demo import demo_config

    if not config.demo:
        yield config
    elif config.data != Defaults().data:
        yield demo_config(config)
    else:
        with TemporaryDirectory(prefix="newnormal-demo-", ignore_cleanup_errors=True) as folder:
            yield demo_config(replace(config, data=Path(folder)))


def check_reachable(config: ServiceConfig) -> None:
    """Raise an error if others can reach the service and nothing holds them off."""
    from newnormal.service.config import is_loopback

    if is_loopback(config.host) or config.insecure or config.tokens or _stored(config.data):
        return
    raise ParameterError(
        f"--host {config.host}: expected a token, because other machines can reach this address, "
        "found none",
        hint=f"newnormal serve token add NAME --role operate --data {config.data} makes one; "
        "--insecure allows everything to everybody",
    )


@serve_app.command(cls=Command)
def dashboard() -> None:
    """Print a dashboard of the service and its streams, for Grafana to import.

    newnormal serve dashboard > newnormal.json
    """
    put(_monitoring("dashboard.json"))


@serve_app.command(cls=Command)
def rules() -> None:
    """Print alerting rules about the service and its streams, for Prometheus.

    newnormal serve rules > newnormal-rules.yml
    """
    put(_monitoring("rules.yml"))


def _monitoring(name: str) -> str:
    from importlib.resources import files

    file = files("newnormal.service") / "monitoring" / name
    return file.read_text(encoding="utf-8").rstrip("\n")


Folder = Annotated[
    Path, typer.Argument(metavar="FOLDER", help="Where `newnormal serve` keeps its data.")
]


@serve_app.command(cls=Command)
def verify(
    folder: Folder,
    repair: bool = option(
        "Go on without what the log has lost; the service must be stopped.",
        "--repair",
        default=False,
    ),
) -> None:
    """Verify every sample, record and model of a service, which may be running."""
    from newnormal.engine.repairing import repair as repair_folder
    from newnormal.engine.store.checking import check as check_folder

    for line in repair_folder(folder) if repair else ():
        put(line)
    report = check_folder(folder)
    put(str(report))
    if not report.ok:
        sys.exit(FAILED)


@serve_app.command(cls=Command)
def backup(
    folder: Folder,
    copy: Path = argument("A folder to make, with the copy in it.", metavar="COPY", default=...),
) -> None:
    """Copy what a service keeps, while it runs, and verify the copy."""
    from newnormal.engine.store.backup import backup as make

    put(str(make(folder, copy)))


@serve_app.command(cls=Command)
def restore(
    folder: Folder,
    copy: Path = argument("Made by `newnormal serve backup`.", metavar="COPY", default=...),
    overwrite: bool = option(
        "Move what is in FOLDER to FOLDER/before-restore-1 first.", "--overwrite", default=False
    ),
) -> None:
    """Put a copy in the place of what a service keeps; the service must be stopped."""
    from newnormal.engine.store.backup import restore as put_back

    put(str(put_back(folder, copy, overwrite=overwrite)))


def _stored(folder: Path) -> dict[str, Any]:
    if not (folder / _STORE).exists():
        return {}
    with _opened(folder) as store:
        return dict(store.settings.all(_TOKENS))


@contextmanager
def _opened(folder: Path) -> Iterator[Store]:
    """Open the store of a data folder beside a service that may be running."""
    from newnormal.engine.store import Store

    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    store = Store(folder / _STORE)
    try:
        yield store
    finally:
        store.close()


def _folder(ctx: typer.Context, data: Path | None) -> Path:
    """Return the data folder of --data, else of the environment, else of FILE."""
    from newnormal.service.config_file import data_folder

    return data_folder(_config_path(ctx.obj), os.environ, data)


@token_app.command(cls=Command)
def add(
    ctx: typer.Context,
    name: str = argument("Who or what will use it.", metavar="NAME", default=...),
    role: str = option(
        "read: look at everything; write: send samples too; operate: decide too.",
        metavar="read|write|operate",
        default="read",
    ),
    data: Data = None,
) -> None:
    """Make a token, print it once, and keep only its hash. A running service takes it at once."""
    import time

    from newnormal.service.config import TokenConfig, hash_token, new_token

    token = new_token()
    made = TokenConfig(name, role, hash_token(token))
    folder = _folder(ctx, data)
    with _opened(folder) as store:
        if store.settings.get(_TOKENS, name) is not None:
            raise ParameterError(
                f"expected a name that has no token yet, found {name}",
                hint=f"newnormal serve token remove {name}, or choose another name",
            )
        kept = {"role": made.role, "hash": made.hash, "made": time.time_ns()}
        store.settings.put(_TOKENS, name, kept)
    put(token)
    say(f"{name} may {role}; this is the only time that the token is shown")


@token_app.command("list", cls=Command)
def list_tokens(ctx: typer.Context, data: Data = None) -> None:
    """List the names and roles of all tokens of a data folder."""
    import numpy as np

    tokens = _stored(_folder(ctx, data))
    for name, token in sorted(tokens.items()):
        made = np.datetime64(int(token.get("made", 0)), "ns").astype("datetime64[s]")
        put(f"{token['role']:<8} {made}Z {shown(name)}")
    if not tokens:
        say("there are none; newnormal serve token add NAME makes one")


@token_app.command(cls=Command)
def remove(
    ctx: typer.Context,
    name: str = argument("Whose token it is.", metavar="NAME", default=...),
    data: Data = None,
) -> None:
    """Remove a token. A running service refuses it within seconds, and ends its sessions."""
    folder = _folder(ctx, data)
    if name not in _stored(folder):
        raise ParameterError(
            f"expected the name of a token, found {name}",
            hint="newnormal serve token list has the names",
        )
    with _opened(folder) as store:
        store.settings.delete(_TOKENS, name)
    say(f"removed {name}")
