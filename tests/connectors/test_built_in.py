"""What holds for every connector of the package: names, libraries, and the guides' examples."""

import re
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from newnormal.errors import MissingExtraError
from newnormal.io import registry
from newnormal.io.decoders.base import QUERY
from newnormal.io.registry import (
    find_alert_sink,
    find_decoder,
    find_score_sink,
    find_source,
    is_score_sink,
)
from newnormal.service.config import SinkConfig, SourceConfig
from newnormal.service.connectors import make_score_sink, make_sink, make_source
from tests.processes import python

GUIDES = Path(__file__).parents[2] / "docs" / "guides"
TABLES: list[tuple[Callable[[str], type], dict[str, str]]] = [
    (registry.find_sink, registry.SINKS),
    (find_source, registry.SOURCES),
    (find_alert_sink, registry.ALERT_SINKS),
    (find_score_sink, registry.SCORE_SINKS),
    (find_decoder, registry.DECODERS),
]


@pytest.mark.parametrize(("find", "table"), TABLES)
def test_each_is_found_by_its_name(find: Callable[[str], type], table: dict[str, str]) -> None:
    for name, path in table.items():
        kind = find(name)
        assert f"{kind.__module__}:{kind.__name__}" == path


def test_importing_them_imports_no_library() -> None:
    modules = {path.partition(":")[0] for _, table in TABLES for path in table.values()}
    libraries = {"paho", "confluent_kafka", "httpx", "cramjam", "google.protobuf", "opentelemetry"}
    code = f"import sys, {', '.join(modules)}; print({libraries} & sys.modules.keys())"
    assert python("-c", code, check=True).stdout == "set()\n"


def mqtt(find: Callable[[str], Any]) -> Any:
    return find("mqtt")("bus", {"host": "127.0.0.1", **TOPICS[find]})


def kafka(find: Callable[[str], Any]) -> Any:
    return find("kafka")("bus", {"servers": ["k:1"], **TOPICS[find]})


def decoded(name: str) -> object:
    decoder, headers = find_decoder(name)(), {"content-type": "application/x-protobuf", QUERY: ""}
    return decoder.decode(decoder.unpack(b"", headers), headers)


TOPICS: dict[Any, dict[str, Any]] = {
    find_source: {"topics": ["a"]},
    find_alert_sink: {"topic": "a"},
}
URL: dict[str, Any] = {"url": "http://h"}
OTLP = "opentelemetry.proto.collector.metrics.v1"


@pytest.mark.parametrize(
    ("module", "library", "extra", "use"),
    [
        ("paho.mqtt.client", "paho-mqtt", "mqtt", lambda: mqtt(find_source).next_batch(1)),
        ("paho.mqtt.client", "paho-mqtt", "mqtt", lambda: mqtt(find_alert_sink).check()),
        ("confluent_kafka", "confluent-kafka", "kafka", lambda: kafka(find_source)),
        ("confluent_kafka", "confluent-kafka", "kafka", lambda: kafka(find_alert_sink)),
        ("httpx", "httpx", "serve", lambda: find_alert_sink("webhook")("chat", URL)),
        ("httpx", "httpx", "serve", lambda: find_score_sink("remote_write")("prom", URL)),
        ("cramjam", "cramjam", "prometheus", lambda: decoded("remote_write")),
        (OTLP, "opentelemetry-proto", "otlp", lambda: decoded("otlp")),
    ],
)
def test_without_its_library_the_extra_is_named(
    module: str,
    library: str,
    extra: str,
    use: Callable[[], object],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError) as caught:
        use()
    assert caught.value.message == f"{library} is needed for this and is not installed"
    assert caught.value.hint == f'pip install "newnormal[{extra}]"'
    if library in ("cramjam", "opentelemetry-proto"):
        assert caught.value.status == 501  # type: ignore[attr-defined]  # senders try again


def test_the_configurations_of_the_guides_can_be_used(tmp_path: Path) -> None:
    """Secrets are in files; kinds that a guide defines itself are made where it is tested."""
    pytest.importorskip("confluent_kafka", reason="needs the extra kafka")
    secret = tmp_path / "secret"
    secret.write_text("https://example.org/hook")
    kinds = set()
    for path in sorted(GUIDES.glob("*.md")):
        for block in re.findall(r"^```toml\n(.*?)^```$", path.read_text(), re.M | re.S):
            tables = tomllib.loads(block)
            for group in ("sources", "sinks"):
                for name, table in tables.get(group, {}).items():
                    options = {
                        option: str(secret) if option.endswith("_file") else value
                        for option, value in table.items()
                        if option not in ("kind", "ca_file")
                    }
                    kind = table.get("kind", ":")  # without one, it is a part of a table
                    if ":" not in kind:
                        kinds.add(kind)
                        made(group, name, kind, options).close()
    assert kinds == {*registry.SOURCES, *registry.ALERT_SINKS, *registry.SCORE_SINKS}


def made(group: str, *table: Any) -> Any:
    if group == "sources":
        return make_source(SourceConfig(*table))
    make: Any = make_score_sink if is_score_sink(table[1]) else make_sink
    return make(SinkConfig(*table))
