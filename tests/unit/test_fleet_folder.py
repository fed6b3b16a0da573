"""A fleet in a folder: saved, loaded, opened with a log, checked and repaired."""

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import newnormal
from newnormal import M2N2, FeedbackError, Fleet, ParameterError, StateError
from newnormal.core.arena import Field, Layout
from newnormal.core.state import arrays
from newnormal.errors import NewnormalWarning
from newnormal.fleet.folder import fleet_log, log, shards, writer
from newnormal.fleet.folder.check import check
from newnormal.fleet.folder.log import FileLog
from newnormal.fleet.folder.manifest import read_manifest
from newnormal.fleet.folder.replaying import Replayed
from newnormal.fleet.stream import Shape, Stream
from newnormal.state import versions
from tests.fleets import assert_equal, assert_same_verdicts, fitted, mixed_fleet, tick
from tests.present import present


@pytest.fixture
def small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have several shards of each shape, and several files of the log."""
    monkeypatch.setattr(writer, "SHARD", 150_000)
    monkeypatch.setattr(log, "SEGMENT", 3000)


def lived(samples: int, folder: Path | None = None) -> Fleet:
    """Return a fleet that has judged samples, and has been saved in a folder."""
    fleet = mixed_fleet()
    for number in range(samples):
        fleet.step(tick(fleet, number))
    if folder is not None:
        fleet.save(folder)
    return fleet


def abandon(fleet: Fleet) -> None:
    """Let go of the folder without saving anything, as a kill does."""
    present(fleet._log).abandon()
    fleet._log = None


def live_file(folder: Path, at: int = 0) -> Path:
    return folder / read_manifest(folder).shards[at].name


def flip(path: Path, at: int) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(bytes(content))


# ---------------------------------------------------------------------- save and load


@pytest.mark.usefixtures("small_shards")
def test_a_saved_fleet_is_loaded_bit_for_bit_and_goes_on_alike(tmp_path: Path) -> None:
    fleet = lived(90)
    some = next(name for name, opened in fleet.changes_.items() if opened)
    fleet.accept(some)
    fleet.save(tmp_path / "fleet")
    streams = list(fleet._streams)
    assert fleet.alarms_ and fleet.changes_ and fleet.incidents_ and fleet._events
    assert any(stream.shadow is not None for stream in streams)
    assert any(stream.accepted is not None and stream.undo for stream in streams)
    found = Fleet.load(tmp_path / "fleet")
    assert_equal(fleet, found)
    for number in range(120, 150):
        samples = tick(fleet, number)
        assert_same_verdicts(fleet.step(samples), found.step(samples))
    fleet.undo(some)
    found.undo(some)
    assert_equal(fleet, found)


@pytest.mark.parametrize("at", [0, 2])
def test_streams_of_one_fit_store_it_once(tmp_path: Path, at: int) -> None:
    sizes = []
    for count in (1, 20):
        mixed_fleet(*(count if each == at else 0 for each in range(3))).save(tmp_path)
        sizes.append(read_manifest(tmp_path).fits_size)
    assert sizes[0] == sizes[1]
    streams = list(Fleet.load(tmp_path)._streams)
    assert len({id(stream.fit) for stream in streams}) == 1


def test_a_folder_has_few_files_whatever_the_number_of_streams(tmp_path: Path) -> None:
    mixed_fleet(30, 30, 30).save(tmp_path)
    assert sorted(path.name.partition("-")[0] for path in tmp_path.iterdir()) == [
        *("fits", "live", "live", "live", "lock", "manifest.copy.json", "manifest.json", "streams")
    ]


def test_options_of_the_fleet_come_back(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    histories = {name: rng.normal(size=(300, 2)) for name in "abc"}
    fleet = Fleet(M2N2(window=8, epochs=1), fleet_alarms_per_day=0.6, workers=1).fit(histories)
    fleet.save(tmp_path)
    found = Fleet.load(tmp_path)
    assert isinstance(found.detector, M2N2) and found.detector.window == 8
    assert found.fleet_alarms_per_day == 0.6
    assert found._reading == {"by": None, "times": None, "long": None, "file": None}
    assert found["a"].get_params()["alarms_per_day"] == pytest.approx(0.2)
    found.set_options(alarms_per_day=3).save(tmp_path)
    found = Fleet.load(tmp_path).add("d", histories["a"])
    assert {found[name].get_params()["alarms_per_day"] for name in "abcd"} == {3}


def test_saving_over_an_older_fleet_replaces_it(tmp_path: Path) -> None:
    lived(5, tmp_path)
    with Fleet.open(tmp_path) as opened:
        opened.step(tick(opened, 5))
    other = mixed_fleet(2, 1, 0)
    other.save(tmp_path)
    assert_equal(other, Fleet.load(tmp_path))
    assert not check(tmp_path).problems


def test_a_stream_taken_out_is_an_ordinary_state_file_and_goes_in_again(tmp_path: Path) -> None:
    fleet = lived(60)
    fleet.take_out("wide-0", tmp_path / "wide.nn")
    fleet["wide-0"].save(tmp_path / "other.nn")
    assert (tmp_path / "wide.nn").read_bytes() == (tmp_path / "other.nn").read_bytes()
    detector = newnormal.load(tmp_path / "wide.nn")
    Fleet(epochs=1).add("again", detector).save(tmp_path / "fleet")
    Fleet.load(tmp_path / "fleet").take_out("again", tmp_path / "again.nn")
    assert (tmp_path / "again.nn").read_bytes() == (tmp_path / "wide.nn").read_bytes()


def test_an_empty_fleet_and_a_folder_that_cannot_be_one(tmp_path: Path) -> None:
    with pytest.raises(StateError, match="expected a fleet with streams, found none"):
        Fleet().save(tmp_path)
    with pytest.raises(StateError, match="no such folder"):
        Fleet.load(tmp_path / "none")
    with pytest.raises(StateError, match=r"no manifest\.json in it"):
        Fleet.open(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(StateError, match="cannot write"):
        lived(1).save(tmp_path / "file")


def test_a_fleet_of_a_later_version_says_so(tmp_path: Path) -> None:
    mixed_fleet(1, 0, 0).save(tmp_path)
    for path in tmp_path.glob("manifest*"):
        path.write_text(json.dumps({**json.loads(path.read_text()), "version": 99}))
    with pytest.raises(StateError, match="version 99; this newnormal reads up to version 1"):
        Fleet.load(tmp_path)


# ---------------------------------------------------------------------- open


@pytest.mark.usefixtures("small_shards")
@pytest.mark.parametrize("every", [1, 5, 1000])
def test_a_fleet_that_is_killed_goes_on_as_if_it_had_not_been(tmp_path: Path, every: int) -> None:
    fleet = lived(20, tmp_path)
    for start in range(20, 110, 30):
        opened = Fleet.open(tmp_path, every=every)
        assert_equal(fleet, opened)
        for number in range(start, start + 30):
            samples = tick(fleet, number)
            assert_same_verdicts(fleet.step(samples), opened.step(samples))
        name = next(iter(fleet.changes_ or fleet.alarms_))
        for each in (fleet, opened):
            each.accept(name)
            with pytest.raises(FeedbackError):
                each.accept(name, 10_000)
        assert_equal(fleet, Fleet.load(tmp_path))
        abandon(opened)
    assert_equal(fleet, Fleet.load(tmp_path))
    assert check(tmp_path).ok


def test_run_flush_and_samples_that_cannot_be_taken_are_replayed(tmp_path: Path) -> None:
    fleet = lived(10, tmp_path)
    opened = Fleet.open(tmp_path)
    rng = np.random.default_rng(0)
    times = np.datetime64("2026-01-01", "ns") + np.arange(30) * np.timedelta64(1, "m")
    series = {"paper-0": rng.normal(size=(30, 2)), "wide-0": rng.normal(size=(7, 3))}
    verdicts = []
    for each in (fleet, opened):
        each.run(series, flush=False)
        each.flush()
        each.step({"narrow-0": [0.0, 1.0], "narrow-1": [0.0, np.inf], "nobody": [1.0]})
        verdicts.append(each.step({"narrow-0": [0.0, 1.0]}, times=times[3]))
        verdicts.append(each.step({"narrow-0": [0.0, 1.0], "narrow-2": [0, 0]}, times=times[2]))
    assert_same_verdicts(verdicts[1], verdicts[3])
    abandon(opened)
    replayed: list[Replayed] = []
    opened = Fleet.open(tmp_path, on_replay=replayed.append)
    assert_equal(fleet, opened)
    assert_same_verdicts(replayed[-1].verdicts, verdicts[1])
    assert [each.stream for each in replayed[2].verdicts.errors] == ["narrow-1", "nobody"]
    abandon(opened)


@pytest.mark.usefixtures("small_shards")
def test_verdicts_since_the_last_checkpoint_come_again_after_a_kill(tmp_path: Path) -> None:
    lived(20, tmp_path)
    opened = Fleet.open(tmp_path, every=40)
    seen: list[Any] = []
    for number in range(20, 47):
        opened.mark(f"line {number}".encode(), with_next=True)
        seen.append(opened.step(tick(opened, number)))
        if number == 44:
            printed = opened.mark(b"printed")
    abandon(opened)
    replayed: list[Replayed] = []
    opened = Fleet.open(tmp_path, on_replay=replayed.append)
    assert 2 <= len(replayed) < len(seen)
    for own, again in zip(seen[::-1], replayed[::-1], strict=False):
        assert_same_verdicts(own, again.verdicts)
    assert opened.last_marker == (b"line 46", opened.position)
    assert replayed[0].marker == b"line 46"
    assert [each.position > printed for each in replayed[-3:]] == [False, True, True]
    opened.close()
    assert Fleet.load(tmp_path).last_marker == (b"line 46", opened.position)


def test_a_marker_that_goes_with_a_record_is_there_only_with_it(tmp_path: Path) -> None:
    lived(3, tmp_path)
    opened = Fleet.open(tmp_path)
    opened.mark(b"place 1", with_next=True)
    opened.step(tick(opened, 3))
    opened.mark(b"place 2", with_next=True)
    abandon(opened)
    assert Fleet.load(tmp_path).last_marker[0] == b"place 1"
    with pytest.raises(ParameterError, match=f"at most {fleet_log.LONGEST_MARKER:,} bytes"):
        Fleet.open(tmp_path).mark(bytes(fleet_log.LONGEST_MARKER + 1))


@pytest.mark.usefixtures("small_shards")
def test_the_log_does_not_grow_beyond_what_checkpoints_need(tmp_path: Path) -> None:
    lived(5, tmp_path)
    with Fleet.open(tmp_path, every=10) as opened:
        for number in range(5, 100):
            opened.step(tick(opened, number))
        assert len(present(opened._log).writer.shards) > 5
        files = FileLog(tmp_path, str(read_manifest(tmp_path).log_id)).files
        assert 0 < files[0][0] <= read_manifest(tmp_path).first
        assert sum(path.stat().st_size for _, path in files) < opened.position / 3
    manifest = read_manifest(tmp_path)
    assert manifest.first == manifest.position == opened.position


def test_only_one_process_writes_and_others_may_read(tmp_path: Path) -> None:
    fleet = lived(3, tmp_path)
    with Fleet.open(tmp_path) as opened:
        with pytest.raises(StateError, match="in use by this process, which writes to it"):
            Fleet.open(tmp_path)
        with pytest.raises(StateError, match="in use by"):
            fleet.save(tmp_path)
        opened.step(tick(opened, 3))
        assert_equal(opened, Fleet.load(tmp_path))
        opened.save(tmp_path)  # is a checkpoint
        opened.save(tmp_path / "copy")
        assert_equal(opened, Fleet.load(tmp_path / "copy"))
    assert_equal(opened, Fleet.load(tmp_path))
    (tmp_path / "lock").write_text(f"\n{os.getpid() + 1}\n")
    fleet.save(tmp_path)


def test_loading_reads_what_was_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lived(3, tmp_path)
    stale = read_manifest(tmp_path)
    with Fleet.open(tmp_path) as opened:
        opened.step(tick(opened, 3))
    given = iter([stale])
    monkeypatch.setattr(
        "newnormal.fleet.folder.recovery.read_manifest",
        lambda folder: next(given, None) or read_manifest(folder),
    )
    assert_equal(opened, Fleet.load(tmp_path))


@pytest.mark.usefixtures("small_shards")
def test_streams_come_and_go_while_it_is_open(tmp_path: Path) -> None:
    fleet = lived(10, tmp_path)
    opened = Fleet.open(tmp_path, every=6)
    rng = np.random.default_rng(3)
    history = rng.normal(size=(300, 2))
    number = 10
    for turn in range(4):
        for each in (fleet, opened):
            each.remove(f"narrow-{turn}")
            each.add(f"new-{turn}", fitted("wide") if turn % 2 else fitted("narrow"))
            each.refit({f"narrow-{turn + 5}": history}) if turn < 2 else None
            each.set_options(("narrow-8", "narrow-9", f"wide-{turn}"), alarms_per_day=5 + turn)
            with pytest.raises(ParameterError, match="stream paper-0: alarms_per_day: expected a"):
                each.set_options(alarms_per_day=50)  # M2N2 without a limit: nothing changes
        fits = [fleet._streams[f"narrow-{at}"].fit for at in (8, 9, 10, 11)]
        assert fits[0] is fits[1] is not fits[2] is fits[3]
        assert_equal(fleet, Fleet.load(tmp_path))
        for _ in range(5):
            samples = {
                name: rng.normal(size=len(fleet._streams[name].fitted.channels))
                for name in fleet.streams_
            }
            fleet.step(samples)
            opened.step(samples)
            number += 1
        abandon(opened)
        opened = Fleet.open(tmp_path, every=6)
        assert_equal(fleet, opened)
    opened.close()
    assert check(tmp_path).ok and not check(tmp_path).problems


def test_a_failed_checkpoint_is_made_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = lived(5, tmp_path)
    opened = Fleet.open(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr("os.replace", _fails)
        with pytest.raises(StateError, match="No space left"):
            opened.add("new", fitted("narrow"))
        with pytest.raises(StateError, match="No space left"):
            opened.step({"new": [0.0, 0.0]})
    fleet.add("new", fitted("narrow"))
    assert_same_verdicts(fleet.step({"new": [0.0, 0.0]}), opened.step({"new": [0.0, 0.0]}))
    abandon(opened)
    assert_equal(fleet, Fleet.load(tmp_path))


def test_an_unwritable_log_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = lived(5, tmp_path)
    opened = Fleet.open(tmp_path)
    opened.step(tick(opened, 5))
    fleet.step(tick(fleet, 5))
    with monkeypatch.context() as patch:
        patch.setattr("os.write", _fails)
        with pytest.raises(StateError, match="cannot write the log") as caught:
            opened.step(tick(opened, 6))
        assert "nothing was judged" in str(caught.value)
        with pytest.raises(StateError, match="cannot write the log"):
            opened.accept("narrow-0")
    assert_equal(fleet, opened)
    fleet.step(tick(fleet, 6))
    opened.step(tick(opened, 6))
    abandon(opened)
    assert_equal(fleet, Fleet.load(tmp_path))


def _fails(*_: Any) -> Any:
    raise OSError(28, "No space left on device")


def test_a_fleet_in_memory_has_no_folder_to_write_to() -> None:
    fleet = mixed_fleet(1, 0, 0)
    for verb in (fleet.checkpoint, lambda: fleet.mark(b"")):
        with pytest.raises(StateError, match="found one in memory"):
            verb()
    with pytest.raises(ParameterError, match="every: expected at least 1"):
        Fleet.open("nowhere", every=0)
    fleet.close()


def test_a_record_that_is_not_ours_is_an_error(tmp_path: Path) -> None:
    lived(2, tmp_path)
    FileLog(tmp_path, str(read_manifest(tmp_path).log_id)).append(b"\x01\x00\x00\x00\x00nonsense")
    with pytest.raises(StateError, match="is not one of newnormal's"):
        Fleet.load(tmp_path)


def test_a_block_of_an_older_version_is_migrated(monkeypatch: pytest.MonkeyPatch) -> None:
    def added(arrays: Any) -> Any:
        return {**arrays, "changes.farthest": arrays["changes.after"]}

    stream = lived(10)._streams["narrow-0"]
    wanted = stream.shape.layout
    older = replace(wanted, fields=tuple(e for e in wanted.fields if e.name != "changes.farthest"))
    own = {each.name: each for each in wanted.fields}
    source, target = stream.block.copy(), np.zeros_like(stream.block)
    after = own["changes.after"]
    source[after.offset : after.offset + after.nbytes] = 7
    with pytest.raises(
        StateError, match=r"changes.farthest: expected <f8 of shape .*, found no such array"
    ):
        shards._copy_fields(older, source, wanted, target)
    monkeypatch.setattr(versions, "MIGRATIONS", (versions.Migration(lambda *each: each, added),))
    shards._copy_fields(older, source, wanted, target, 1)
    for name in ("changes.after", "changes.farthest"):
        assert (target[own[name].offset :][: own[name].nbytes] == 7).all()


# ---------------------------------------------------------------------- damage


def test_a_damaged_stream_is_named_and_the_others_are_loaded(tmp_path: Path) -> None:
    fleet = lived(40, tmp_path)
    width = read_manifest(tmp_path).layouts[0].nbytes
    flip(live_file(tmp_path), 3 * width + 100)
    with pytest.raises(StateError, match=r"1 of 22 streams are damaged: 'narrow-3'") as caught:
        Fleet.load(tmp_path)
    assert "newnormal fleet check FOLDER" in str(caught.value)
    with pytest.warns(
        NewnormalWarning, match="1 streams of .* are damaged and left out: 'narrow-3'"
    ):
        found = Fleet.load(tmp_path, skip_damaged=True)
    fleet.remove("narrow-3")
    assert found.streams_ == fleet.streams_
    report = check(tmp_path)
    assert not report.ok and report.problems[0].streams == ("narrow-3",)
    assert "start 1 of them again as they were fitted" in str(report)
    report = check(tmp_path, repair=True)
    assert report.ok and report.streams == 22
    found = Fleet.load(tmp_path)
    assert found.streams_[3] == "narrow-3" and found["narrow-3"].counters["seen"] == 0
    for name in fleet.streams_:
        assert found._streams[name].block.tobytes() == fleet._streams[name].block.tobytes()
    assert len(list((tmp_path / "damaged").iterdir())) == 1
    assert not check(tmp_path).problems


def test_streams_of_a_share_that_is_gone_are_named(tmp_path: Path) -> None:
    lived(10, tmp_path)
    live_file(tmp_path, 2).unlink()
    with pytest.raises(StateError, match="no file live-"):
        Fleet.load(tmp_path)
    report = check(tmp_path)
    assert report.streams == 18
    assert report.problems[0].streams == tuple(f"paper-{at}" for at in range(4))
    assert check(tmp_path, repair=True).streams == 22
    assert len(Fleet.load(tmp_path)) == 22


def test_streams_of_a_damaged_fit_are_left_out(tmp_path: Path) -> None:
    lived(10, tmp_path)
    flip(tmp_path / read_manifest(tmp_path).fits, -5)  # that of the last shape
    with pytest.raises(StateError, match="4 of 22 streams are damaged: 'paper-0'"):
        Fleet.load(tmp_path)
    report = check(tmp_path)
    assert {name for each in report.problems for name in each.streams} == {
        f"paper-{at}" for at in range(4)
    }
    assert check(tmp_path, repair=True).streams == 18
    assert len(Fleet.load(tmp_path)) == 18


def test_a_damaged_manifest_is_read_from_its_copy(tmp_path: Path) -> None:
    fleet = lived(5, tmp_path)
    flip(tmp_path / "manifest.json", 300)
    assert_equal(fleet, Fleet.load(tmp_path))
    assert "manifest.json is truncated or corrupted" in str(check(tmp_path))
    check(tmp_path, repair=True)
    assert not check(tmp_path).problems
    for path in tmp_path.glob("manifest*"):
        path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(StateError, match="is truncated or corrupted"):
        Fleet.load(tmp_path)
    assert "restore the folder from a backup" in str(check(tmp_path, repair=True))


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        ({"incidents": {}}, "manifest.json: expected a fact incidents."),
        ({"layouts": (Layout((Field("a", "(1,", (), 0),), 64),)}, "layouts: expected arrays"),
        ({"layouts": (Layout((Field("a", "9" * 5000, (), 0),), 64),)}, "layouts: expected arrays"),
    ],
)
def test_a_manifest_that_is_wrong_is_refused_with_a_hint(
    tmp_path: Path, wrong: dict[str, Any], expected: str
) -> None:
    mixed_fleet(1, 0, 0).save(tmp_path)
    replace(read_manifest(tmp_path), **wrong).write(tmp_path)
    with pytest.raises(StateError, match=expected) as caught:
        Fleet.load(tmp_path)
    assert "newnormal fleet check FOLDER" in str(caught.value)
    assert expected in str(check(tmp_path))


def opened_and_killed(folder: Path, samples: int = 6) -> Fleet:
    lived(5, folder)
    opened = Fleet.open(folder)
    for number in range(5, 5 + samples):
        opened.step(tick(opened, number))
    abandon(opened)
    return opened


def the_log(folder: Path) -> Path:
    (path,) = folder.glob("log-*")
    return path


def test_a_torn_record_is_cut_off_and_nothing_else(tmp_path: Path) -> None:
    opened_and_killed(tmp_path)
    path = the_log(tmp_path)
    path.write_bytes(path.read_bytes()[:-3])
    assert_equal(lived(10), Fleet.load(tmp_path))
    (problem,) = check(tmp_path).problems
    assert problem.left_by_kill and "the last record is not whole" in problem.text
    opened = Fleet.open(tmp_path)
    opened.step(tick(opened, 10))
    abandon(opened)
    assert_equal(lived(11), Fleet.load(tmp_path))


def test_a_damaged_record_is_an_error_until_it_is_skipped(tmp_path: Path) -> None:
    opened_and_killed(tmp_path)
    path = the_log(tmp_path)
    flip(path, path.stat().st_size // 2)
    with pytest.raises(StateError, match=r"expected a record at position .*, found damage"):
        Fleet.load(tmp_path)
    assert "are damaged" in str(check(tmp_path))
    assert check(tmp_path, repair=True).ok
    fleet = lived(5)
    for number in (5, 6, 7, 9, 10):  # the record in the middle is that of sample 8
        fleet.step(tick(fleet, number))
    assert_equal(fleet, Fleet.load(tmp_path))


@pytest.mark.parametrize("at", [0, 3])
def test_bytes_too_few_for_a_gap_cost_no_sample(tmp_path: Path, at: int) -> None:
    opened = opened_and_killed(tmp_path)
    path = the_log(tmp_path)
    part = list(log.scan(path, 0))[at]
    content = path.read_bytes()
    path.write_bytes(content[: part.start] + b"few" + content[part.start :])
    with pytest.raises(StateError, match=f"expected a record at position {part.start}, found dam"):
        Fleet.load(tmp_path)
    assert f"3 bytes at position {part.start} are damaged" in str(check(tmp_path))
    assert check(tmp_path, repair=True).ok
    assert not check(tmp_path).problems
    assert_equal(opened, Fleet.load(tmp_path))
    assert [each.name for each in (tmp_path / "damaged").iterdir()] == [path.name]
    with Fleet.open(tmp_path) as opened:
        opened.step(tick(opened, 11))
    assert_equal(opened, Fleet.load(tmp_path))


def test_a_log_that_cannot_be_read_is_taken_away(tmp_path: Path) -> None:
    opened_and_killed(tmp_path)
    path = the_log(tmp_path)
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    content = path.read_bytes()
    with pytest.raises(StateError, match="expected an ordinary file, found a link"):
        Fleet.load(tmp_path)
    assert "found a link\n  repair: take it away" in str(check(tmp_path))
    assert check(tmp_path, repair=True).ok
    assert not check(tmp_path).problems
    assert_equal(lived(5), Fleet.load(tmp_path))
    assert (tmp_path / "damaged" / path.name).is_symlink() and not path.exists()
    assert (tmp_path / "elsewhere").read_bytes() == content


def test_damage_to_what_every_shard_has_is_not_read(tmp_path: Path) -> None:
    lived(5).save(tmp_path)
    opened = Fleet.open(tmp_path)
    opened.step(tick(opened, 5))
    opened.checkpoint()
    flip(the_log(tmp_path), 30)
    opened.step(tick(opened, 6))
    abandon(opened)
    assert_equal(opened, Fleet.load(tmp_path))
    assert not check(tmp_path).problems


def test_a_log_that_is_gone_is_an_error_until_it_is_done_without(tmp_path: Path) -> None:
    lived(5, tmp_path)
    opened = Fleet.open(tmp_path, every=6)
    for number in range(5, 10):
        opened.step(tick(opened, number))
    abandon(opened)
    the_log(tmp_path).unlink()
    with pytest.raises(StateError, match="expected a log up to position"):
        Fleet.load(tmp_path)
    assert "is missing" in str(check(tmp_path))
    assert check(tmp_path, repair=True).ok
    assert not check(tmp_path).problems
    with Fleet.open(tmp_path) as opened:
        opened.step(tick(opened, 10))
        assert_equal(opened, Fleet.load(tmp_path))


def test_files_that_belong_to_no_checkpoint_are_found_and_removed(tmp_path: Path) -> None:
    lived(5, tmp_path)
    for name in ("live-0123456789ab.bin", "log-0123456789ab-00000000000000000000.bin"):
        (tmp_path / name).write_bytes(b"left")
    (tmp_path / "mine.txt").write_text("of others")
    assert [each.left_by_kill for each in check(tmp_path).problems] == [True, True]
    assert check(tmp_path).ok
    check(tmp_path, repair=True)
    assert not check(tmp_path).problems and (tmp_path / "mine.txt").exists()


@pytest.mark.parametrize(
    ("field", "column", "value", "expected"),
    [
        ("alarm.counts", 10, 60, "alarm.counts.next: a whole number from 0 to 59"),
        (
            "model.own.members.counts",
            0,
            100,
            "model.own.members.counts.head: a whole number from 0 to 99",
        ),
        ("model.step.counts", 1, 6, "model.step.counts.held: a whole number from 0 to L"),
        ("log.channels", 0, 9, "log.channels: channels, each once, or -1"),
        (
            "changes.counts",
            0,
            7,
            "changes.counts.number: a whole number from 0 to review.counts.newest_change",
        ),
        ("drift.counts", 1, -2, "drift.counts.mark: a whole number from -1 to samples"),
        ("review.counts", 0, 50, "review.counts.reviews: as many as the samples seen make"),
        ("last_quiet.levels", 4, -1, "last_quiet.levels, of the weights: numbers from 0 to 1e+10"),
        ("drift.lows", 2, 3_000_000, "drift.lows, drift.highs: levels that a stream can have"),
    ],
)
def test_counters_that_would_be_used_as_positions_are_checked(
    tmp_path: Path, field: str, column: int, value: int, expected: str
) -> None:
    fleet = mixed_fleet(2, 0, 0)
    stream = fleet._streams["narrow-1"]
    own = {each.name: each for each in stream.shape.layout.fields}[field]
    np.ndarray(own.shape, own.dtype, stream.block.data, own.offset).reshape(-1)[column] = value
    fleet.save(tmp_path)
    with pytest.raises(StateError) as caught:
        Fleet.load(tmp_path)
    assert f"stream 'narrow-1': expected {expected}, found others" in str(caught.value)
    assert check(tmp_path).problems[0].streams == ("narrow-1",)


def with_other_layout(fleet: Fleet, name: str, renamed: str | None = None) -> Fleet:
    """Return a fleet of one stream whose arrays are in the reverse order."""
    stream = fleet._streams[name]
    fields, end = [], 0
    for each in reversed(stream.shape.layout.fields):
        own = "other" if each.name == renamed else each.name
        fields.append(replace(each, name=own, offset=end))
        end += -(-each.nbytes // 64) * 64
    layout = Layout(tuple(fields), end)
    other = Fleet(epochs=1, alarms_per_day=1.0)
    found = Stream(name, stream.template, stream.fit, Shape(layout, stream.shape.arrays))
    if renamed is None:
        found.put(stream.open(), stream.past or ())
        other._streams.restore(found)
    else:
        found.block[:] = 0
        for each in layout.fields:
            if each.name in ("log.channels", "log.spans", "silence.channels"):
                np.ndarray(each.shape, each.dtype, found.block.data, each.offset)[...] = -1
        other._streams._where[name] = fleet._streams.where(name)
        other._streams._where[name][0].streams[fleet._streams.where(name)[1]] = found
        other._streams._changed()
    return other


def test_arrays_at_other_places_are_copied_by_name(tmp_path: Path) -> None:
    fleet = lived(40)
    for name in fleet.streams_:
        if name != "narrow-0":
            fleet.remove(name)
    with_other_layout(fleet, "narrow-0").save(tmp_path)
    found = Fleet.load(tmp_path)
    own, new = (list(arrays(each._streams["narrow-0"].open())) for each in (fleet, found))
    assert [each.tobytes() for each in own] == [each.tobytes() for each in new]
    assert found._streams["narrow-0"].shape.layout == fleet._streams["narrow-0"].shape.layout
    with Fleet.open(tmp_path) as opened:  # writes them as this version does
        opened.step({"narrow-0": [0.0, 0.0]})
    assert read_manifest(tmp_path).layouts == (fleet._streams["narrow-0"].shape.layout,)
    assert_equal(opened, Fleet.load(tmp_path))


def test_arrays_that_this_version_does_not_have_are_named(tmp_path: Path) -> None:
    with_other_layout(mixed_fleet(1, 0, 0), "narrow-0", "alarm.recent").save(tmp_path)
    with pytest.raises(
        StateError, match=r"alarm\.recent: expected <f8 of shape \(60,\), found no such array"
    ):
        Fleet.load(tmp_path)


def test_a_model_that_holds_objects_cannot_be_saved(tmp_path: Path) -> None:
    fleet = lived(2, tmp_path)
    fleet._streams["paper-0"].fitted.model.__dict__["holds_objects"] = True
    try:
        with pytest.raises(StateError, match="cannot be saved: it holds objects of its own"):
            fleet.save(tmp_path)
    finally:
        del fleet._streams["paper-0"].fitted.model.__dict__["holds_objects"]
    assert_equal(fleet, Fleet.load(tmp_path))
