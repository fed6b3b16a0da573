"""Read the configuration: a TOML file, the environment, and options of the command line.

Options go before the environment, the environment before the file, the file before defaults.
"""

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from newnormal.errors import ParameterError
from newnormal.io.options import Options, Setting, one_of, secret_of_file, settings_of, unknown
from newnormal.service.config import (
    OPERATE,
    ROLES,
    Limits,
    Override,
    Retention,
    ServiceConfig,
    SinkConfig,
    SourceConfig,
    StreamDefaults,
    TokenConfig,
    hash_token,
    is_token_hash,
)

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

    `path`: a TOML file; None: without one. `environ`: environment variables, of which those with
    `PREFIX` are read. `options`: values by name, such as
    ``{"port": 9000, "limits.streams": "100"}``; those that are None are not given. ``"token_file"``
    is the path of a file with a token that may operate.

    Raise a ParameterError: naming the file, the table and the key, the variable or the option; what
    was expected and what was found.
    """
    environ = environ or {}
    file = Options("", {}) if path is None else Options(str(path), _read(path))
    values = {} if path is None else _of_file(file, path)
    several = dict.fromkeys(_SEVERAL, file)
    settings = known_settings()
    variables = {setting.variable: setting for setting in settings.values()}
    tables_of = {PREFIX + rest: name for name, rest in _SEVERAL.items()}
    for variable, text in environ.items():
        if not variable.startswith(PREFIX) or not text:
            continue
        if variable in variables:
            setting = variables[variable]
            values[setting.name] = setting.setting.parse(text, variable, text=True)
        elif variable in tables_of:
            name = tables_of[variable]
            several[name] = Options(variable, {name: _json(text, variable)})
        elif variable.removeprefix(PREFIX) not in (*_TOKENS, "CONFIG"):
            raise unknown("", variable, [*variables, *tables_of])
    chosen = {name: value for name, value in (options or {}).items() if value is not None}
    token_file = chosen.pop("token_file", environ.get(f"{PREFIX}TOKEN_FILE") or None)
    for name, value in chosen.items():
        if name not in settings:
            raise unknown("--set ", name, settings)
        plain = str(value) if isinstance(value, Path) else value
        values[name] = settings[name].setting.parse(plain, _option(name), text=True)
    base = Path() if path is None else path.parent
    tokens = (_token(each, base, environ) for each in several["token"].listed("token"))
    sections: dict[str, dict[str, Any]] = {section: {} for section in _SECTIONS}
    for name, value in values.items():
        section, _, key = name.rpartition(".")
        sections[section][key] = value
    return ServiceConfig(
        **sections[""],
        streams=StreamDefaults(**sections["streams"]),
        limits=Limits(**sections["limits"]),
        retention=Retention(**sections["retention"]),
        overrides=tuple(_override(each) for each in several["stream"].listed("stream")),
        tokens=(*tokens, *_given_tokens(token_file, environ.get(f"{PREFIX}TOKEN"))),
        sinks=tuple(SinkConfig(*each) for each in _connections("sinks", several, base)),
        sources=tuple(SourceConfig(*each) for each in _connections("sources", several, base)),
        path=path,
    )


def data_folder(path: Path | None, environ: Mapping[str, str], option: Path | None) -> Path:
    """Return the folder that keeps everything; secrets that the configuration names are not read.

    The option of the command line goes before the environment, which goes before the file.
    """
    variable = f"{PREFIX}DATA"
    if option is None and path is not None and not environ.get(variable):
        option = _of_file(Options(str(path), _read(path)), path).get("data")
    return load_config(None, {variable: environ.get(variable, "")}, {"data": option}).data


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


def _json(text: str, variable: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise ParameterError(
            f"{variable}: expected JSON, found text that is none: {error}",
            hint="write the table as a JSON object, or put it into the file",
        ) from None


def _of_file(file: Options, path: Path) -> dict[str, Any]:
    """Return the values of the settings that a file has, by their names with the table."""
    values = file.settings(ServiceConfig)
    if "data" in values:  # what a file names lies beside it, wherever the service is started
        values["data"] = path.parent / values["data"]
    for name in filter(None, _SECTIONS):
        section = file.section(name)
        values |= {
            f"{name}.{key}": value for key, value in section.settings(_SECTIONS[name]).items()
        }
        section.end()
    file.rest(*_SEVERAL)
    file.end()
    return values


def _override(given: Options) -> Override:
    match = given.text("match")
    override = Override(match, given.settings(StreamDefaults))
    given.end()
    return override


def _token(listed: Options, base: Path, environ: Mapping[str, str]) -> TokenConfig:
    given = Options(listed.where, _checked(listed, base), environ)
    token, hashed = given.secret("token"), given.text("hash", None)
    name, role = given.text("name"), given.take("role", one_of(*ROLES))
    given.end()
    if token is not None:
        hashed = hash_token(token)
    if hashed is None or not is_token_hash(hashed):
        raise ParameterError(
            f"{given.where}: expected token_file, token_env or hash, found "
            + ("none" if hashed is None else "a hash that is none"),
            hint="newnormal serve token add makes a token and stores its hash",
        )
    return TokenConfig(name, role, hashed)


def _given_tokens(file: object, text: str | None) -> Iterator[TokenConfig]:
    if file is not None:
        token = secret_of_file(Path(str(file)), "--token-file")
        yield TokenConfig("token file", OPERATE, hash_token(token))
    if text:
        yield TokenConfig("environment", OPERATE, hash_token(text.strip()))


def _connections(
    name: str, several: Mapping[str, Options], base: Path
) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for key, given in several[name].sections(name).items():
        kind = given.text("kind")
        yield key, kind, _checked(given, base)


def _checked(given: Options, base: Path) -> dict[str, Any]:
    """Return the options that are left: no secret, and files with the folder that they lie in."""
    options = given.rest()
    for name, value in options.items():
        _refuse_secret(name, value, given.where)
        if name.endswith("_file") and isinstance(value, str):
            options[name] = str(base / value)
    return options


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
