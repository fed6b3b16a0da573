"""The dashboard for Grafana and the rules for Prometheus: well formed, and about what there is."""

import json
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from newnormal.cli import main
from newnormal.io.sinks.remote_write import ALARM, RATIO
from newnormal.service import metrics
from tests.connectors.feeding import Plant
from tests.connectors.programs import Newnormal, Prometheus, found
from tests.errors import raised
from tests.service.plant import plant
from tests.waiting import until

FILES = Path(metrics.__file__).parent / "monitoring"
DASHBOARD: dict[str, Any] = json.loads((FILES / "dashboard.json").read_text())
RULES: list[dict[str, Any]] = [
    rule
    for group in yaml.safe_load((FILES / "rules.yml").read_text())["groups"]
    for rule in group["rules"]
]
RULES_TEST = Path(__file__).parent / "rules_test.yml"

# Variables of Grafana in queries, with what a test puts there.
VARIABLES = {"instance": ".*", "stream": ".*", "__range": "5m", "__rate_interval": "1m"}
WRITTEN = {RATIO, ALARM}  # by remote write, and not of /metrics


def panels(of: list[dict[str, Any]] | None = None) -> Iterator[dict[str, Any]]:
    """Give all panels, also those in rows that are shut."""
    for panel in DASHBOARD["panels"] if of is None else of:
        yield panel
        yield from panels(panel.get("panels", []))


def queries() -> dict[str, str]:
    """Return the queries of the dashboard by panel and name."""
    return {
        f"{panel['title']} {target['refId']}": target["expr"]
        for panel in panels()
        for target in panel.get("targets", [])
    }


def filled(query: str) -> str:
    """Return a query as Grafana sends it."""
    return re.sub(r"\$(\w+)", lambda match: VARIABLES[match.group(1)], query)


def test_every_metric_of_dashboard_and_rules_is_in_metrics() -> None:
    with plant() as service:
        text, _ = metrics.exposition(service)
    there = {
        name
        for family in text_string_to_metric_families(text.decode())
        for name in ({f"{family.name}_total"} if family.type == "counter" else {family.name})
    }
    used = {
        name
        for expression in (*queries().values(), *(rule["expr"] for rule in RULES))
        for name in re.findall(r"\bnewnormal_\w+", expression)
    }
    assert used - there == WRITTEN
    variables = [each["definition"] for each in DASHBOARD["templating"]["list"][1:]]
    assert all(re.findall(r"newnormal_\w+", each)[0] in there for each in variables)
    # What is not shown is the labels of what is shown, or a number beside it.
    assert there - used == {
        "newnormal_log_position_total",
        "newnormal_log_lag_entries",
        "newnormal_scores_waiting",
        "newnormal_stream_state",
        "newnormal_samples_total",
        "newnormal_samples_out_of_order_total",
        "newnormal_memory_bytes",
        "newnormal_memory_limit_bytes",
        "newnormal_requests_refused_total",
    }


def test_the_dashboard_asks_for_its_datasource_when_it_is_imported() -> None:
    [asked] = DASHBOARD["__inputs"]
    assert (asked["name"], asked["type"], asked["pluginId"]) == (
        "DS_PROMETHEUS",
        "datasource",
        "prometheus",
    )
    used = [each["datasource"] for each in panels() if each["type"] != "row"]
    used += [target["datasource"] for panel in panels() for target in panel.get("targets", [])]
    used += [each["datasource"] for each in DASHBOARD["templating"]["list"][1:]]
    assert all(each == {"type": "prometheus", "uid": "${DS_PROMETHEUS}"} for each in used)
    # Where it is provisioned instead, this variable has the datasource.
    provisioned = DASHBOARD["templating"]["list"][0]
    assert (provisioned["name"], provisioned["type"]) == ("DS_PROMETHEUS", "datasource")
    assert (provisioned["query"], provisioned["hide"]) == ("prometheus", 2)


def test_the_dashboard_is_as_grafana_documents_it() -> None:
    assert DASHBOARD["id"] is None and 8 <= len(DASHBOARD["uid"]) <= 40
    assert DASHBOARD["schemaVersion"] >= 36 and DASHBOARD["title"] == "newnormal"
    assert set(DASHBOARD["time"]) == {"from", "to"}
    ids = [each["id"] for each in panels()]
    assert len(ids) == len(set(ids))
    required = {each["id"] for each in DASHBOARD["__requires"] if each["type"] == "panel"}
    assert {each["type"] for each in panels()} - {"row"} == required
    for panel in panels():
        at = panel["gridPos"]
        assert at["x"] >= 0 and at["x"] + at["w"] <= 24 and at["h"] > 0 and at["y"] >= 0
        assert panel["title"]
        if panel["type"] == "row":
            continue
        names = [target["refId"] for target in panel["targets"]]
        assert names and len(names) == len(set(names)), panel["title"]
        steps = panel["fieldConfig"]["defaults"]["thresholds"]["steps"]
        assert steps[0]["value"] is None  # the first one begins at minus infinity
        values = [step["value"] for step in steps[1:]]
        assert values == sorted(values)
        for mapping in panel["fieldConfig"]["defaults"]["mappings"]:
            assert mapping["type"] == "value"
            assert all(
                set(each) == {"text", "color", "index"} for each in mapping["options"].values()
            )


def test_no_panel_lies_on_another() -> None:
    cells: dict[tuple[int, int], str] = {}
    for panel in panels():
        at = panel["gridPos"]
        for x in range(at["x"], at["x"] + at["w"]):
            for y in range(at["y"], at["y"] + at["h"]):
                assert (x, y) not in cells, (panel["title"], cells[x, y])
                cells[x, y] = panel["title"]


def test_variables_of_queries_are_there_and_choose_several_streams() -> None:
    own = {each["name"]: each for each in DASHBOARD["templating"]["list"]}
    used = {name for query in queries().values() for name in re.findall(r"\$(\w+)", query)}
    assert used == set(VARIABLES)
    assert {name for name in used if not name.startswith("__")} <= set(own)
    for name in ("instance", "stream"):
        assert own[name]["multi"] and own[name]["includeAll"] and own[name]["allValue"] == ".*"


def test_scores_have_a_line_at_the_threshold_and_alarms_a_timeline() -> None:
    by_title = {each["title"]: each for each in panels()}
    defaults = by_title["Ratio to the limit"]["fieldConfig"]["defaults"]
    assert defaults["custom"]["thresholdsStyle"] == {"mode": "line"}
    assert defaults["thresholds"]["steps"][1]["value"] == 1
    assert by_title["Alarms"]["type"] == by_title["Health"]["type"] == "state-timeline"
    mapped = by_title["Alarms"]["fieldConfig"]["defaults"]["mappings"][0]["options"]
    assert {key: each["text"] for key, each in mapped.items()} == {"0": "quiet", "1": "alarm"}


@pytest.mark.parametrize(
    ("command", "name"), [("dashboard", "dashboard.json"), ("rules", "rules.yml")]
)
def test_the_command_prints_them(
    command: str, name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["newnormal", "serve", command])
    assert not raised(SystemExit, main).code
    assert capsys.readouterr().out == (FILES / name).read_text()


def test_every_rule_has_a_severity_words_and_a_test() -> None:
    tested = {
        each["alertname"]
        for case in yaml.safe_load(RULES_TEST.read_text())["tests"]
        for each in case.get("alert_rule_test", [])
        if each.get("exp_alerts")
    }
    assert tested == {rule["alert"] for rule in RULES}
    for rule in RULES:
        assert rule["labels"]["severity"] in ("critical", "warning", "info")
        assert set(rule["annotations"]) == {"summary", "description"}
        assert rule["for"]


def test_promtool_takes_the_rules_and_their_tests() -> None:
    promtool = found("promtool")
    for command in (
        ["check", "rules", str(FILES / "rules.yml")],
        ["test", "rules", str(RULES_TEST)],
    ):
        done = subprocess.run([promtool, *command], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


# What has something to show as soon as two streams are live and one has had an alarm.
_MAY_BE_EMPTY = {"New alarms A", "Alerts that wait A", "Alerts delivered A"}


def test_a_real_prometheus_answers_every_query_and_knows_of_an_alarm(tmp_path: Path) -> None:
    pytest.importorskip("cramjam")
    for name in ("scrape", "send"):
        (tmp_path / f"{name}.token").write_text(f"nn_{name}_0123456789")
    service = Newnormal(tmp_path / "newnormal", "")
    config = f"""
global: {{scrape_interval: 1s, evaluation_interval: 1s}}
rule_files: [{FILES}/rules.yml]
scrape_configs:
  - job_name: newnormal
    authorization: {{credentials_file: {tmp_path}/scrape.token}}
    static_configs: [{{targets: ["127.0.0.1:{service.port}"]}}]
"""
    prometheus = Prometheus(tmp_path / "prometheus", config, "--web.enable-remote-write-receiver")
    service.configure(f"""
[streams]
history = 150
period = "200ms"
lateness = "200ms"
[[token]]
name = "prometheus"
role = "read"
token_file = "{tmp_path}/scrape.token"
[[token]]
name = "plant"
role = "write"
token_file = "{tmp_path}/send.token"
[sinks.prom]
kind = "remote_write"
url = "{prometheus.url}/api/v1/write"
""")

    def asked(path: str, **query: Any) -> Any:
        body = httpx.get(f"{prometheus.url}/api/v1/{path}", params=query, timeout=10.0).json()
        assert body["status"] == "success", (query, body)
        return body["data"]

    with prometheus, service:
        plant = Plant(service.url, "nn_send_0123456789")
        until(
            lambda: plant.feed() and len(asked("query", query=RATIO)["result"]) == 2,
            "scores by remote write",
        )
        plant.fault = 30.0
        alarm = 'ALERTS{alertname="NewnormalAlarm", alertstate="pending", stream="press/1"}'
        until(
            lambda: plant.feed() and asked("query", query=alarm)["result"],
            "the rule to know of an alarm",
        )
        until(
            lambda: plant.feed() and asked("query", query=f"{ALARM} == 1")["result"],
            "the alarm by remote write",
        )
        now = time.time()
        empty = []
        for name, query in queries().items():
            given = {"query": filled(query), "start": now - 20, "end": now, "step": "1s"}
            if not asked("query_range", **given)["result"]:
                empty.append(name)
        assert set(empty) <= _MAY_BE_EMPTY
        for each in asked("rules")["groups"]:
            for rule in each["rules"]:
                assert rule["health"] == "ok", rule
        known = {each["labels"]["alertname"] for each in asked("alerts")["alerts"]}
        depends = {"NewnormalBehind", "NewnormalDiskFilling", "NewnormalDiskFull"}  # on the machine
        assert known - depends == {"NewnormalAlarm"}
        streams = asked("label/stream/values", **{"match[]": "newnormal_samples_total"})
        assert streams == ["oven", "press/1"]
        [shown] = asked("query", query='newnormal_alarm{stream="press/1"}')["result"]
        assert shown["value"][1] == "1" and shown["metric"]["job"] == "newnormal"
