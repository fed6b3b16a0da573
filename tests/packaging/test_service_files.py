"""What runs the service: the example of a configuration, the systemd unit, the compose file."""

import configparser
import re
import tomllib
from pathlib import Path
from typing import Any

import yaml

from newnormal.service.config import ServiceConfig
from newnormal.service.config_file import known_settings, load_config

PACKAGING = Path(__file__).parents[2] / "packaging"


def test_the_example_has_the_defaults_of_every_setting() -> None:
    config = load_config(PACKAGING / "service.toml")
    defaults = ServiceConfig()
    assert config.data == PACKAGING / "newnormal-data"
    for part in ("host", "port", "checkpoint_every", "streams", "limits", "retention"):
        assert getattr(config, part) == getattr(defaults, part)
    text = (PACKAGING / "service.toml").read_text()
    left_out = {"insecure", "demo"}  # of the command line
    for name in known_settings():
        key = name.rpartition(".")[2]
        assert key in left_out or re.search(rf"^(# )?{key} = ", text, re.MULTILINE), name


def test_what_the_example_leaves_out_can_be_switched_on(tmp_path: Path) -> None:
    text = (PACKAGING / "service.toml").read_text()
    whole = re.sub(r"^# (?=\w+ = |\[)", "", text, flags=re.MULTILINE)
    tomllib.loads(whole)
    (tmp_path / "grafana.token").write_text("a-token")
    path = tmp_path / "service.toml"
    path.write_text(whole.replace("/run/secrets/", f"{tmp_path}/"))
    config = load_config(path)
    assert [each.kind for each in config.sinks] == ["webhook"]
    assert [each.name for each in config.tokens] == ["grafana"]
    assert config.for_stream("hall-1/press-2").accept_after == "never"
    assert config.retention.size == 50 * 10**9


def test_the_unit_runs_the_service_without_rights_and_stops_it_in_order() -> None:
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(PACKAGING / "newnormal.service")
    service = unit["Service"]
    assert service["ExecStart"].endswith("newnormal serve /etc/newnormal/service.toml")
    assert service["ExecReload"] == "/bin/kill -HUP $MAINPID"
    assert service["KillSignal"] == "SIGTERM"
    assert service["NoNewPrivileges"] == "yes"
    assert service["ProtectSystem"] == "strict"
    assert service["User"] == "newnormal"
    assert unit["Install"]["WantedBy"] == "multi-user.target"


def test_the_compose_file_shows_the_page_to_this_machine_alone() -> None:
    found: dict[str, Any] = yaml.safe_load((PACKAGING / "compose.yaml").read_text())
    service = found["services"]["newnormal"]
    assert service["ports"] == ["127.0.0.1:8765:8765"]
    assert service["command"] == ["serve", "--host", "0.0.0.0"]
    assert service["volumes"] == ["data:/data"]
    assert service["cap_drop"] == ["ALL"]
    known = {each.variable for each in known_settings().values()}
    assert set(service["environment"]) <= known
    assert "--insecure" not in str(service)
