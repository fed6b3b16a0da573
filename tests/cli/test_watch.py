"""`newnormal watch`: what comes out, what survives, and what is said."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from newnormal import M2N2, load
from newnormal.engine.folder import SingleEngine
from newnormal.engine.log.entries import StepsTaken
from newnormal.tabular import read
from tests.cli.conftest import CHANGE, Command, Plant, Running, cut, rows
from tests.present import present


def whole(plant: Plant, newnormal: Command) -> list[str]:
    """What an uninterrupted watch of all lines prints."""
    return newnormal("watch", plant.model, plant.live, status=0).stdout.splitlines()


def test_watch_prints_what_run_says(plant: Plant, newnormal: Command) -> None:
    detector = load(plant.model)
    verdicts = detector.run(read(plant.live), flush=False)
    pending = detector.counters["pending"]
    expected = verdicts.json_lines(0, len(verdicts) - pending)
    assert whole(plant, newnormal) == expected


def test_flush_judges_the_tail_as_score_does(plant: Plant, newnormal: Command) -> None:
    flushed = newnormal("watch", plant.model, plant.live, "--flush")
    scored = newnormal("score", plant.model, plant.live)
    assert flushed.stdout == scored.stdout
    assert len(scored.stdout.splitlines()) == 400


def test_a_verdict_arrives_as_soon_as_its_stride_is_full(plant: Plant) -> None:
    watch = Running("watch", plant.model, "-")
    for line in plant.lines[:7]:  # the header, and the first window of six
        watch.send([line])
    first = [json.loads(line)["sample"] for line in watch.read(6)]
    for line in plant.lines[7:10]:  # a stride of three more
        watch.send([line])
    then = [json.loads(line)["sample"] for line in watch.read(3)]
    watch.end()
    assert (first, then) == ([0, 1, 2, 3, 4, 5], [6, 7, 8])


def test_alarms_only_prints_alarms_as_events(plant: Plant, newnormal: Command) -> None:
    done = newnormal("watch", plant.model, plant.live, "--alarms-only")
    detector = load(plant.model).track_alarms()
    detector.run(read(plant.live), flush=False)
    events = detector.take_events()
    assert done.stdout.splitlines() == [event.to_json() for event in events]
    kinds = [json.loads(line)["event"] for line in done.stdout.splitlines()]
    assert kinds[0] == "opened"
    assert "closed" in kinds
    assert kinds.count("opened") == detector.alarm_rate_.alarms
    assert f", {detector.alarm_rate_.alarms} alarms" in done.stderr


@pytest.mark.parametrize("cut", [1, 5, 100, 101, 102, 203, 399])
def test_a_file_that_grows_is_resumed_exactly(plant: Plant, newnormal: Command, cut: int) -> None:
    for flags in ((), ("--alarms-only",)):
        expected = newnormal("watch", plant.model, plant.write(plant.lines), *flags).stdout
        state = plant.folder / f"{len(flags)}.state"
        plant.write(plant.lines[: cut + 1])
        before = newnormal("watch", plant.model, plant.live, "--state", state, *flags)
        plant.append(plant.lines[cut + 1 :])
        after = newnormal("watch", plant.model, plant.live, "--state", state, *flags)
        assert before.stdout + after.stdout == expected


def test_the_folder_may_be_the_model_itself(plant: Plant, newnormal: Command) -> None:
    expected = whole(plant, newnormal)
    plant.write(plant.lines[:200])
    before = newnormal(*plant.watch)
    plant.write(plant.lines)
    newnormal("watch", plant.state, plant.live, status=0)  # keeps nothing
    after = newnormal("watch", plant.state, plant.live, "--state", plant.state)
    assert (before.stdout + after.stdout).splitlines() == expected
    assert newnormal("watch", plant.state, plant.live, "--state", plant.state).stdout == ""


def test_without_a_state_nothing_is_written(plant: Plant, newnormal: Command) -> None:
    before = plant.model.read_bytes()
    newnormal("watch", plant.model, plant.live)
    newnormal("score", plant.model, plant.live)
    assert plant.model.read_bytes() == before
    assert sorted(path.name for path in plant.folder.iterdir()) == ["live.csv", "plant.nn"]


@pytest.mark.parametrize("kill_after", [1, 40, 203])
def test_after_a_kill_verdicts_come_again_byte_for_byte_and_none_is_missing(
    plant: Plant, newnormal: Command, kill_after: int
) -> None:
    expected = whole(plant, newnormal)
    watch = Running(*plant.watch, "--follow")
    seen = watch.read(kill_after)
    seen += watch.end(signal.SIGKILL).stdout.split("\n")[:-1]  # the last line may be cut off
    assert seen == expected[: len(seen)]
    resumed = newnormal(*plant.watch).stdout.splitlines()
    first = json.loads(resumed[0])["sample"] if resumed else len(expected)
    assert first <= len(seen), "a verdict is missing"
    assert resumed == expected[first:]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_is_a_clean_stop(plant: Plant, newnormal: Command, number: signal.Signals) -> None:
    expected = whole(plant, newnormal)
    watch = Running("watch", plant.model, "-", "--state", plant.state)
    watch.send(plant.lines[:104])
    seen = watch.read(102)
    done = watch.end(number)
    assert done.returncode == 0, done.stderr
    assert "judged 102 samples" in done.stderr
    assert "1 wait for a full window" in done.stderr
    after = newnormal(
        "watch", plant.model, "-", "--state", plant.state, stdin="\n".join(plant.lines) + "\n"
    )
    assert [*seen, *(done.stdout + after.stdout).splitlines()] == expected
    assert "103 judged before" in after.stderr


def test_a_resumed_pipe_may_go_on_with_the_next_sample(plant: Plant, newnormal: Command) -> None:
    expected = whole(plant, newnormal)
    head, *body = plant.lines
    text = "\n".join([head, *body[:103]]) + "\n"
    before = newnormal("watch", plant.model, "-", "--state", plant.state, stdin=text)
    text = "\n".join([head, *body[103:]]) + "\n"
    after = newnormal("watch", plant.model, "-", "--state", plant.state, stdin=text)
    assert (before.stdout + after.stdout).splitlines() == expected


def test_a_resumed_pipe_without_times_goes_on_and_says_so(plant: Plant, newnormal: Command) -> None:
    body = [line.split(",", 1)[1] for line in plant.lines]
    one = newnormal("watch", plant.model, "-", stdin="\n".join(body) + "\n")
    text = "\n".join(body[:200]) + "\n"
    before = newnormal("watch", plant.model, "-", "--state", plant.state, stdin=text)
    text = "\n".join([body[0], *body[200:]]) + "\n"
    after = newnormal("watch", plant.model, "-", "--state", plant.state, stdin=text)
    assert before.stdout + after.stdout == one.stdout
    assert "the samples have no times, so the next line is taken as new" in after.stderr


BAD_LINES = {
    "x": "line 51: expected 4 cells, found 1",
    "2026-02-01T00:00:00,1,2": "line 51: expected 4 cells, found 3",
    "2020-01-01T00:00:00,1,2,3": "line 51: expected a time after 2026-01-01T15:48:00, "
    "found 2020-01-01T00:00:00",
    "soon,1,2,3": "line 51: column 'time': ",
    "\udcff": "line 51: expected UTF-8 text",
}


@pytest.mark.parametrize("bad", BAD_LINES)
def test_a_bad_line_is_skipped_and_numbered(plant: Plant, newnormal: Command, bad: str) -> None:
    expected = whole(plant, newnormal)
    plant.write([*plant.lines[:50], bad, *plant.lines[50:]])
    done = newnormal("watch", plant.model, plant.live, status=0)
    assert done.stdout.splitlines() == expected
    assert BAD_LINES[bad] in done.stderr
    assert "1 bad line skipped" in done.stderr


def test_a_bad_cell_is_reported_once_or_stops(plant: Plant, newnormal: Command) -> None:
    def write(text: str) -> None:
        lines = list(plant.lines)
        for at in (50, 60):
            when, a, _, c = lines[at].split(",")
            lines[at] = f"{when},{a},{text},{c}"
        plant.write(lines)

    write("")
    expected = whole(plant, newnormal)
    write("two")
    done = newnormal("watch", plant.model, plant.live, status=0)
    assert done.stdout.splitlines() == expected
    assert done.stderr.count("line 51: column 'b': expected a number, found 'two'") == 1
    assert done.stderr.count("column 'b'") == 1
    strict = newnormal("watch", plant.model, plant.live, "--strict", status=3)
    assert "error: line 51: column 'b': expected a" in strict.stderr


def test_strict_stops_at_a_bad_line_and_loses_nothing(plant: Plant, newnormal: Command) -> None:
    expected = whole(plant, newnormal)
    plant.write([*plant.lines[:50], "x", *plant.lines[50:]])
    done = newnormal("watch", plant.model, plant.live, "--strict", "--state", plant.state, status=3)
    assert "error: line 51: expected 4 cells, found 1" in done.stderr
    plant.write(plant.lines)
    after = newnormal(*plant.watch)
    assert (done.stdout + after.stdout).splitlines() == expected


def test_an_unknown_column_is_told_once_and_ignored(plant: Plant, newnormal: Command) -> None:
    text = "time,a,b,c,host\n2026-02-01T00:00:00,1,2,3,x\n2026-02-01T00:01:00,1,2,3,y\n"
    done = newnormal("watch", plant.model, "-", stdin=text, status=0)
    assert done.stderr.count("'host'") == 1
    dropped = newnormal("watch", plant.model, "-", "--drop", "host", stdin=text)
    assert "'host'" not in dropped.stderr
    assert dropped.stdout == done.stdout


def test_json_lines_in_any_order_give_the_same_verdicts(plant: Plant, newnormal: Command) -> None:
    expected = whole(plant, newnormal)
    objects = []
    for line in plant.lines[1:]:
        when, a, b, c = line.split(",")
        objects.append(json.dumps({"c": float(c), "when": when, "a": float(a), "b": float(b)}))
    objects.insert(30, '{"a": 1,')
    done = newnormal("watch", plant.model, "-", stdin="\n".join(objects) + "\n")
    assert done.stdout.splitlines() == expected
    assert "line 31: " in done.stderr


def test_another_input_is_read_from_its_start(plant: Plant, newnormal: Command) -> None:
    newnormal(*plant.watch)
    other = plant.write(["time,a,b,c", *rows(60, 5000)], plant.folder / "other.csv")
    done = newnormal("watch", plant.model, other, "--state", plant.state)
    assert (
        f"{plant.state} was saved for another file ({plant.live.resolve()}); "
        "reading this one from the start\n"
    ) in done.stderr
    assert json.loads(done.stdout.splitlines()[0])["sample"] == 399, "the streams go on"


@pytest.mark.parametrize("rewritten", [False, True], ids=["replaced", "rewritten"])
def test_a_replaced_file_is_another_one(plant: Plant, newnormal: Command, rewritten: bool) -> None:
    newnormal(*plant.watch)
    text = plant.live.read_text()
    if rewritten:  # behind its beginning
        plant.live.write_text(text[:9000] + text[9000:].replace(",0.", ",5."))
    else:
        plant.write(["time,a,b,c", *rows(400, 9000)])
    done = newnormal(*plant.watch)
    about = f"{plant.state} was saved for an earlier content of {plant.live.resolve()};"
    assert about in done.stderr
    assert ("it keeps only what it learned" in done.stderr) == rewritten
    assert json.loads(done.stdout.splitlines()[0])["sample"] in (399, 400)


def test_an_unfinished_line_is_left_for_the_next_time(plant: Plant, newnormal: Command) -> None:
    expected = whole(plant, newnormal)
    text = plant.live.read_text()
    plant.live.write_text(text[:5003])
    before = newnormal(*plant.watch)
    assert "the last line has no end yet: left for the next start" in before.stderr
    plant.live.write_text(text)
    after = newnormal(*plant.watch)
    assert (before.stdout + after.stdout).splitlines() == expected


def test_a_finished_file_may_lack_its_last_newline(plant: Plant, newnormal: Command) -> None:
    expected = newnormal("watch", plant.model, plant.live, "--flush").stdout
    plant.live.write_text(plant.live.read_text().rstrip("\n"))
    assert newnormal("watch", plant.model, plant.live, "--flush").stdout == expected


def test_windows_line_ends_and_byte_marks_change_nothing(plant: Plant, newnormal: Command) -> None:
    expected = whole(plant, newnormal)
    plant.live.write_bytes(b"\xef\xbb\xbf" + "\r\n".join([*plant.lines, ""]).encode())
    assert whole(plant, newnormal) == expected


def test_follow_goes_on_with_what_is_appended(plant: Plant, newnormal: Command) -> None:
    expected = whole(plant, newnormal)
    plant.write(plant.lines[:100])
    watch = Running("watch", plant.model, plant.live, "--follow")
    seen = watch.read(99)
    plant.append(plant.lines[100:])
    seen += watch.read(len(expected) - 99)
    done = watch.end(signal.SIGINT)
    assert (done.returncode, done.stdout) == (0, "")
    assert seen == expected


@pytest.mark.parametrize("name", ["log.sqlite", "store.sqlite", "fleet/manifest.json"])
def test_a_damaged_folder_is_an_error_and_is_left_alone(
    plant: Plant, newnormal: Command, name: str
) -> None:
    newnormal(*plant.watch)
    paths = [plant.state / name, *plant.state.glob(name.replace(".json", ".copy.json"))]
    for path in paths:
        path.write_bytes(b"damaged" + path.read_bytes()[7:])
    before = [path.read_bytes() for path in paths]
    done = newnormal(*plant.watch, status=1)
    assert done.stderr.startswith(f"error: {plant.state}/")
    assert [path.read_bytes() for path in paths] == before


def followed(plant: Plant, verdicts: int) -> Running:
    """Start a watch that follows the plant's file, and wait until it has read it."""
    watch = Running("watch", plant.model, plant.live, "--follow", "--state", plant.state)
    watch.read(verdicts)
    return watch


def test_a_rotated_files_checkpoint_is_not_its_successors(plant: Plant, newnormal: Command) -> None:
    head, *body = plant.lines
    plant.write([head, *body[:150]])
    watch = followed(plant, 150)
    successor = plant.folder / "successor.csv"
    successor.write_text("\n".join([head, *body[150:]]) + "\n")  # longer than what was read
    successor.replace(plant.live)
    ended = watch.end()
    assert ended.returncode == 1
    assert "was replaced or cut short while it was followed" in ended.stderr
    done = newnormal(*plant.watch)
    assert (
        f"{plant.state} was saved for an earlier content of {plant.live.resolve()};" in done.stderr
    )
    assert json.loads(done.stdout.splitlines()[0])["time"] == body[150].split(",")[0]


def test_a_clean_stop_writes_the_checkpoint_though_the_file_is_gone(plant: Plant) -> None:
    watch = followed(plant, 399)
    plant.live.unlink()
    done = watch.end(signal.SIGTERM)
    assert done.returncode == 0, done.stderr
    assert load(plant.state).counters["seen"] == 400


def json_lines(plant: Plant) -> list[str]:
    """Return the live lines as JSON objects."""
    objects = []
    for line in plant.lines[1:]:
        when, a, b, c = line.split(",")
        objects.append(json.dumps({"time": when, "a": float(a), "b": float(b), "c": float(c)}))
    return objects


BAD_FIRST_OBJECTS = ['{"a": 1,', '{"time": null, "a": 1, "b": 2, "c": 3}', "[1, 2, 3]", "\udcff"]


@pytest.mark.parametrize("bad", BAD_FIRST_OBJECTS)
def test_a_bad_first_object_is_a_bad_line(plant: Plant, newnormal: Command, bad: str) -> None:
    expected = whole(plant, newnormal)
    path, state = plant.folder / "live.jsonl", plant.folder / "plant.state"
    lines = [bad, *json_lines(plant)]
    plant.write(lines[:80], path)
    before = newnormal("watch", plant.model, path, "--state", state, status=0)
    assert "line 1: " in before.stderr
    plant.write(lines, path)
    after = newnormal("watch", plant.model, path, "--state", state, status=0)
    assert (before.stdout + after.stdout).splitlines() == expected


@pytest.mark.parametrize("cut", [1, 60])
def test_a_bad_first_time_is_a_bad_line(plant: Plant, newnormal: Command, cut: int) -> None:
    expected = whole(plant, newnormal)
    plant.write(plant.lines[:cut])
    before = newnormal(*plant.watch)
    plant.append(["garbage,1,2,3", ",1,2,3", *plant.lines[cut:]])
    after = newnormal(*plant.watch, status=0)
    assert "2 bad lines skipped" in after.stderr
    assert (before.stdout + after.stdout).splitlines() == expected


def test_an_input_where_no_line_fits_is_refused_whole(plant: Plant, newnormal: Command) -> None:
    text = "\n".join('{"x": 1}' for _ in range(50)) + "\n"
    done = newnormal("watch", plant.model, "-", stdin=text, status=1)
    assert "error: standard input: missing channels 'a', 'b', 'c': found only 'x'" in done.stderr


def test_a_channel_that_is_gone_does_not_stop_it(plant: Plant, newnormal: Command) -> None:
    newnormal(*plant.watch)
    done = newnormal(*plant.watch, "--columns", "a,b")
    assert done.returncode == 0
    assert done.stderr.count("channel 'c' is not in the input: its values are missing") == 1


def test_the_end_of_a_pipe_ends_its_last_line(plant: Plant, newnormal: Command) -> None:
    text = "\n".join(plant.lines[:61])
    done = newnormal("watch", plant.model, "-", "--state", plant.state, stdin=text)
    assert len(done.stdout.splitlines()) == 60


def test_another_input_with_earlier_times_keeps_what_was_learned(
    plant: Plant, newnormal: Command
) -> None:
    newnormal(*plant.watch)
    learned = load(plant.state)
    other = plant.folder / "other.csv"
    other.write_text("\n".join(["time,a,b,c", *rows(60)]) + "\n")  # earlier times
    done = newnormal("watch", plant.model, other, "--state", plant.state)
    assert "it keeps only what it learned" in done.stderr
    assert "skipped" not in done.stderr
    assert len(done.stdout.splitlines()) == 60
    assert json.loads(done.stdout.splitlines()[0])["sample"] == 400
    again = learned.restart().run(read(other), flush=False)
    assert done.stdout.splitlines() == again.json_lines(0, 60)


def test_a_folder_goes_on_in_the_next_file(plant: Plant, newnormal: Command) -> None:
    expected = whole(plant, newnormal)
    head, *body = plant.lines
    monday = plant.write([head, *body[:200]], plant.folder / "monday.csv")
    tuesday = plant.write([head, *body[200:]], plant.folder / "tuesday.csv")
    before = newnormal("watch", plant.model, monday, "--state", plant.state)
    after = newnormal("watch", plant.state, tuesday, "--state", plant.state)
    assert (before.stdout + after.stdout).splitlines() == expected


def test_verdicts_are_utf8_whatever_the_terminal_says(plant: Plant, tmp_path: Path) -> None:
    model = tmp_path / "names.nn"
    history = read(plant.live).values
    import polars as pl

    names = ["Ünïcode", "b%s", 'c"{}']
    M2N2(window=6, epochs=1).fit(pl.DataFrame(history, schema=names)).save(model)
    text = "\n".join(json.dumps(dict(zip(names, row, strict=True))) for row in history.tolist())
    done = subprocess.run(
        [sys.executable, "-m", "newnormal", "watch", str(model), "-", "-q"],
        input=(text + "\n").encode(),
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert list(json.loads(done.stdout.splitlines()[0])["shares"]) == names


BAD_POSITIONS: dict[str, dict[str, object]] = {
    "offset": {"offset": -1},
    "a fraction": {"offset": 0.5},
    "a large line": {"line": 1 << 70},
    "no layout": {"layout": [1]},
}


@pytest.mark.parametrize("name", BAD_POSITIONS)
def test_a_position_that_does_not_fit_is_refused(
    plant: Plant, newnormal: Command, name: str
) -> None:
    newnormal(*plant.watch)
    with SingleEngine(plant.state) as engine:
        position = {**present(engine.input_position), **BAD_POSITIONS[name]}
        engine.take(StepsTaken((), np.empty(0, np.int64), position))
    done = newnormal(*plant.watch, status=1)
    assert done.stderr.startswith(f"error: {plant.state}: ")
    assert "expected" in done.stderr


def test_output_goes_to_a_file_that_is_appended_to(plant: Plant, newnormal: Command) -> None:
    expected = whole(plant, newnormal)
    target = plant.folder / "verdicts.jsonl"
    target.write_text('{"cut sho')
    assert newnormal("watch", plant.model, plant.live, "--output", target).stdout == ""
    assert target.read_text().splitlines() == ['{"cut sho', *expected]
    done = newnormal("watch", plant.model, plant.live, "--output", plant.folder)
    assert "error: --output: expected a file that can be written, found" in done.stderr


def test_flush_closes_alarms_and_leaves_changes_pending(moved: Plant, newnormal: Command) -> None:
    cut(moved, CHANGE + 60)
    arguments = (*moved.watch, "--alarms-only")
    events = [json.loads(line) for line in newnormal(*arguments).stdout.splitlines()]
    assert [event["event"] for event in events] == ["opened", "changed"], "the file may grow"
    (closed,) = newnormal(*arguments, "--flush").stdout.splitlines()
    event = json.loads(closed)
    assert (event["event"], event["change"]) == ("closed", None)
    assert event["alarm"]["reason"] == "end of stream"
    detector = load(moved.state)
    assert detector.alarms_ == []
    assert [change.state for change in detector.changes_] == ["pending"]
    assert newnormal(*arguments, "--flush").stdout == "", "closed once"
