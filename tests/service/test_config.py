"""The configuration of the service: where values come from, and what errors say."""

import json
from pathlib import Path
from typing import Any

import pytest

from newnormal.errors import ParameterError
from newnormal.io.options import DURATION, Options
from newnormal.service.config import (
    Limits,
    Override,
    Retention,
    ServiceConfig,
    SinkConfig,
    StreamDefaults,
    TokenConfig,
    hash_token,
    is_loopback,
    needs_restart,
    new_token,
    token_matches,
)
from newnormal.service.config_file import PREFIX, known_settings, load_config

SECOND = 10**9
FULL = """
host = "0.0.0.0"
port = 9000
data = "kept"
public_url = "https://watch.example.org/"
allowed_hosts = ["watch.example.org"]
workers = 3
service_alarms_per_day = 10

[streams]
history = 600
period = "10s"
lateness = "1m30s"
alarms_per_day = 0.5
accept_after = "never"
refit_every = "7d"

[[stream]]
match = "press-*"
history = 300

[[stream]]
match = "press-9"
accept_after = "6h"

[limits]
streams = 50
max_body = "1MiB"

[retention]
samples = "30d"
size = "20GB"

[[token]]
name = "grafana"
role = "read"
hash = "HASH"

[sinks.chat]
kind = "webhook"
url = "https://chat.example.org/in"
secret_file = "chat.secret"

[sources.line]
kind = "mqtt"
topics = ["a", "b"]
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "service.toml"
    path.write_text(text)
    return path


def message(text: str, folder: Path) -> str:
    with pytest.raises(ParameterError) as found:
        load_config(written(folder, text))
    return str(found.value).replace(f"{folder}/", "")


def test_without_anything_the_defaults_hold() -> None:
    config = load_config()
    assert config == ServiceConfig()
    assert (config.host, config.port, config.data) == ("127.0.0.1", 8765, Path("newnormal-data"))
    assert config.url == "http://127.0.0.1:8765"
    assert config.for_stream("any") == StreamDefaults()


def test_a_file_gives_everything(tmp_path: Path) -> None:
    text = FULL.replace("HASH", hash_token("secret"))
    config = load_config(written(tmp_path, text))
    assert (config.host, config.port, config.workers) == ("0.0.0.0", 9000, 3)
    assert config.url == "https://watch.example.org"
    assert config.service_alarms_per_day == 10
    assert config.streams.period == 10 * SECOND
    assert config.streams.lateness == 90 * SECOND
    assert config.limits == Limits(streams=50, max_body=2**20)
    assert config.retention == Retention(samples=30 * 86_400 * SECOND, size=20 * 10**9)
    assert config.tokens == (TokenConfig("grafana", "read", hash_token("secret")),)
    (source,) = config.sources
    assert (source.name, source.kind, dict(source.options)) == (
        "line",
        "mqtt",
        {"topics": ["a", "b"]},
    )


def test_what_a_file_names_lies_beside_it(tmp_path: Path) -> None:
    config = load_config(written(tmp_path, FULL.replace("HASH", hash_token("x"))))
    assert config.data == tmp_path / "kept"
    assert config.sinks[0].options["secret_file"] == str(tmp_path / "chat.secret")


def test_all_tables_that_match_hold_and_the_later_ones_more(tmp_path: Path) -> None:
    config = load_config(written(tmp_path, FULL.replace("HASH", hash_token("x"))))
    assert config.for_stream("oven").history == 600
    assert config.for_stream("press-1").history == 300
    assert config.for_stream("press-1").accept_after == "never"
    assert config.for_stream("press-9").accept_after == "6h"
    assert config.for_stream("press-9").history == 300


def test_options_go_before_the_environment_and_that_before_the_file(tmp_path: Path) -> None:
    path = written(tmp_path, 'port = 1\nworkers = 2\nhost = "127.0.0.3"\n[limits]\nstreams = 3')
    environ = {f"{PREFIX}PORT": "4", f"{PREFIX}WORKERS": "5", f"{PREFIX}LIMITS_STREAMS": "6"}
    config = load_config(path, environ, {"port": 7, "host": None, "limits.streams": "8"})
    assert (config.port, config.workers, config.host, config.limits.streams) == (
        7,
        5,
        "127.0.0.3",
        8,
    )


@pytest.mark.parametrize("name", list(known_settings()))
def test_every_setting_can_come_from_the_environment(name: str) -> None:
    each = known_settings()[name]
    example: dict[str, tuple[str, Any]] = {
        "host": ("localhost", "localhost"),
        "data": ("elsewhere", Path("elsewhere")),
        "public_url": ("https://a.example", "https://a.example"),
        "allowed_hosts": ("a.example, b.example", ("a.example", "b.example")),
        "trusted_proxies": ("::1, 10.0.0.0/8", ("::1", "10.0.0.0/8")),
        "insecure": ("yes", True),
        "demo": ("1", True),
        "streams.accept_after": ("2h", "2h"),
        "streams.units": ("disk=B, cpu=%", ("disk=B", "cpu=%")),
        "streams.max_history": ("30000", 30_000),
        "limits.max_body": ("2MiB", 2**21),
        "limits.decompressed": ("4096", 4096),
        "retention.size": ("1GB", 10**9),
    }
    span = each.setting.kind is DURATION
    usual = ("90s", 90 * SECOND) if span else ("77", 77)
    text, value = example.get(name, usual)
    config: Any = load_config(None, {each.variable: text, "HOME": "/"})
    for part in name.split("."):
        config = getattr(config, part)
    assert config == value


def test_tables_come_from_the_environment_as_json() -> None:
    sinks = {"chat": {"kind": "webhook", "url": "http://127.0.0.1:9"}}
    stream = [{"match": "a*", "history": 100}]
    config = load_config(
        None, {f"{PREFIX}SINKS": json.dumps(sinks), f"{PREFIX}STREAM": json.dumps(stream)}
    )
    assert config.sinks == (SinkConfig("chat", "webhook", {"url": "http://127.0.0.1:9"}),)
    assert config.overrides == (Override("a*", {"history": 100}),)


def test_an_empty_variable_is_not_set() -> None:
    assert load_config(None, {f"{PREFIX}PORT": ""}).port == 8765


WRONG = {
    'prot = 9\nhost = "a"': "service.toml: prot: expected an option, found an unknown one\n"
    "hint: did you mean port?",
    "[limits]\nstream = 9": "service.toml, [limits]: stream: expected an option, found an unknown "
    "one\nhint: did you mean streams?",
    "[limits]\nstreams = 0": "service.toml, [limits]: streams: expected a whole number of at least "
    "1, found 0\nhint: streams is how many streams there may be",
    "port = true": "service.toml: port: expected a whole number of at least 0 and at most 65,535, "
    "found True\nhint: port is the port to listen on",
    "[streams]\nperiod = 10": "service.toml, [streams]: period: expected a duration above zero, "
    'such as "10s", "5m" or "1d", found 10\nhint: period is the time between two samples; without '
    "it, found from the history",
    '[streams]\naccept_after = "soon"': "service.toml, [streams]: accept_after: expected a "
    'duration such as "6h" or "1d", or "never", found \'soon\'\nhint: accept_after is how '
    "long a change must last before it is accepted by itself",
    '[retention]\nsize = "much"': "service.toml, [retention]: size: expected a size above zero, "
    'such as "500MB" or "16MiB", found \'much\'\nhint: size is how large the store may be; the '
    "oldest samples go first",
    "[[stream]]\nhistory = 100": "service.toml, [[stream]] number 1: expected the option match, "
    "found none",
    '[[stream]]\nmatch = "a"\nhistroy = 100': "service.toml, [[stream]] number 1: histroy: "
    "expected an option, found an unknown one\nhint: did you mean history?",
    '[sinks.chat]\nurl = "http://a"': "service.toml, [sinks.chat]: expected the option kind, found "
    "none",
    '[sinks.chat]\nkind = "webhook"\nsecret = "swordfish"': "service.toml, [sinks.chat] secret: "
    "expected no secret in the configuration, found one\nhint: put it into a file and set "
    "secret_file, or into a variable and set secret_env",
    '[sources.db]\nkind = "sql"\nurl = "postgres://me:swordfish@db/x"': "service.toml, "
    "[sources.db] url: expected an address without a password, found one with it\nhint: put the "
    "password into a file and set password_file, or use password_env",
    '[[token]]\nname = "a"\nrole = "read"': "service.toml, [[token]] number 1: expected "
    "token_file, token_env or hash, found none\nhint: newnormal serve token add makes a token and "
    "stores its hash",
    '[[token]]\nname = "a"\nrole = "admin"': "service.toml, [[token]] number 1: role: expected one "
    'of "read", "write", "operate", found \'admin\'',
    'limits = "all"': "service.toml, [limits]: expected a table, found another str",
    'stream = "all"': "service.toml: stream: expected a list of tables, found another str",
    "sinks = 3": "service.toml: sinks: expected tables with a name each, found another int",
    'public_url = "watch.example.org"': "public_url: expected an address that begins with http:// "
    "or https://, found 'watch.example.org'\nhint: public_url is how people reach the page, such "
    "as https://watch.example.org",
    "host = here": "service.toml: expected TOML, found: Invalid value (at line 1, column "
    '8)\nhint: text is in quotation marks, such as host = "127.0.0.1"',
}


@pytest.mark.parametrize(("text", "expected"), WRONG.items())
def test_errors_name_file_table_and_key(text: str, expected: str, tmp_path: Path) -> None:
    assert message(text, tmp_path) == expected


def test_no_error_shows_a_secret(tmp_path: Path) -> None:
    for text in (
        '[sinks.a]\nkind = "webhook"\npassword = "swordfish"',
        '[sinks.a]\nkind = "webhook"\nurl = "https://me:swordfish@a.example"',
        '[[token]]\nname = "a"\nrole = "read"\ntoken = "swordfish"',
    ):
        assert "swordfish" not in message(text, tmp_path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="expected a configuration, could not read it: No su"):
        load_config(tmp_path / "none.toml")


def test_errors_of_the_environment_and_of_options_name_them() -> None:
    with pytest.raises(ParameterError, match="NEWNORMAL_SERVE_PORT: expected a whole number"):
        load_config(None, {f"{PREFIX}PORT": "tcp://10.0.0.1:80"})
    with pytest.raises(ParameterError, match=r"NEWNORMAL_SERVE_PROT: .*\nhint: did you mean N"):
        load_config(None, {f"{PREFIX}PROT": "9"})
    with pytest.raises(ParameterError, match="--port: expected a whole number"):
        load_config(None, {}, {"port": 70_000})
    with pytest.raises(ParameterError, match=r"--set limits.max_body: expected a size"):
        load_config(None, {}, {"limits.max_body": "x"})
    with pytest.raises(ParameterError, match=r"limit.body: .*\nhint: did you mean limits.max_bo"):
        load_config(None, {}, {"limit.body": "x"})
    with pytest.raises(ParameterError, match="NEWNORMAL_SERVE_SINKS: expected JSON"):
        load_config(None, {f"{PREFIX}SINKS": "{"})


def test_tokens_come_from_files_and_variables(tmp_path: Path) -> None:
    (tmp_path / "one").write_text("first-token\n")
    text = (
        '[[token]]\nname = "a"\nrole = "write"\ntoken_file = "one"\n'
        '[[token]]\nname = "b"\nrole = "read"\ntoken_env = "B_TOKEN"\n'
    )
    environ = {"B_TOKEN": "second-token", f"{PREFIX}TOKEN": "third-token"}
    config = load_config(written(tmp_path, text), environ, {"token_file": tmp_path / "one"})
    assert [(each.name, each.role) for each in config.tokens] == [
        ("a", "write"),
        ("b", "read"),
        ("token file", "operate"),
        ("environment", "operate"),
    ]
    for each, token in zip(
        config.tokens, ("first-token", "second-token", "first-token", "third-token"), strict=True
    ):
        assert token_matches(token, each.hash)
        assert token not in repr(config)


def test_a_secret_comes_from_a_file_or_a_variable_and_is_not_shown(tmp_path: Path) -> None:
    def secret_of(**given: str) -> str | None:
        return Options("sink a", given, {"KEY": "swordfish"}).secret("secret")

    key = tmp_path / "key"
    key.write_text("swordfish\n")
    assert secret_of(secret_file=str(key)) == secret_of(secret_env="KEY") == "swordfish"
    assert secret_of() is None
    with pytest.raises(ParameterError, match="sink a: secret_env: expected a secret in the env"):
        secret_of(secret_env="NONE")
    key.write_text("\n")
    with pytest.raises(ParameterError, match="found an empty file"):
        secret_of(secret_file=str(key))
    with pytest.raises(ParameterError, match="expected secret_file or secret_env, found both"):
        secret_of(secret_file="a", secret_env="b")


def test_no_two_tokens_are_the_same() -> None:
    tokens = {new_token() for _ in range(100)}
    assert len(tokens) == 100
    assert all(len(token) >= 43 for token in tokens)


def test_names_are_not_given_twice() -> None:
    twice = (TokenConfig("a", "read", "x"), TokenConfig("a", "write", "y"))
    with pytest.raises(ParameterError, match="each token to have a name of its own, found a more"):
        ServiceConfig(tokens=twice)


def test_values_are_checked_where_they_are_made() -> None:
    with pytest.raises(
        ParameterError, match=r"Limits.streams: expected a whole number of at least"
    ):
        Limits(streams=0)
    with pytest.raises(ParameterError, match=r"Override.histroy: expected a setting of a stream"):
        Override("a", {"histroy": 3})
    assert StreamDefaults(history=30_000).max_history == 30_000


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("[::1]", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("10.0.0.1", False),
        ("localhost.example.org", False),
    ],
)
def test_loopback_is_told_from_other_addresses(host: str, loopback: bool) -> None:
    assert is_loopback(host) is loopback


def test_a_reload_names_what_needs_a_restart() -> None:
    old = ServiceConfig()
    new = ServiceConfig(host="localhost", port=1, limits=Limits(streams=3), data=Path("b"))
    assert needs_restart(old, new) == ["host", "port", "data"]
    assert needs_restart(old, ServiceConfig(sinks=(SinkConfig("a", "webhook"),))) == []
