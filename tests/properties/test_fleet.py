"""Each stream of a fleet is a detector alone, bit for bit, whatever the others do."""

import numpy as np
import pytest

from newnormal import Fleet
from newnormal.fleet import group
from newnormal.fleet.stream import Stream, is_compiled
from newnormal.kernels import fleet as kernel
from newnormal.kernels.stream import SHADOW_TRAINS
from newnormal.tabular import Table
from tests.fleet_story import COMPILED, FITS, Feed, Story, assert_same_state, fitted, rows_of
from tests.present import present
from tests.service.seeds import each_seed

SAMPLES = 1400


def story(seed: int, kinds: list[str], samples: int = SAMPLES) -> Story:
    """Return the beginning of a story with streams of these kinds."""
    told = Story(seed)
    for at, kind in enumerate(kinds):
        told.add(f"{kind}-{at}", kind, Feed(kind, 100 * seed + at, samples))
    return told


def tell(told: Story, longest: int) -> Story:
    """Let everything happen until no stream has samples left."""
    rng, renamed = told.rng, 0
    while any(feed.left for feed in told.feeds.values()):
        name = str(rng.choice(list(told.alone)))
        match int(rng.choice(8, p=[0.3, 0.4, 0.08, 0.06, 0.06, 0.04, 0.02, 0.04])):
            case 0:
                for _ in range(rng.integers(1, 12)):
                    if names := told.some():
                        told.step(names)
            case 1:
                told.run(told.some(), int(rng.integers(1, longest)))
            case 2:
                told.fail(name)
            case 3:
                told.act(name, "accept")
            case 4:
                told.act(name, "reject")
            case 5:
                told.act(name, "undo")
            case 6:
                told.run(told.some(), longest, flush=True)
            case _:
                renamed += 1
                told.rename(name, f"{name.partition('/')[0]}/{renamed}")
    told.flush()
    told.end()
    return told


@pytest.mark.cases(3, 60)
def test_streams_of_all_kinds_are_detectors_alone(cases: range) -> None:
    each_seed(cases, are_detectors_alone)


def are_detectors_alone(seed: int) -> None:
    kinds = [*FITS, "daily", "learning", "counted", "broad"]
    longest, samples = ((40, 800), (150, SAMPLES), (400, SAMPLES))[seed % 3]
    told = tell(story(seed, kinds, samples), longest)
    assert {"opened", "updated", "closed", "changed", "accepted"} <= told.kinds
    assert np.mean(told.hidden) > 0.1


def test_nothing_that_a_person_does_goes_another_way_in_a_fleet() -> None:
    """Few streams, so that each is accepted, rejected and undone many times."""
    told = story(11, ["learning", "risky"])
    done = {"accept": 0, "reject": 0, "undo": 0, "set_options": 0}
    while any(feed.left for feed in told.feeds.values()):
        told.run(list(told.alone), 60)
        for name in told.alone:
            act = str(told.rng.choice(list(done)))
            if told.rng.random() < 0.5:
                done[act] += told.act(name, act)
    told.end()
    assert min(done.values()) > 1
    assert {"accepted", "rejected", "undone", "reverted"} <= told.kinds


def test_each_way_through_the_kernel_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shadows trained and reviews without finding in compiled code; the rest in Python."""
    ways: set[str] = set()
    told = story(3, ["learning", "counted", "daily"], samples=2000)

    def consume(self: group.CompiledGroup, call: group._Call, which: np.ndarray) -> None:
        streams = [self.streams[at] for at in call.rows.streams[which].tolist()]
        before = [_looked_at(each) for each in streams]
        plain(self, call, which)
        for each, was in zip(streams, before, strict=True):
            now = _looked_at(each)
            ways.update(name for name in now if now[name] != was[name])
            if was["rejected"]:
                ways.add("frozen")
                assert now["learned"] == was["learned"]
        found = call.stops.why[which].tolist()
        ways.update(
            name
            for name in ("OPENS", "CHANGE", "SILENT", "REVIEW")
            if any(why & getattr(kernel, name) for why in found)
        )

    plain = group.CompiledGroup._consume
    monkeypatch.setattr(group.CompiledGroup, "_consume", consume)
    for turn in range(400):
        told.run(list(told.alone), 40)
        if turn % 7 == 3:
            told.act("learning-0", ("reject", "accept")[turn % 2])
    told.end()
    wanted = {"shadow", "reviews", "learned", "frozen", "OPENS", "CHANGE", "SILENT", "REVIEW"}
    assert wanted <= ways
    assert any(told.alone[name]._state.undo for name in told.alone)
    accepted = [told.alone[name]._state.model.own.accepted for name in told.alone]
    assert any(each.used.any() for each in accepted)  # places
    assert any(np.isfinite(each.peaks).any() for each in accepted)  # patterns


def _looked_at(stream: Stream) -> dict[str, float]:
    """Return what tells which ways compiled code took."""
    state = stream.open()
    trains = state.shadow is not None and bool(state.shadow.counts[SHADOW_TRAINS])
    return {
        "shadow": float(state.shadow.model.step.counts[0]) if trains and state.shadow else 0.0,
        "reviews": float(present(state.review).counts[0]),
        "rejected": bool((present(state.changes).counts[:, 4] == 2).any()),
        "learned": state.model.step.weights.tobytes().__hash__(),
    }


@pytest.mark.parametrize("kind", COMPILED)
@pytest.mark.parametrize("seed", range(2))
def test_a_series_at_once_is_the_same_as_in_steps_of_an_array(kind: str, seed: int) -> None:
    """Streams of one fit: a step takes an array; all that happens falls into one long run too."""
    names = [f"{kind}-{at}" for at in range(3)]
    at_once, in_steps = Fleet(), Fleet()
    feeds = {name: Feed(kind, 10 * seed + at, 700) for at, name in enumerate(names)}
    tables = {name: feed.take(700) for name, feed in feeds.items()}
    for name in names:
        at_once.add(name, fitted(kind))
        in_steps.add(name, fitted(kind))
    whole = at_once.run(tables)
    rows: dict[str, list[tuple[object, ...]]] = {name: [] for name in names}
    for row in range(700):
        samples = np.stack([tables[name].values[row] for name in names])
        found = in_steps.step(samples, _times([tables[name] for name in names], row))
        assert found.streams.tolist() == names
        for name in names:
            rows[name] += rows_of(found[name])
    for name in names:
        alone = fitted(kind)
        ref = rows_of(alone.run(tables[name]))
        alone.take_events()
        assert rows_of(whole[name]) == ref
        assert rows[name] == ref
        assert_same_state(at_once[name], alone)
        assert_same_state(in_steps[name], alone)


def _times(tables: list[Table], row: int) -> list[np.datetime64] | None:
    times = [each.times[row] for each in tables if each.times is not None]
    return times or None


def test_a_frame_in_pieces_is_the_same_as_detectors_alone() -> None:
    """Rows of streams of different channels among each other, some of them absent."""
    import polars as pl

    rng = np.random.default_rng(5)
    kinds = {"x": "learning", "y": "never", "z": "learning"}
    fleet, alone = Fleet(), {name: fitted(kind) for name, kind in kinds.items()}
    tables = {name: Feed(kind, 50, 900).take(900) for name, kind in kinds.items()}
    for name, kind in kinds.items():
        fleet.add(name, fitted(kind))
    at = dict.fromkeys(kinds, 0)
    while min(at.values()) < 900:
        before, order = dict(at), []
        for name in rng.choice(list(kinds), int(rng.integers(1, 300))).tolist():
            if at[name] < 900:
                order.append((name, at[name]))
                at[name] += 1
        lines = [_line(name, tables[name], row) for name, row in order]
        frame = pl.DataFrame(lines, schema=SCHEMA, orient="row", infer_schema_length=None)
        found = fleet.run(frame, by="host", times="time")
        assert found.errors == ()
        assert found.streams.tolist() == [name for name, _ in order]
        for name in kinds:
            if before[name] < at[name]:
                part = _part(tables[name], slice(before[name], at[name]))
                assert rows_of(found[name]) == rows_of(alone[name].run(part))
    for name in kinds:
        alone[name].take_events()
        assert_same_state(fleet[name], alone[name])


SCHEMA = ("host", "time", "a", "b", "c")


def _line(name: str, table: Table, row: int) -> list[object]:
    """Return a row of a frame; a stream without channel c has nothing there."""
    values: list[object] = [*table.values[row].tolist(), None]
    return [name, present(table.times)[row].astype("datetime64[us]").item(), *values[:3]]


def _part(table: Table, rows: slice) -> Table:
    return Table(table.values[rows], table.channels, present(table.times)[rows])


def test_a_stream_is_the_same_beside_any_others() -> None:
    """Streams of one fit and of another: what one has seen does not depend on them."""
    rows = []
    for others in ((), ("learning",), ("counted", "learning", "paper")):
        fleet = Fleet()
        for at, kind in enumerate(others):
            fleet.add(f"other-{at}", fitted(kind))
        fleet.add("mine", fitted("learning"))
        feeds = {"mine": Feed("learning", 77, 600)}
        feeds |= {f"other-{at}": Feed(kind, at, 600) for at, kind in enumerate(others)}
        found = []
        while feeds["mine"].left:
            given = {name: each.take(50) for name, each in feeds.items()}
            found += rows_of(fleet.run(given)["mine"])
        rows.append(found)
    assert rows[0] == rows[1] == rows[2]


def test_these_fits_are_judged_as_they_are_meant_to_be() -> None:
    compiled = {kind: is_compiled(fitted(kind)._fitted) for kind in FITS}
    assert compiled == {kind: kind in COMPILED for kind in FITS}
    assert fitted("daily")._fitted.has_rhythm and fitted("counted")._fitted.has_rhythm
    assert max(fitted("learning").rates_) > 0  # type: ignore[attr-defined]
