"""Read the configuration: a TOML file, the environment, and options of the command line.

Options go before the environment, the environment before the file, the file before defaults.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from newnormal.errors import ParameterError
from newnormal.service.config import (
    OPERATE,
    Limits,
    Override,
    Retention,
    ServiceConfig,
    SinkConfig,
    SourceConfig,
    StreamDefaults,
    TokenConfig,
)
from newnormal.service.secrets import hash_token, is_token_hash, read_secret, read_secret_file
from newnormal.service.settings import Setting, nearest, parse_json, settings_of

PREFIX = "NEWNORMAL_SERVE_"
_SECTIONS: dict[str, type] = {
    "": ServiceConfig,
    "streams": StreamDefaults,
    "limits": Limits,
    "retention": Retention,
}
# Tables that may be there more than once, with the variables that have them as JSON.
_SEVERAL = {"stream": "STREAM", "token": "TOKENS", "sinks": "SINKS", "sources": "SOURCES"}
_SECRETS = re.compile(r"(^|_)(secret|password|passphrase|token|api_key|credential)s?$")
_IN_ADDRESS = re.compile(r"^[a-z][a-z0-9+.-]*://[^/?#]*:[^/?#]*@")
_TOKENS = ("TOKEN", "TOKEN_FILE")


class KnownSetting(NamedTuple):
    """A setting and how it is written in each place."""

    name: str  # with its table, such as ``"limits.streams"``
    variable: str  # its environment variable
    setting: Setting


def known_settings() -> dict[str, KnownSetting]:
    """Return every setting that has one value, by its name with its table.

    >>> known_settings()["limits.streams"].variable
    'NEWNORMAL_SERVE_LIMITS_STREAMS'
    """
    settings = {}
    for section, cls in _SECTIONS.items():
        for setting in settings_of(cls).values():
            name = f"{section}.{setting.name}" if section else setting.name
            variable = PREFIX + name.replace(".", "_").upper()
            settings[name] = KnownSetting(name, variable, setting)
    return settings


def load_config(
    path: Path | None = None,
    environ: Mapping[str, str] | None = None,
    options: Mapping[str, Any] | None = None,
) -> ServiceConfig:
    """Return the configuration.

    Parameters
    ----------
    path
        A TOML file; None: without one.
    environ
        Environment variables, of which those with `PREFIX` are read.
    options
        Values by name, such as ``{"port": 9000, "limits.streams": "100"}``; those that are None
        are not given. ``"token_file"`` is the path of a file with a token that may operate.

    Raises
    ------
    ParameterError
        Naming the file, the table and the key, the variable or the option; what was expected and
        what was found.
    """
    environ = environ or {}
    tables: dict[str, Any] = {}
    values: dict[str, Any] = {}
    if path is not None:
        tables = _read(path)
        values = dict(_of_file(tables, path))
    several = {name: (tables[name], str(path)) for name in _SEVERAL if name in tables}
    base = Path() if path is None else path.parent
    settings = known_settings()
    variables = {setting.variable: setting for setting in settings.values()}
    tables_of = {rest: name for name, rest in _SEVERAL.items()}
    for variable, text in environ.items():
        if not variable.startswith(PREFIX) or not text:
            continue
        rest = variable.removeprefix(PREFIX)
        if variable in variables:
            setting = variables[variable]
            values[setting.name] = setting.setting.parse(text, variable, text=True)
        elif rest in tables_of:
            several[tables_of[rest]] = (parse_json(text, variable), variable)
        elif rest not in (*_TOKENS, "CONFIG"):
            names = [*variables, *(PREFIX + rest for rest in tables_of)]
            raise ParameterError(
                f"{variable}: expected a setting of the service, found an unknown one",
                hint=nearest(variable, names),
            )
    chosen = {name: value for name, value in (options or {}).items() if value is not None}
    token_file = chosen.pop("token_file", environ.get(f"{PREFIX}TOKEN_FILE") or None)
    for name, value in chosen.items():
        if name not in settings:
            raise ParameterError(
                f"--set {name}: expected a setting of the service, found an unknown one",
                hint=nearest(name, settings),
            )
        plain = str(value) if isinstance(value, Path) else value
        values[name] = settings[name].setting.parse(plain, _option(name), text=True)
    tokens = [
        *_tokens(several, base, environ),
        *_given_tokens(token_file, environ.get(f"{PREFIX}TOKEN")),
    ]
    return _made(values, several, tokens, path)


def data_folder(path: Path | None, environ: Mapping[str, str], option: Path | None) -> Path:
    """Return the folder that keeps everything; secrets that the configuration names are not read.

    The option of the command line goes before the environment, which goes before the file.
    """
    variable = f"{PREFIX}DATA"
    if option is None and path is not None and not environ.get(variable):
        option = dict(_of_file(_read(path), path)).get("data")
    return load_config(None, {variable: environ.get(variable, "")}, {"data": option}).data


def _made(
    values: Mapping[str, Any],
    several: Mapping[str, tuple[Any, str]],
    tokens: list[TokenConfig],
    path: Path | None,
) -> ServiceConfig:
    base = Path() if path is None else path.parent
    sections: dict[str, dict[str, Any]] = {section: {} for section in _SECTIONS}
    for name, value in values.items():
        section, _, key = name.rpartition(".")
        sections[section][key] = value
    return ServiceConfig(
        **sections[""],
        streams=StreamDefaults(**sections["streams"]),
        limits=Limits(**sections["limits"]),
        retention=Retention(**sections["retention"]),
        overrides=tuple(_overrides(several)),
        tokens=tuple(tokens),
        sinks=tuple(SinkConfig(*each) for each in _connections("sinks", several, base)),
        sources=tuple(SourceConfig(*each) for each in _connections("sources", several, base)),
        path=path,
    )


def _option(name: str) -> str:
    flags = ("host", "port", "data", "public_url", "workers", "insecure", "demo")
    return f"--{name.replace('_', '-')}" if name in flags else f"--set {name}"


def _read(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            return tomllib.load(file)
    except OSError as error:
        raise ParameterError(
            f"{path}: expected a configuration, could not read it: {error.strerror}",
            hint="newnormal serve without a file starts with defaults",
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ParameterError(
            f"{path}: expected TOML, found: {error}",
            hint='text is in quotation marks, such as host = "127.0.0.1"',
        ) from None


def _of_file(tables: Mapping[str, Any], path: Path) -> Iterator[tuple[str, Any]]:
    """Give the values of the settings that a file has, by their names with the table."""
    for key, value in tables.items():
        if key in _SEVERAL:
            continue
        if key in _SECTIONS and key:
            for name, parsed in _settings(value, settings_of(_SECTIONS[key]), f"{path}, [{key}]"):
                yield f"{key}.{name}", parsed
        else:
            settings = settings_of(ServiceConfig)
            if key not in settings:
                raise ParameterError(
                    f"{path}, {key}: expected a setting or a table of the service, "
                    "found an unknown one",
                    hint=nearest(key, [*settings, *filter(None, _SECTIONS), *_SEVERAL]),
                )
            parsed = settings[key].parse(value, f"{path}, {key}")
            # What a file names lies beside it, wherever the service is started.
            yield key, path.parent / parsed if isinstance(parsed, Path) else parsed


def _settings(
    table: object, settings: Mapping[str, Setting], where: str
) -> Iterator[tuple[str, Any]]:
    if not isinstance(table, Mapping):
        raise ParameterError(
            f"{where}: expected a table, found {table!r}", hint=f"known are {', '.join(settings)}"
        )
    for key, value in table.items():
        if key not in settings:
            raise ParameterError(
                f"{where} {key}: expected a setting, found an unknown one",
                hint=nearest(key, settings),
            )
        yield key, settings[key].parse(value, f"{where} {key}")


def _listed(
    name: str, several: Mapping[str, tuple[Any, str]], hint: str
) -> Iterator[tuple[dict[str, Any], str]]:
    """Give the tables of an array of tables, with the words that name each in errors."""
    tables, origin = several.get(name, ([], ""))
    listed = isinstance(tables, list) and all(isinstance(each, Mapping) for each in tables)
    if not listed:
        raise ParameterError(
            f"{origin}, [[{name}]]: expected tables, found {tables!r}", hint=f"write {hint}"
        )
    for number, table in enumerate(tables, 1):
        yield dict(table), f"{origin}, [[{name}]] number {number}"


def _overrides(several: Mapping[str, tuple[Any, str]]) -> Iterator[Override]:
    for table, where in _listed("stream", several, '[[stream]] and below it match = "press-*"'):
        match = table.pop("match", None)
        if match is None:
            raise ParameterError(
                f"{where}: expected match, found none",
                hint='match = "press-*" says which streams it is for',
            )
        match = settings_of(Override)["match"].parse(match, f"{where} match")
        yield Override(match, dict(_settings(table, settings_of(StreamDefaults), where)))


def _tokens(
    several: Mapping[str, tuple[Any, str]], base: Path, environ: Mapping[str, str]
) -> Iterator[TokenConfig]:
    hint = '[[token]] and below it name = "grafana", role = "read", token_file = "grafana.token"'
    for table, where in _listed("token", several, hint):
        pointer: dict[str, Any] = {
            key: table.pop(key) for key in ("token", "token_file", "token_env") if key in table
        }
        if "token_file" in pointer:
            pointer["token_file"] = base / str(pointer["token_file"])
        token = TokenConfig("-", hash="-")
        token = replace(token, **dict(_settings(table, settings_of(TokenConfig), where)))
        secret = read_secret(pointer, "token", where=where, environ=environ)
        if secret is not None:
            token = replace(token, hash=hash_token(secret.reveal()))
        for key in ("name", "role"):
            if key not in table:
                raise ParameterError(f"{where}: expected {key}, found none", hint=f"write {hint}")
        if not is_token_hash(token.hash):
            raise ParameterError(
                f"{where}: expected token_file, token_env or hash, found "
                + ("none" if token.hash == "-" else "a hash that is none"),
                hint="newnormal serve token add makes a token and stores its hash",
            )
        yield token


def _given_tokens(file: object, text: str | None) -> Iterator[TokenConfig]:
    if file is not None:
        secret = read_secret_file(Path(str(file)), "--token-file")
        yield TokenConfig("token file", OPERATE, hash_token(secret.reveal()))
    if text:
        yield TokenConfig("environment", OPERATE, hash_token(text.strip()))


def _connections(
    name: str, several: Mapping[str, tuple[Any, str]], base: Path
) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Give name, kind and options of each sink or source."""
    tables, origin = several.get(name, ({}, ""))
    if not isinstance(tables, Mapping):
        raise ParameterError(
            f"{origin}, [{name}]: expected tables with a name each, found {tables!r}",
            hint=f'write [{name}.chat] and below it kind = "webhook"',
        )
    for key, table in tables.items():
        where = f"{origin}, [{name}.{key}]"
        if not isinstance(table, Mapping):
            raise ParameterError(
                f"{where}: expected a table, found {table!r}",
                hint=f'write [{name}.{key}] and below it kind = "webhook"',
            )
        options = dict(table)
        kind = options.pop("kind", None)
        if not isinstance(kind, str) or not kind:
            raise ParameterError(
                f'{where} kind: expected the name of a kind, such as "webhook", found {kind!r}',
                hint="newnormal serve --check names the kinds that are installed",
            )
        for option, value in options.items():
            _refuse_secret(option, value, where)
            if option.endswith("_file") and isinstance(value, str):
                options[option] = str(base / value)
        yield key, kind, options


def _refuse_secret(key: str, value: object, where: str) -> None:
    if _SECRETS.search(key.lower()):
        raise ParameterError(
            f"{where} {key}: expected no secret in the configuration, found one",
            hint=f"put it into a file and set {key}_file, or into a variable and set {key}_env",
        )
    if isinstance(value, str) and _IN_ADDRESS.match(value):
        raise ParameterError(
            f"{where} {key}: expected an address without a password, found one with it",
            hint="put the password into a file and set password_file, or use password_env",
        )
