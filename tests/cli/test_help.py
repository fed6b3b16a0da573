"""The help: in groups, at 80 columns, and nothing cut."""

import re

import pytest

from newnormal.cli.app import app
from tests.cli.conftest import Command

VERBS = sorted(
    command.callback.__name__ for command in app.registered_commands if command.callback is not None
)


@pytest.fixture
def help_of(newnormal: Command, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Return the help of a command as it is at 80 columns."""
    monkeypatch.setenv("COLUMNS", "80")
    return newnormal


def test_commands_are_in_groups(help_of: Command) -> None:
    panels = re.split(r"╭─ (.+?) ─+╮", help_of("--help").stdout)[1:]
    found = {
        name: re.findall(r"^│ ([a-z]+) ", body, re.MULTILINE)
        for name, body in zip(panels[::2], panels[1::2], strict=True)
        if name != "Options"
    }
    assert list(found) == ["Start here", "Look", "Decide", "Measure", "More", "Serve"]
    assert found["Start here"] == ["example", "check", "fit", "watch"]
    assert {"alarms", "inspect"} <= set(found["Look"])
    assert found["Decide"] == ["accept", "reject", "undo"]
    assert found["Measure"] == ["score", "evaluate"]
    assert found["More"] == ["demo", "fleet", "data", "reproduce"]


@pytest.mark.parametrize("verb", ["", *VERBS])
def test_the_help_fits_80_columns_and_nothing_is_cut(help_of: Command, verb: str) -> None:
    text = help_of(*([verb] if verb else []), "--help").stdout
    assert max(len(line.rstrip()) for line in text.splitlines()) <= 80
    assert "…" not in text
    assert "<bool>" not in text


def test_the_main_options_come_before_those_of_reading(help_of: Command) -> None:
    text = help_of("watch", "--help").stdout
    panels = re.findall(r"╭─ (.+?) ─+╮", text)
    assert panels[:2] == ["Arguments", "Options"]
    assert all(name.startswith("How the input is read: ") for name in panels[2:-1])
    assert panels[-1] == "Classes of your own"
    assert re.findall(r"^│ (--[a-z-]+)", text.split("How the input is read")[0], re.MULTILINE) == [
        *("--state", "--follow", "--format", "--alarms-only", "--output"),
        *("--flush", "--strict", "--quiet", "--every", "--help"),
    ]
    # a paragraph is broken where the line ends, and nowhere else
    assert "what can be\n done about it; elsewhere a JSON line for each verdict." in re.sub(
        r" +\n", "\n", text
    )
