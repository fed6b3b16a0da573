"""The help: in groups, at 80 columns, and nothing cut; plain where it is piped."""

import re

import pytest

from newnormal.cli.app import app
from tests.cli.conftest import Command, Plant

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
    assert list(found) == ["Start here", "Look", "Decide", "Measure", "Serve", "More"]
    assert found["Start here"] == ["example", "check", "fit", "watch"]
    assert {"alarms", "inspect"} <= set(found["Look"])
    assert found["Decide"] == ["accept", "reject", "undo"]
    assert found["Measure"] == ["score", "evaluate"]
    assert found["More"] == ["demo", "fleet", "data", "reproduce"]


@pytest.mark.parametrize("verb", ["", *VERBS])
def test_the_help_fits_80_columns_and_nothing_is_cut(help_of: Command, verb: str) -> None:
    for option in ("--help", "--help-all") if verb in ("fit", "watch") else ("--help",):
        text = help_of(*([verb] if verb else []), option).stdout
        assert max(len(line.rstrip()) for line in text.splitlines()) <= 80
        assert "…" not in text
        assert "<bool>" not in text


@pytest.mark.parametrize("verb", VERBS)
def test_the_help_ends_after_ten_options_and_help_all_has_every_one(
    newnormal: Command, verb: str
) -> None:
    brief, every = (
        set(re.findall(r"^  (?:-., )?(--[a-z-]+)", newnormal(verb, option).stdout, re.MULTILINE))
        for option in ("--help", "--help" if verb in ("demo", "example") else "--help-all")
    )
    assert len(brief - {"--help", "--help-all"}) <= 10
    more = re.search(r"\n\d+ more options: .* --help-all\n$", newnormal(verb, "--help").stdout)
    assert bool(more) == (every > brief)
    reading = {"--by", "--long", "--time", "--columns", "--drop", "--label"}
    assert reading <= brief or not reading & every
    assert not reading & every or {"--tz", "--tag", "--from", "--resample"} <= every - brief


def test_the_help_has_the_main_options_first_and_classes_of_others_last(help_of: Command) -> None:
    text = help_of("watch", "--help-all").stdout
    panels = re.findall(r"╭─ (.+?) ─+╮", text)
    assert panels[:3] == ["Arguments", "Options", "How the input is read"]
    assert all(name.startswith("More: ") for name in panels[3:])
    assert panels[-1] == "More: classes of your own"
    # a paragraph is broken where the line ends, and nowhere else
    assert "what can be\n done about it; elsewhere a JSON line for each verdict." in re.sub(
        r" +\n", "\n", text
    )


def test_what_is_piped_is_not_broken(newnormal: Command, plant: Plant) -> None:
    shown = newnormal("--help").stdout + newnormal("watch", "--help").stdout
    assert "│" not in shown
    assert "what can be done about it; elsewhere a JSON line for each verdict." in shown
    assert newnormal("fit", "--wat", status=2).stderr.splitlines()[-1].startswith("Error: No such")
    long = plant.folder / ("x" * 90 + ".state")
    newnormal("watch", plant.model, plant.live, "--state", long)
    shown = newnormal("inspect", long).stdout
    assert re.search(f"^input +{plant.live.resolve()}$", shown, re.MULTILINE)
