"""A fleet in a folder: saved, loaded, opened on an engine, checked and repaired."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import newnormal
from newnormal import M2N2, FeedbackError, Fleet, ParameterError, StateError
from newnormal.core.arena import Field, Layout
from newnormal.core.state import arrays
from newnormal.engine import folder as engine_folder
from newnormal.engine.log.sqlite_log import SqliteLog
from newnormal.engine.store.checking import check as check_engine
from newnormal.errors import NewnormalWarning
from newnormal.fleet.folder import shards, writer
from newnormal.fleet.folder.check import check
from newnormal.fleet.folder.manifest import read_manifest
from newnormal.fleet.stream import Shape, Stream
from newnormal.state import versions
from tests.fleets import assert_equal, assert_same_verdicts, fitted, mixed_fleet, tick


@pytest.fixture
def small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have several shards of each shape."""
    monkeypatch.setattr(writer, "SHARD", 150_000)


def lived(samples: int, folder: Path | None = None) -> Fleet:
    """Return a fleet that has judged samples, and has been saved in a folder."""
    fleet = mixed_fleet()
    for number in range(samples):
        fleet.step(tick(fleet, number))
    if folder is not None:
        fleet.save(folder)
    return fleet


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
        Fleet.load(tmp_path)
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


def test_saving_over_an_older_fleet_replaces_it(tmp_path: Path) -> None:
    lived(5, tmp_path)
    other = mixed_fleet(2, 1, 0)
    other.save(tmp_path)
    assert_equal(other, Fleet.load(tmp_path))
    assert not check(tmp_path).problems


@pytest.mark.usefixtures("small_shards")
@pytest.mark.parametrize("every", [0.0, 1e9])
def test_a_fleet_that_is_killed_goes_on_as_if_it_had_not_been(
    tmp_path: Path, every: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_folder, "_EVERY_S", every)
    fleet = lived(20)
    opened = Fleet.open(tmp_path, fleet)
    for start in range(20, 110, 30):
        assert_equal(fleet, opened)
        for number in range(start, start + 30):
            samples = tick(fleet, number)
            assert_same_verdicts(fleet.step(samples), opened.step(samples))
        name = next(iter(fleet.changes_ or fleet.alarms_))
        for each in (fleet, opened):
            each.accept(name)
            with pytest.raises(FeedbackError):
                each.accept(name, 10_000)
        opened.close(save=False)
        opened = Fleet.open(tmp_path)
    assert_equal(fleet, opened)
    opened.close()
    assert_equal(fleet, Fleet.load(tmp_path))
    assert check_engine(tmp_path).ok


def test_the_last_verdicts_come_again_after_a_kill(tmp_path: Path) -> None:
    fleet = lived(10)
    opened = Fleet.open(tmp_path, fleet)
    rng = np.random.default_rng(0)
    times = np.datetime64("2026-01-01", "ns") + np.arange(30) * np.timedelta64(1, "m")
    series = {"paper-0": rng.normal(size=(30, 2)), "wide-0": rng.normal(size=(7, 3))}
    verdicts = []
    for each in (fleet, opened):
        each.run(series, flush=False)
        each.flush()
        each.step({"narrow-0": [0.0, 1.0], "narrow-1": [0.0, np.inf], "nobody": [1.0]})
        each.step({"narrow-0": [0.0, 1.0]}, times=times[3])
        verdicts.append(each.step({"narrow-0": [0.0, 1.0], "narrow-2": [0, 0]}, times=times[2]))
    assert_same_verdicts(*verdicts)
    opened.close(save=False)
    again: list[Any] = []
    with Fleet.open(tmp_path, on_replay=again.append) as opened:
        assert_equal(fleet, opened)
        assert [each.json_lines() for each in again] == [verdicts[0].json_lines()[1:]]
    with Fleet.open(tmp_path, on_replay=again.append):
        assert len(again) == 1


def test_only_one_process_writes_and_others_may_read(tmp_path: Path) -> None:
    fleet = lived(3)
    with Fleet.open(tmp_path, fleet) as opened:
        with pytest.raises(StateError, match="in use by this process, which writes to it"):
            Fleet.open(tmp_path)
        opened.step(tick(opened, 3))
        opened.save(tmp_path)  # is a checkpoint
        assert_equal(opened, Fleet.load(tmp_path))
        opened.save(tmp_path / "copy")
        assert_equal(opened, Fleet.load(tmp_path / "copy"))
    with pytest.raises(StateError, match="found one in memory"):
        opened.checkpoint(1)
    with pytest.raises(StateError, match="found no streams in it"):
        Fleet.open(tmp_path / "none")


def test_loading_reads_what_was_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Fleet.open(tmp_path, lived(3)) as opened:
        stale = read_manifest(tmp_path / "fleet")
        opened.step(tick(opened, 3))
    given = iter([stale])
    monkeypatch.setattr(
        "newnormal.fleet.folder.recovery.read_manifest",
        lambda folder: next(given, None) or read_manifest(folder),
    )
    assert_equal(opened, Fleet.load(tmp_path))


@pytest.mark.usefixtures("small_shards")
def test_streams_come_and_go_while_it_is_open(tmp_path: Path) -> None:
    fleet = lived(10)
    opened = Fleet.open(tmp_path, fleet)
    rng = np.random.default_rng(3)
    history = rng.normal(size=(300, 2))
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
        opened.close(save=False)
        opened = Fleet.open(tmp_path)
        assert_equal(fleet, opened)
    opened.close()
    assert check_engine(tmp_path).ok


def test_an_unwritable_log_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = lived(5)
    opened = Fleet.open(tmp_path, fleet)
    opened.step(tick(opened, 5))
    fleet.step(tick(fleet, 5))
    with monkeypatch.context() as patch:
        patch.setattr(SqliteLog, "append", _fails)
        with pytest.raises(StateError, match="the disk is full"):
            opened.step(tick(opened, 6))
        with pytest.raises(StateError, match="the disk is full"):
            opened.undo("narrow-0")
    assert_equal(fleet, opened)
    fleet.step(tick(fleet, 6))
    opened.step(tick(opened, 6))
    opened.close(save=False)
    with Fleet.open(tmp_path) as opened:
        assert_equal(fleet, opened)


def _fails(*_: Any) -> Any:
    raise StateError("cannot write log.sqlite: the disk is full")


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


def test_streams_of_a_damaged_fit_are_left_out_and_those_of_a_shard_that_is_gone_named(
    tmp_path: Path,
) -> None:
    lived(10, tmp_path)
    live_file(tmp_path, 2).unlink()
    with pytest.raises(StateError, match="no file live-"):
        Fleet.load(tmp_path)
    report = check(tmp_path)
    assert report.streams == 18
    assert report.problems[0].streams == tuple(f"paper-{at}" for at in range(4))
    assert check(tmp_path, repair=True).streams == 22
    assert len(Fleet.load(tmp_path)) == 22
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


def test_files_that_belong_to_no_checkpoint_are_found_and_removed(tmp_path: Path) -> None:
    lived(5, tmp_path)
    for name in ("live-0123456789ab.bin", "fits-0123456789ab.bin"):
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
    found.step({"narrow-0": [0.0, 0.0]})
    found.save(tmp_path)  # writes them as this version does
    assert read_manifest(tmp_path).layouts == (fleet._streams["narrow-0"].shape.layout,)
    assert_equal(found, Fleet.load(tmp_path))


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
