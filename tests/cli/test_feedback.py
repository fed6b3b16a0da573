"""`newnormal feedback`: a person's word, given to a file or to a watch that runs."""

from __future__ import annotations

import errno
import json
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from newnormal import M2N2, Detector
from newnormal.cli.feedback import Word, hold, leave, take, waiting
from newnormal.cli.options import Act
from newnormal.tabular import read
from tests.cli.conftest import Command, Plant

PATIENCE = 200
CHANGE = 300


def lines(start: int, count: int, lift: float = 0.0) -> list[str]:
    """Rows `time,a,b`, one a minute, of two noisy sines."""
    rng = np.random.default_rng(start)
    values = np.sin(np.arange(start, start + count)[:, None] / [7, 11])
    values += rng.normal(0, 0.1, values.shape) + lift
    begin = np.datetime64("2026-01-01T00:00:00")
    return [
        f"{begin + np.timedelta64(60 * (start + i), 's')},{a:.4f},{b:.4f}"
        for i, (a, b) in enumerate(values)
    ]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("feedback")
    history = folder / "history.csv"
    history.write_text("\n".join(["time,a,b", *lines(0, 1_500)]) + "\n")
    detector = M2N2(window=5, half_life=60, lr=0.01, threshold=1.0, accept_after=f"{PATIENCE}min")
    detector.fit(read(history)).save(folder / "plant.nn")
    return folder / "plant.nn"


@pytest.fixture
def plant(model: Path, tmp_path: Path) -> Plant:
    """A plant whose level moves for good."""
    path = tmp_path / "plant.nn"
    path.write_bytes(model.read_bytes())
    live = ["time,a,b", *lines(1_500, CHANGE), *lines(1_500 + CHANGE, 1_500, 5.0)]
    (tmp_path / "live.csv").write_text("\n".join(live) + "\n")
    return Plant(tmp_path, path, tmp_path / "live.csv", live)


def cut(plant: Plant, count: int) -> Plant:
    """The same, of which the first `count` samples have arrived."""
    plant.live.write_text("\n".join(plant.lines[: count + 1]) + "\n")
    return replace(plant)


def reasons(printed: str) -> list[str]:
    events = [json.loads(line) for line in printed.splitlines()]
    return [event["alarm"]["reason"] for event in events if event["event"] == "closed"]


def watched(plant: Plant, newnormal: Command) -> str:
    state = plant.folder / "plant.state"
    done = newnormal("watch", plant.model, plant.live, "--state", state, "--alarms-only")
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_without_a_word_it_is_accepted_in_its_time(plant: Plant, newnormal: Command) -> None:
    assert "new normal accepted" in reasons(watched(plant, newnormal))


def test_rejected_in_a_file_it_is_never_accepted(plant: Plant, newnormal: Command) -> None:
    state = plant.folder / "plant.state"
    watched(cut(plant, CHANGE + 100), newnormal)
    done = newnormal("feedback", state, "reject")
    assert done.returncode == 0
    assert done.stderr == (
        "alarm 1 rejected: nothing is learned until the stream is back to normal\n"
    )
    assert json.loads(newnormal("inspect", state, "--json").stdout)["status"] == "rejected"
    rest = watched(cut(plant, len(plant.lines)), newnormal)
    assert "new normal accepted" not in reasons(rest)
    first = json.loads(rest.splitlines()[0])
    assert (first["event"], first["alarm"]["state"]) == ("updated", "rejected")
    assert json.loads(newnormal("inspect", state, "--json").stdout)["status"] == "rejected"
    assert sorted(path.name for path in plant.folder.iterdir()) == [
        "live.csv",
        "plant.nn",
        "plant.state",
    ], "and nothing is left lying about"


def test_accepted_in_a_file_it_is_over_and_rollback_brings_it_back(
    plant: Plant, newnormal: Command
) -> None:
    state = plant.folder / "plant.state"
    watched(cut(plant, CHANGE + 100), newnormal)
    done = newnormal("feedback", state, "accept", "--alarm", "1")
    assert done.stderr == "alarm 1 accepted: what it was about is normal now\n"
    assert json.loads(newnormal("inspect", state, "--json").stdout)["status"] == "normal"
    done = newnormal("feedback", state, "rollback")
    assert done.stderr == (
        "rolled back: normal is again what it was before the newest acceptance; "
        "if an alarm opens now, reject it, or the change is accepted again\n"
    )
    assert reasons(watched(cut(plant, CHANGE + 110), newnormal))[0] == "new normal accepted"
    assert json.loads(newnormal("inspect", state, "--json").stdout)["status"] == "in alarm"


def test_word_that_cannot_be_followed_changes_nothing(plant: Plant, newnormal: Command) -> None:
    state = plant.folder / "plant.state"
    watched(cut(plant, CHANGE + 100), newnormal)
    before = state.read_bytes()
    done = newnormal("feedback", state, "accept", "--alarm", "7")
    assert done.returncode == 1
    assert done.stderr == (
        "error: expected the open alarm, which is 1, found alarm 7\n"
        "hint: leave the number out to mean the open one\n"
    )
    done = newnormal("feedback", state, "rollback", "--alarm", "1")
    assert done.stderr == (
        "error: --alarm: expected none with rollback, found 1\n"
        "hint: rollback undoes the newest acceptance\n"
    )
    assert newnormal("feedback", state, "ignore").returncode == 2
    assert newnormal("feedback", plant.folder / "no.state", "accept").returncode == 1
    assert state.read_bytes() == before


def test_watch_that_runs_acts_on_a_word_with_its_next_samples(
    plant: Plant, newnormal: Command
) -> None:
    state = plant.folder / "plant.state"
    watch = subprocess.Popen(
        [
            *(sys.executable, "-m", "newnormal", "watch", str(plant.model), "-"),
            *("--state", str(state), "--alarms-only", "--every", "1"),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert watch.stdin is not None
    assert watch.stdout is not None
    watch.stdin.write("\n".join(plant.lines[: CHANGE + 100]) + "\n")
    watch.stdin.flush()
    assert json.loads(watch.stdout.readline())["event"] == "opened"
    done = newnormal("feedback", state, "reject")
    assert done.stderr == (
        f"{state} is in use by `newnormal watch`, which acts on this with its next samples\n"
    )
    second = newnormal("watch", plant.model, plant.live, "--state", state)
    assert second.returncode == 1
    assert second.stderr.startswith(f"error: {state} is in use by another `newnormal watch`\n")
    out, err = watch.communicate("\n".join(plant.lines[CHANGE + 100 :]) + "\n", timeout=60)
    assert "feedback: alarm 1 rejected" in err
    assert "new normal accepted" not in reasons(out)
    assert Detector.load(state).status_ == "rejected"
    assert not waiting(state)


def test_word_left_for_a_watch_that_died_is_acted_on_once(plant: Plant, newnormal: Command) -> None:
    state = plant.folder / "plant.state"
    watched(cut(plant, CHANGE + 100), newnormal)
    leave(state, Word.of(Act.accept, None))
    with suppress(RuntimeError), take(state) as words:
        assert [word.act for word in words] == [Act.accept]
        raise RuntimeError  # killed before it could forget it
    assert waiting(state)
    cut(plant, CHANGE + 130)
    done = newnormal("watch", plant.model, plant.live, "--state", state, "--alarms-only")
    assert "feedback: alarm 1 accepted" in done.stderr
    assert not waiting(state)
    # The checkpoint was written, and then it was killed before the word was removed.
    leave(state, words[0])
    cut(plant, CHANGE + 160)
    done = newnormal("watch", plant.model, plant.live, "--state", state, "--alarms-only")
    assert "feedback" not in done.stderr


def test_word_that_a_watch_cannot_follow_does_not_stop_it(plant: Plant, newnormal: Command) -> None:
    state = plant.folder / "plant.state"
    watched(cut(plant, 100), newnormal)
    leave(state, Word.of(Act.reject, 3))
    with (plant.folder / "plant.state.feedback").open("a") as file:
        file.write('{"act": "acce')  # cut short
    cut(plant, 200)
    done = newnormal("watch", plant.model, plant.live, "--state", state)
    assert done.returncode == 0
    assert (
        "feedback not followed: expected the open alarm, which is none, found alarm 3\n"
        in done.stderr
    )


def test_word_given_before_the_first_checkpoint_is_left_all_the_same(
    plant: Plant, newnormal: Command
) -> None:
    state = plant.folder / "plant.state"
    with hold(state) as held:
        assert held
        done = newnormal("feedback", state, "reject")
    assert done.returncode == 0
    assert waiting(state)


def test_word_is_acted_on_before_what_has_arrived_since(plant: Plant, newnormal: Command) -> None:
    state = plant.folder / "plant.state"
    watched(cut(plant, CHANGE + 100), newnormal)
    leave(state, Word.of(Act.accept, None))
    # By the end of what arrives, the alarm that was meant would be over, and another open.
    later = plant.lines[: CHANGE + 101] + lines(1_500 + CHANGE + 100, 400, 0.0)
    plant.live.write_text("\n".join(later + lines(1_900 + CHANGE + 100, 50, 9.0)) + "\n")
    done = newnormal("watch", plant.model, plant.live, "--state", state, "--alarms-only")
    assert "feedback: alarm 1 accepted" in done.stderr


def test_newer_word_comes_after_one_that_was_left(plant: Plant, newnormal: Command) -> None:
    state = plant.folder / "plant.state"
    watched(cut(plant, CHANGE + 100), newnormal)
    leave(state, Word.of(Act.accept, None))
    done = newnormal("feedback", state, "rollback")
    assert done.stderr.splitlines() == [
        "feedback: alarm 1 accepted: what it was about is normal now",
        "rolled back: normal is again what it was before the newest acceptance; "
        "if an alarm opens now, reject it, or the change is accepted again",
    ]
    assert not waiting(state)


def test_word_that_a_killed_watch_acted_on_is_not_acted_on_by_the_next_command(
    plant: Plant, newnormal: Command
) -> None:
    state = plant.folder / "plant.state"
    watched(cut(plant, CHANGE + 100), newnormal)
    word = Word.of(Act.accept, None)
    leave(state, word)
    watched(cut(plant, CHANGE + 110), newnormal)
    leave(state, word)  # it was killed between its checkpoint and removing the word
    done = newnormal("feedback", state, "rollback")
    assert done.stderr.startswith("rolled back")


def test_file_system_without_locks_does_not_hang(
    plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(handle: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, "no locks available")

    monkeypatch.setattr("fcntl.flock", refuse)
    with hold(plant.folder / "plant.state") as held:
        assert held


def test_link_to_a_state_file_stays_a_link(plant: Plant, newnormal: Command) -> None:
    state = plant.folder / "plant.state"
    watched(cut(plant, CHANGE + 100), newnormal)
    link = plant.folder / "link.state"
    link.symlink_to(state)
    newnormal("feedback", link, "reject")
    assert link.is_symlink()
    assert Detector.load(state).status_ == "rejected"
