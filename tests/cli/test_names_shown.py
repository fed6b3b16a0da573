"""Names are the user's: what a terminal is given of them is text, whatever they hold."""

import re
import string
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from newnormal import M2N2, Fleet
from newnormal import state as state_file
from newnormal.cli.console import fail, print_facts, print_table, say
from newnormal.errors import InputError
from newnormal.texts import shown
from tests.cli.conftest import Command, Done

NASTY = (
    *("vfs.fs.size[/var,free]", "[/bold]", "[red]hot[/red]", "\x1b[31mred\x1b[0m", "\x9b2J"),
    *("two\nlines", "bell\x07\r\t\x08", "abc\u202edcba", "\u2066left\u2069", "a :smile: b"),
    *("[link=http://x]y[/link]", "back\\[slash]", "\\", "名前", "\x00", "\ufeffmark"),
)
_STEERS = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def random_names(count: int, seed: int, without: str = "") -> list[str]:
    """Return short names of characters that mean something to rich, to a terminal or to text."""
    alphabet = [
        *string.ascii_letters[:6],
        *"[]/\\:;=@#&<>*_`\"' ,.%{}é名😀",
        *map(chr, range(32)),
        *"\x7f\x9b\u200e\u200f\u202a\u202e\u2066\u2069\u2028\ufeff",
        *("[b]", "[/]", "[/b]", "[on red]", ":fire:", "\x1b[1m", "\x1b]0;t\x07"),
    ]
    usable = [each for each in alphabet if not set(each) & set(without)]
    rng = np.random.default_rng(seed)
    found = {"n" + "".join(rng.choice(usable, rng.integers(1, 7))) + "e" for _ in range(count * 2)}
    return sorted(found)[:count]


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "5000")


@pytest.fixture(scope="module")
def detector() -> M2N2:
    rng = np.random.default_rng(0)
    return M2N2(window=4, epochs=1, alarms_per_day=5).fit(rng.normal(size=(300, 2)))


def renamed(detector: M2N2, names: list[str], path: Path) -> Path:
    """Write a detector whose channels have other names."""
    state = detector.to_state()
    facts = {**state.facts, "channels": names, "never_missing": names}
    state_file.write(path, state_file.encode(replace(state, facts=facts)))
    return path


def check(done: Done, names: list[str]) -> None:
    assert done.returncode == 0, done.stderr
    assert not _STEERS.search(done.stdout + done.stderr)
    for name in names:
        assert shown(name) in done.stdout


@pytest.mark.parametrize("name", NASTY)
def test_tables_show_names_as_they_are(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    print_facts(name, {"channel": name})
    print_table(name, name, ["value"], {name: {"value": name}})
    out = capsys.readouterr().out
    assert out.count(shown(name)) == 6 if name != "\\" else "\\" in out
    assert not _STEERS.search(out)


@pytest.mark.parametrize("name", NASTY)
def test_messages_show_names_as_they_are(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    say(f"stream {name} is late")
    with pytest.raises(SystemExit):
        fail(InputError(f"{name}: expected lines, found none", hint="give some"))
    err = capsys.readouterr().err
    assert not _STEERS.search(err)
    assert f"error: {shown(name)}: expected lines, found none\nhint: give some\n" in err


def test_what_is_harmless_is_not_escaped() -> None:
    for name in ("vfs.fs.size[/var,free]", "Größe (°C)", "名前", "👩\u200d🔧", "a\\b", "عدد"):
        assert shown(name) == name


def test_inspect_shows_channels_of_any_name(
    newnormal: Command, detector: M2N2, tmp_path: Path
) -> None:
    names = [*NASTY, *random_names(40, 1)]
    for at in range(0, len(names) - 1, 2):
        pair = names[at : at + 2]
        check(newnormal("inspect", renamed(detector, pair, tmp_path / f"{at}.nn")), pair)


def test_inspect_shows_names_of_files(newnormal: Command, detector: M2N2, tmp_path: Path) -> None:
    for name in random_names(20, 2, without="/\0"):
        detector.save(tmp_path / name)
        check(newnormal("inspect", tmp_path / name), [name])


def test_evaluate_shows_names_of_files(newnormal: Command, detector: M2N2, tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    rows = [f"{a},{b},{int(i > 50)}" for i, (a, b) in enumerate(rng.normal(size=(60, 2)))]
    for name in random_names(8, 3, without="/\0"):
        live = tmp_path / f"{name}.csv"
        live.write_text("\n".join(["0,1,label", *rows]) + "\n")
        model = renamed(detector, ["0", "1"], tmp_path / name)
        done = newnormal("evaluate", model, live, "--label", "label")
        check(done, [f"{name}.csv judged by", name])


def test_fleet_tables_show_any_name(newnormal: Command, detector: M2N2, tmp_path: Path) -> None:
    names = [*NASTY[:4], *random_names(12, 4)]
    fleet = Fleet(detector)
    for name in names:
        fleet.add(name, detector)
    live = np.random.default_rng(0).normal(size=(40, 2))
    live[-8:] += 50.0
    fleet.run(dict.fromkeys(names, live))
    assert set(fleet.alarms_) == set(names)
    fleet.save(tmp_path / "plant.fleet")
    check(newnormal("inspect", tmp_path / "plant.fleet"), names)
    for name in names:
        check(newnormal("inspect", tmp_path / "plant.fleet", name), [name])
