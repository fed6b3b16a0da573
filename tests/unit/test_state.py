"""State files: what is written is what is read, and nothing else is taken for one."""

from __future__ import annotations

import ast
import errno
import json
import os
import re
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy

import newnormal
from newnormal import M2N2, Detector, Fixed, StateError, state
from newnormal.base import BaseDetector
from newnormal.core.state import arrays
from newnormal.state import versions
from newnormal.types import Floats
from tests.errors import raised
from tests.golden.make_golden import frame
from tests.present import present
from tests.strategies import nasty_series

GOLDEN = Path(__file__).parents[1] / "golden"
SOURCES = Path(newnormal.__file__).parent
# The sample at which these versions accepted what an alarm was about; since version 5 a change is.


@pytest.fixture(scope="module")
def history() -> Floats:
    return nasty_series("some missing", 80, 2)


@pytest.fixture
def detector(history: Floats) -> M2N2:
    detector = M2N2(window=4, latent=2, epochs=1, lr=0.05).fit(history)
    detector.run(history[:30], flush=False)
    return detector


@pytest.fixture
def saved(detector: M2N2, tmp_path: Path) -> Path:
    path = tmp_path / "plant.nn"
    detector.save(path)
    return path


def envelope_of(content: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a file's safetensors header and, out of it, what newnormal wrote."""
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    return header, json.loads(header["__metadata__"]["newnormal"])


def with_envelope(content: bytes, change: Callable[[dict[str, Any]], None]) -> bytes:
    _, envelope = envelope_of(content)
    change(envelope)
    tensors = safetensors.numpy.load(content)
    return safetensors.numpy.save(tensors, metadata={"newnormal": json.dumps(envelope)})


def expect_refusal(path: Path, text: str) -> StateError:
    """Loading fails with that text, names the file, and leaves it as it was."""
    before = path.read_bytes() if path.is_file() else None
    error = raised(StateError, lambda: M2N2.load(path))
    assert re.search(text, error.message)
    assert str(path) in error.message
    assert "\nhint: " in str(error) or path.is_dir()
    if before is not None:
        assert path.read_bytes() == before
    return error


def test_what_was_saved_is_what_is_loaded(detector: M2N2, saved: Path) -> None:
    other = M2N2.load(saved)
    assert other.get_params() == detector.get_params()
    assert repr(other) == repr(detector)
    assert other.channels_ == detector.channels_
    assert other.threshold_ == detector.threshold_
    assert other.losses_ == detector.losses_
    assert other.period_ == detector.period_
    assert other.decay_ == detector.decay_
    assert other.n_features_in_ == 2
    assert other.counters == detector.counters
    for live, ref in ((other._state, detector._state), (other._fitted.step, detector._fitted.step)):
        for one, same in zip(arrays(live), arrays(ref), strict=True):
            np.testing.assert_array_equal(one, same, strict=True)
    assert other._fitted.step[3:] == detector._fitted.step[3:]
    assert other._fitted.alarm == detector._fitted.alarm


def test_every_option_comes_back_as_it_was_given(history: Floats, tmp_path: Path) -> None:
    options: dict[str, Any] = {
        "window": 6,
        "stride": 2,
        "fit_stride": 3,
        "latent": 5,
        "half_life": "90m",
        "lr": 0.25,
        "threshold": Fixed(1.5),
        "detrend": False,
        "adapt": False,
        "model": "mlp",
        "epochs": 2,
        "batch": 7,
        "period": "30s",
        "seed": 3,
        "accept_after": "2h",
        "units": {"1": "°C"},
    }
    alternatives = {"decay", "alarms_per_day", "risk"}
    assert set(options) | alternatives == set(M2N2().get_params())
    path = tmp_path / "state.nn"
    M2N2(**options).fit(history).save(path)
    assert M2N2.load(path).get_params() == options | dict.fromkeys(alternatives)
    # It can be fitted again: the default decay is still a default beside half_life.
    M2N2.load(path).fit(history)


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        (M2N2, {"decay": 0.5}),
        (M2N2, {}),
        (M2N2, {"risk": 0.001}),
        (Detector, {"alarms_per_day": 3.0}),
        (Detector, {"risk": 0.001}),
        (Detector, {}),
    ],
)
def test_what_was_not_given_comes_back_as_not_given(
    history: Floats, tmp_path: Path, kind: type[Detector | M2N2], given: dict[str, float]
) -> None:
    path = tmp_path / "state.nn"
    ref: BaseDetector = kind(epochs=1, **given).fit(history)  # type: ignore[arg-type]
    ref.save(path)
    comp = newnormal.load(path)
    assert type(comp) is kind
    assert comp.get_params() == ref.get_params() == {**kind(epochs=1).get_params(), **given}
    assert comp.explain() == ref.explain()


@pytest.mark.parametrize(("saved_as", "asked_for"), [(Detector, M2N2), (M2N2, Detector)])
def test_the_state_of_the_other_detector_is_refused_by_name(
    history: Floats,
    tmp_path: Path,
    saved_as: type[Detector | M2N2],
    asked_for: type[Detector | M2N2],
) -> None:
    path = tmp_path / "state.nn"
    saved_as(epochs=1).fit(history).save(path)
    assert str(raised(StateError, lambda: asked_for.load(path))) == (
        f"{path} is a {saved_as.__name__}, expected a {asked_for.__name__}\n"
        f"hint: newnormal.load returns either; {saved_as.__name__}.load this one"
    )


@pytest.mark.parametrize("threshold", [0.9, 1, Fixed(np.inf), Fixed(-np.inf), Fixed(0.1)])
def test_thresholds_survive_also_infinite_ones(
    history: Floats, tmp_path: Path, threshold: Any
) -> None:
    path = tmp_path / "state.nn"
    ref = M2N2(window=4, epochs=1, threshold=threshold).fit(history)
    ref.save(path)
    comp = M2N2.load(path)
    assert comp.threshold == threshold
    assert comp.threshold_ == ref.threshold_


def test_a_loaded_detector_does_not_write_into_another(saved: Path, history: Floats) -> None:
    one, other = M2N2.load(saved), M2N2.load(saved)
    one.run(history)
    assert other.counters["seen"] == 30
    other.reset()
    np.testing.assert_array_equal(other._state.model.step.weights, other._fitted.step.fitted)


def test_the_same_state_gives_the_same_bytes(detector: M2N2, tmp_path: Path) -> None:
    names = [tmp_path / name for name in ("a.nn", "b.nn")]
    for name in names:
        detector.save(name)
    M2N2.load(names[0]).save(tmp_path / "c.nn")
    assert len({path.read_bytes() for path in tmp_path.iterdir()}) == 1


def test_the_file_is_an_ordinary_safetensors_file_with_a_versioned_header(saved: Path) -> None:
    content = saved.read_bytes()
    tensors = safetensors.numpy.load(content)
    assert {"fitted.step.mean", "live.model.step.trend", "live.times.last"} <= set(tensors)
    header, envelope = envelope_of(content)
    assert set(header["__metadata__"]) == {"newnormal"}
    assert set(envelope) == {"version", "sha256", "state"}
    assert envelope["version"] == state.VERSION
    assert {"method", "options", "channels", "period", "events"} <= set(envelope["state"])


def test_a_path_may_be_text(detector: M2N2, tmp_path: Path) -> None:
    detector.save(str(tmp_path / "text.nn"))
    assert M2N2.load(str(tmp_path / "text.nn")).counters == detector.counters


def test_a_threshold_of_ones_own_cannot_be_saved_and_the_error_says_what_can(
    history: Floats, tmp_path: Path
) -> None:
    class Largest:
        def fit(self, scores: Floats) -> float:
            return float(scores.max())

    detector = M2N2(window=4, epochs=1, threshold=Largest()).fit(history)
    assert str(raised(StateError, lambda: detector.save(tmp_path / "state.nn"))) == (
        "a threshold of type Largest cannot be saved: a state file holds no code\n"
        "hint: fit with threshold=newnormal.Fixed(detector.threshold_) to save its present value, "
        "or give the class a to_json() that returns its options"
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("twentieth", range(20))
def test_a_truncated_file_is_refused(saved: Path, twentieth: int) -> None:
    content = saved.read_bytes()
    saved.write_bytes(content[: len(content) * twentieth // 20])
    expect_refusal(saved, "is truncated or corrupted" if twentieth else "is not a newnormal state")


def test_a_file_with_a_flipped_byte_or_one_too_many_or_too_few_is_refused(saved: Path) -> None:
    content = saved.read_bytes()
    for wrong in (content[:-1], content + b"\0"):
        saved.write_bytes(wrong)
        expect_refusal(saved, "is truncated or corrupted")
    header_end = 8 + int.from_bytes(content[:8], "little")
    for place in sorted({*range(0, len(content), 41), *range(12), header_end - 1, header_end}):
        for bit in (0x01, 0x80):
            spoiled = bytearray(content)
            spoiled[place] ^= bit
            saved.write_bytes(spoiled)
            expect_refusal(saved, re.escape(str(saved)))


@pytest.mark.parametrize(
    "content", [b"", b"\0", b"time,flow\n2026-01-01,3.5\n" * 20, b"{}", b"\x80\x04"]
)
def test_a_foreign_file_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "foreign.nn"
    path.write_bytes(content)
    error = expect_refusal(path, "is not a newnormal state file$")
    assert error.hint == "expected a file written by `newnormal fit` or `save`"


def test_a_missing_file_a_folder_and_a_file_of_somebody_else_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "llm.safetensors"
    for metadata in (None, {"format": "pt"}):
        path.write_bytes(safetensors.numpy.save({"w": np.zeros(3)}, metadata=metadata))
        expect_refusal(path, "is a safetensors file, but not one of newnormal's$")
    expect_refusal(tmp_path / "none.nn", "none.nn: no such file$")
    expect_refusal(tmp_path, "cannot read .*: Is a directory")


@pytest.mark.parametrize("version", [state.VERSION + 1, 99])
def test_a_newer_file_is_refused_with_the_way_out(saved: Path, version: int) -> None:
    def newer(envelope: dict[str, Any]) -> None:
        envelope["version"] = version
        envelope["state"] = {"something": "else"}

    saved.write_bytes(with_envelope(saved.read_bytes(), newer))
    error = expect_refusal(
        saved, f"has state version {version}; this newnormal reads up to version {state.VERSION}$"
    )
    assert error.hint == "pip install --upgrade newnormal"


@pytest.mark.parametrize(
    ("key", "value"),
    [("version", None), ("version", "1"), ("version", 1.5), ("sha256", "0" * 64), ("state", [])],
)
def test_an_envelope_that_says_something_else_is_refused(saved: Path, key: str, value: Any) -> None:
    saved.write_bytes(
        with_envelope(saved.read_bytes(), lambda envelope: envelope.update({key: value}))
    )
    expect_refusal(saved, "is truncated or corrupted$")


FACTS = ("method", "options", "channels", "losses", "events", "past")
TENSORS = ("fitted.step.mean", "live.model.step.weights", "live.log.counts", "live.times.last")


@pytest.mark.parametrize("missing", [*FACTS, *TENSORS, "model.center"])
def test_a_state_that_is_intact_but_lacks_something_is_refused(
    saved: Path, detector: M2N2, missing: str
) -> None:
    ref = detector.to_state()
    facts = {name: value for name, value in ref.facts.items() if name != missing}
    tensors = {name: tensor for name, tensor in ref.tensors.items() if name != missing}
    state.write(saved, state.encode(state.State(facts, tensors)))
    kind = "fact" if missing in FACTS else "tensor"
    expect_refusal(saved, f"expected a {kind} {re.escape(missing)}, found none$")


def edited(detector: BaseDetector, path: Path, edit: Callable[[dict[str, Any]], None]) -> None:
    """Save a detector with facts that say something else, and the digest that belongs to them."""
    ref = detector.to_state()
    facts = json.loads(json.dumps(ref.facts))
    edit(facts)
    state.write(path, state.encode(state.State(facts, ref.tensors)))


@pytest.mark.parametrize(
    ("place", "value", "text"),
    [
        (("options", "window"), 10**5, r"fitted.step.fitted: expected at least \d+ for a window"),
        (("options", "latent"), "16", r"latent: expected a whole number"),
        (("channels",), ["a", "a"], r"channels: expected different names, found one twice"),
        (("channels",), ["a"], r"model.center: expected f8 of shape \(1,\), found f8 of shape"),
        (("accept_after",), 100, r"expected a tensor fitted.drift.mean, found none"),
        (("method",), "detector", r"choice: expected one for a detector alone|latent|window"),
        (("something",), {}, r"something: not a fact of this version"),
    ],
    ids=lambda each: ".".join(each) if isinstance(each, tuple) else "",
)
def test_a_fact_that_does_not_fit_is_named(
    saved: Path, detector: M2N2, place: tuple[str, ...], value: Any, text: str
) -> None:
    def edit(facts: dict[str, Any]) -> None:
        *inner, last = place
        for name in inner:
            facts = facts[name]
        facts[last] = value

    edited(detector, saved, edit)
    expect_refusal(saved, text)


def at(position: int, value: float) -> Callable[[Any], Any]:
    """Return a change of one number of an array."""

    def change(array: Any) -> Any:
        array = array.copy()
        array[position] = value
        return array

    return change


@pytest.mark.parametrize(
    ("name", "change", "text"),
    [
        ("live.model.step.weights", lambda x: x[:-1], r"weights: expected f4 of shape"),
        ("live.model.step.weights", lambda x: x.astype("f8"), r"expected f4 .* found f8"),
        ("live.model.step.weights", lambda x: x * np.nan, r"weights: expected finite numbers"),
        ("live.model.step.samples", lambda x: x + np.inf, r"expected numbers that are not inf"),
        ("live.model.step.trend", lambda x: x[None], r"expected f8 of shape \(2,\), found f8"),
        ("live.model.step.counts", at(2, 10**6), r"pending: a whole number from 0 to held"),
        ("live.model.step.counts", at(0, -1), r"seen: a whole number from 0 to"),
        ("live.model.step.counts", at(3, 10**18), r"cycle: a whole number from 0 to L"),
        ("live.times.counts", at(0, 10**6), r"times.counts.held: a whole number from 0 to L"),
        ("live.alarm.counts", at(9, 1), r"alarm.counts.open: a whole number from 0 to alarms"),
        ("live.alarm.tail_levels", lambda x: x[::-1].copy(), r"tail_levels: expected increasing"),
        ("fitted.alarm_start.counts", lambda x: x + 2**62, r"counts.age: a whole number from 0 to"),
        ("fitted.alarm_start.levels", lambda x: x + np.inf, "alarm.levels: finite rates"),
        ("live.alarm.tail_excess", lambda x: 0 * x, r"tail_excess: expected a start, a chance"),
        ("live.learn_threshold", lambda x: x * np.nan, r"expected numbers other than NaN"),
        ("fitted.step.scale", lambda x: 0 * x, r"scale: expected finite numbers above 0"),
        ("fitted.alarm.numbers", at(1, 0), r"fitted.alarm.spread: expected a number above 0"),
        ("live.more", None, r"live.more: not a tensor of this version"),
    ],
)
def test_a_tensor_that_does_not_fit_is_named(
    saved: Path, detector: M2N2, name: str, change: Callable[[Any], Any] | None, text: str
) -> None:
    ref = detector.to_state()
    tensor = np.zeros(3) if change is None else change(ref.tensors[name])
    state.write(saved, state.encode(state.State(ref.facts, {**ref.tensors, name: tensor})))
    expect_refusal(saved, text)


def test_json_that_is_too_deep_or_too_long_is_refused(saved: Path) -> None:
    content = saved.read_bytes()
    for text in ("[" * 100_000, '{"a":' * 100_000, "[" + "[]," * 2_000_000 + "[]]"):
        _, envelope = envelope_of(content)
        whole = json.dumps({**envelope, "state": "HERE"}).replace('"HERE"', text)
        tensors = safetensors.numpy.load(content)
        saved.write_bytes(safetensors.numpy.save(tensors, metadata={"newnormal": whole}))
        expect_refusal(saved, "is truncated or corrupted|expected a header of at most")


def test_the_channels_of_an_open_alarm_keep_their_order(tmp_path: Path) -> None:
    detector = newnormal.load(GOLDEN / "runs" / "alarm.nn")
    before = present(detector.alarm_)
    shares = list(before.channels.values())
    assert shares == sorted(shares, reverse=True)
    detector.save(tmp_path / "plant.nn")
    after = present(newnormal.load(tmp_path / "plant.nn").alarm_)
    assert list(after.channels.items()) == list(before.channels.items())


def test_what_could_not_be_loaded_again_does_not_replace_the_old_file(
    detector: M2N2, saved: Path
) -> None:
    before = saved.read_bytes()
    detector._state.times.counts[0] = 10**6
    with pytest.raises(StateError, match="nothing was written, since it could not be loaded again"):
        detector.save(saved)
    assert saved.read_bytes() == before
    assert [path.name for path in saved.parent.iterdir()] == [saved.name]


def test_temporary_files_of_a_process_that_is_gone_are_removed(saved: Path) -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    # In a container this process may have the number of the one that was killed before it.
    for process in (gone.pid, os.getpid(), os.getppid()):
        (saved.parent / f".plant.nn.{process}-0badcafe.tmp").touch()
    (saved.parent / ".other.nn.1-0badcafe.tmp").touch()
    state.remove_stale(saved)
    assert sorted(path.name for path in saved.parent.iterdir()) == [
        ".other.nn.1-0badcafe.tmp",
        f".plant.nn.{os.getppid()}-0badcafe.tmp",
        "plant.nn",
    ]


def test_a_file_that_this_process_is_writing_is_not_stale(
    saved: Path, detector: M2N2, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync = os.fsync

    def clean(handle: int) -> None:
        state.remove_stale(saved)
        sync(handle)

    monkeypatch.setattr(os, "fsync", clean)
    detector.save(saved)
    assert M2N2.load(saved).counters == detector.counters


def test_saving_does_not_touch_the_umask_of_the_process(
    detector: M2N2, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "umask", fail)
    detector.save(tmp_path / "plant.nn")


def fail(*_: object, **__: object) -> Any:
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("function", ["replace", "fsync", "fdopen", "chmod"])
def test_a_failed_write_leaves_the_old_file_and_nothing_else(
    detector: M2N2, saved: Path, history: Floats, monkeypatch: pytest.MonkeyPatch, function: str
) -> None:
    before = saved.read_bytes()
    detector.run(history)
    monkeypatch.setattr(os, function, fail)
    with pytest.raises(StateError, match=r"cannot write .*plant\.nn: No space left on device"):
        detector.save(saved)
    monkeypatch.undo()
    assert saved.read_bytes() == before
    assert list(saved.parent.iterdir()) == [saved]
    detector.save(saved)
    assert M2N2.load(saved).counters["seen"] == 110


def test_an_interrupted_write_leaves_the_old_file_and_nothing_else(
    detector: M2N2, saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = saved.read_bytes()
    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        detector.save(saved)
    assert saved.read_bytes() == before
    assert list(saved.parent.iterdir()) == [saved]


def test_the_content_is_on_disk_before_the_old_file_is_replaced(
    detector: M2N2, saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []

    def watched(name: str) -> Callable[..., Any]:
        real = getattr(os, name)

        def call(*args: Any) -> Any:
            calls.append(name)
            return real(*args)

        return call

    for name in ("fsync", "replace"):
        monkeypatch.setattr(os, name, watched(name))
    detector.save(saved)
    assert calls[:2] == ["fsync", "replace"]


def test_a_folder_that_is_not_there_or_in_the_way_is_an_error_and_nothing_is_left(
    detector: M2N2, tmp_path: Path
) -> None:
    assert str(raised(StateError, lambda: detector.save(tmp_path / "none" / "plant.nn"))) == (
        f"cannot write {tmp_path}/none/plant.nn: No such file or directory\n"
        "hint: choose a folder that exists and can be written to"
    )
    (tmp_path / "plant.nn").mkdir()
    with pytest.raises(StateError, match=r"cannot write .*plant\.nn: Is a directory"):
        detector.save(tmp_path / "plant.nn")
    assert [path.name for path in tmp_path.iterdir()] == ["plant.nn"]


@pytest.mark.skipif(os.name != "posix", reason="modes are POSIX's")
def test_a_replaced_file_keeps_its_mode_and_a_new_one_follows_the_umask(
    detector: M2N2, tmp_path: Path
) -> None:
    before = os.umask(0o027)
    try:
        path = tmp_path / "plant.nn"
        detector.save(path)
        assert stat.S_IMODE(path.stat().st_mode) == 0o640
        path.chmod(0o604)
        detector.save(path)
        assert stat.S_IMODE(path.stat().st_mode) == 0o604
    finally:
        os.umask(before)


@pytest.mark.parametrize("version", range(1, state.VERSION + 1))
def test_the_golden_file_of_each_version_loads_and_judges_as_recorded(version: int) -> None:
    path = GOLDEN / f"state_v{version}.nn"
    record = json.loads(path.with_suffix(".json").read_text())
    detector = M2N2.load(path)
    assert detector.threshold_ == record["threshold"]
    verdicts = detector.run(frame(252, 300))
    # Other processors add float32 in another order.
    np.testing.assert_allclose(present(verdicts.late).scores, record["late"], rtol=1e-5)
    np.testing.assert_allclose(verdicts.scores, record["scores"], rtol=1e-5)
    assert verdicts.anomalous.tolist() == record["anomalous"]
    assert 0 < sum(record["anomalous"]) < 48
    assert detector.counters == record["counters"]


def test_the_golden_file_of_this_version_is_saved_again_as_it_was(tmp_path: Path) -> None:
    path = GOLDEN / f"state_v{state.VERSION}.nn"
    M2N2.load(path).save(tmp_path / "again.nn")
    ref, comp = state.read(path), state.read(tmp_path / "again.nn")
    assert comp.facts == ref.facts
    assert {name: each.tobytes() for name, each in comp.tensors.items()} == {
        name: each.tobytes() for name, each in ref.tensors.items()
    }
    M2N2.load(tmp_path / "again.nn").save(tmp_path / "third.nn")
    assert (tmp_path / "third.nn").read_bytes() == (tmp_path / "again.nn").read_bytes()


def test_every_older_version_has_a_migration_and_a_golden_file() -> None:
    assert len(versions.MIGRATIONS) == state.VERSION - 1
    files = {path.name for path in GOLDEN.glob("state_v*.nn")}
    assert files == {f"state_v{version}.nn" for version in range(1, state.VERSION + 1)}


def test_an_older_file_goes_through_the_migrations_in_their_order(
    saved: Path, detector: M2N2, monkeypatch: pytest.MonkeyPatch
) -> None:
    def file(facts: Any, tensors: Any) -> Any:
        return {**facts, "zone": "UTC"}, {**tensors, "fitted.spread": np.ones(2)}

    def first(arrays: Any) -> Any:
        return {**arrays, "learn_threshold": arrays["learn_threshold"] + 1}

    def second(arrays: Any) -> Any:
        return {**arrays, "learn_threshold": arrays["learn_threshold"] * 2}

    older = detector.to_state().tensors["live.learn_threshold"]
    steps = (versions.Migration(file, first), versions.Migration(lambda *each: each, second))
    monkeypatch.setattr(versions, "MIGRATIONS", steps)
    found = state.read(saved)
    assert found.facts["zone"] == "UTC" and found.version == 1
    np.testing.assert_array_equal(found.tensors["live.learn_threshold"], 2 * (older + 1))
    arrays = versions.migrated_arrays({"learn_threshold": older}, 2)
    np.testing.assert_array_equal(arrays["learn_threshold"], 2 * older)


def test_no_source_file_can_unpickle() -> None:
    dangerous = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "marshal", "shelve"}
    for path in SOURCES.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names: list[str] = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            assert not {name.split(".")[0] for name in names} & dangerous, path
            if isinstance(node, ast.keyword) and node.arg == "allow_pickle":
                assert isinstance(node.value, ast.Constant), path
                assert node.value.value is False, path
