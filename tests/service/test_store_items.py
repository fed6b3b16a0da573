"""Items, events, comments, the outbox and settings of the store; full disks and many threads."""

import math
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from newnormal.engine.store import Store
from newnormal.engine.values import Comment, EventRow, Item
from newnormal.errors import InputError, StateError
from tests.service.naive_store import some_rows


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = Store(tmp_path / "store.sqlite", clock=lambda: 1_000)
    yield made
    made.close()


def item(number: int, **changes: Any) -> Item:
    made = Item(
        f"alarm-{number}", "alarm", 1, 1, number, "open", 10, 20, None, 1.5, "a: high", {"n": 1}, 5
    )
    return replace(made, **changes)


def event(position: int, order: int = 0, **changes: Any) -> EventRow:
    return EventRow(position, order, "opened", 5, 1, "alarm-1", {"n": position})._replace(**changes)


def test_an_item_is_replaced_and_its_comments_stay(store: Store) -> None:
    store.items.put(item(1))
    assert store.items.get("alarm-1") == item(1)
    store.commit()
    store.items.add_comment(Comment("alarm-1", 7, "ann", "a pump was changed"))
    store.items.add_comment(Comment("alarm-1", 6, "bob", "before"))
    closed = item(1, state="closed", ended=30, updated=30, ratio=2.5)
    store.items.put(closed)
    store.commit()
    assert store.items.get("alarm-1") == closed
    assert [each.text for each in store.items.comments("alarm-1")] == [
        "before",
        "a pump was changed",
    ]
    assert store.items.get("alarm-2") is None
    assert store.items.comments("alarm-2") == []


def test_a_ratio_that_is_not_known_stays_so(store: Store) -> None:
    store.items.put(item(1, ratio=math.nan))
    store.items.put(item(2, ratio=math.inf))
    store.commit()
    found = {each.key: each.ratio for each in store.items.page().items}
    assert math.isnan(found["alarm-1"])
    assert found["alarm-2"] == math.inf


def test_pages_of_items_are_those_of_a_list_that_is_sorted_and_filtered(store: Store) -> None:
    rng = np.random.default_rng(0)
    every = []
    for number in range(200):
        updated = int(rng.integers(100, 140))
        state = str(rng.choice(["open", "closed", "pending", "accepted", "rejected"]))
        ended = None if state in ("open", "pending", "rejected") else updated
        every.append(
            item(
                number,
                kind=str(rng.choice(["alarm", "change", "incident"])),
                stream=None if rng.random() < 0.2 else int(rng.integers(3)),
                state=state,
                opened=int(rng.integers(50, 100)),
                updated=updated,
                ended=ended,
            )
        )
        store.items.put(every[-1])
    store.commit()
    every.sort(key=lambda each: (-each.updated, each.key))
    for _ in range(40):
        wanted: dict[str, Any] = {}
        ref = every
        if rng.random() < 0.5:
            wanted["kinds"] = [str(each) for each in rng.permutation(["alarm", "change"])[:1]]
            ref = [each for each in ref if each.kind in wanted["kinds"]]
        if rng.random() < 0.3:
            wanted["states"] = ["closed", "open"]
            ref = [each for each in ref if each.state in wanted["states"]]
        if rng.random() < 0.5:
            wanted["stream"] = int(rng.integers(4))
            ref = [each for each in ref if each.stream == wanted["stream"]]
        if rng.random() < 0.5:
            wanted["open_only"] = True
            ref = [each for each in ref if each.open]
        if rng.random() < 0.5:
            begin, end = sorted(rng.integers(40, 150, 2).tolist())
            wanted |= {"begin": begin, "end": end}
            ref = [
                each
                for each in ref
                if each.opened <= end and (each.ended is None or each.ended >= begin)
            ]
        comp: list[Item] = []
        cursor, limit = None, int(rng.integers(1, 30))
        while True:
            page = store.items.page(**wanted, cursor=cursor, limit=limit)
            assert len(page.items) <= limit
            comp += page.items
            cursor = page.cursor
            if cursor is None:
                break
        assert comp == ref


@pytest.mark.parametrize("cursor", ["", "x", "12", "9" * 30 + "~a", "~", "1.5~a"])
def test_a_cursor_that_no_list_gave_is_an_error_or_empty(store: Store, cursor: str) -> None:
    if cursor == "12":
        assert store.items.page(cursor=cursor).items == ()
        return
    with pytest.raises(InputError, match="expected one that a list gave, found"):
        store.items.page(cursor=cursor)


def test_events_are_given_in_order_and_once(store: Store) -> None:
    assert store.events.read() == []
    every = [event(position, order) for position in range(1, 12) for order in range(2)]
    for each in [*every, *every[5:]]:
        store.events.put(each)
    store.events.put(event(3, 1, kind="another", body={}))
    store.commit()
    assert store.events.read() == every
    assert store.events.read(after="9-0", limit=3) == every[17:20]
    assert store.events.read(after="11-1") == []
    assert store.events.read(stream=2) == []
    assert store.events.read(stream=1, after="2-1", limit=1) == [event(3)]


@pytest.mark.parametrize("after", ["", "x", "1", "1-x", "9" * 30 + "-0"])
def test_what_is_no_id_of_an_event_is_an_input_error(store: Store, after: str) -> None:
    with pytest.raises(InputError, match="expected the id of an event such as '12-0', found"):
        store.events.read(after=after)


def test_an_alert_is_made_once_also_when_it_was_delivered(store: Store) -> None:
    store.outbox.put("alarm-1:fired", "hook", {"a": 1})
    assert store.outbox.due("hook", 0, 10) == []  # not committed
    store.commit()
    (due,) = store.outbox.due("hook", 0, 10)
    assert (due.key, due.body, due.created, due.attempts) == ("alarm-1:fired", {"a": 1}, 1_000, 0)
    store.outbox.mark("alarm-1:fired", "hook", delivered=5, attempts=1, next_try=0)
    store.outbox.put("alarm-1:fired", "hook", {"a": 2})
    store.outbox.put("alarm-1:fired", "other", {"a": 2})
    store.commit()
    assert store.outbox.due("hook", 9, 10) == []
    assert [each.body for each in store.outbox.due("other", 9, 10)] == [{"a": 2}]
    assert [(each.sink, each.delivered) for each in store.outbox.all()] == [
        ("hook", 5),
        ("other", None),
    ]


def test_alerts_of_one_item_are_due_in_turn_and_others_do_not_wait(store: Store) -> None:
    for key in ("alarm-1:fired", "alarm-2:fired", "alarm-1:resolved"):
        store.outbox.put(key, "hook", {})
    store.commit()

    def due(now: int) -> list[str]:
        return [each.key for each in store.outbox.due("hook", now, 10)]

    assert due(0) == ["alarm-1:fired", "alarm-2:fired"]
    store.outbox.mark("alarm-1:fired", "hook", attempts=1, next_try=50, error="timeout")
    assert due(49) == ["alarm-2:fired"]
    assert due(50) == ["alarm-1:fired", "alarm-2:fired"]
    assert store.outbox.counts() == {
        "hook": {
            "waiting": 3,
            "delivered": 0,
            "failing": 1,
            "held": 0,
            "unsent": 0,
            "oldest": 1_000,
        }
    }
    store.outbox.mark("alarm-1:fired", "hook", delivered=60, attempts=2, next_try=0)
    assert due(60) == ["alarm-2:fired", "alarm-1:resolved"]


def test_settings_are_values_by_space_and_name(store: Store) -> None:
    assert store.settings.get("tokens", "a") is None
    for value in (None, 1, "x", [1, {"y": None}], {"z": 1.5}):
        store.settings.put("tokens", "../a/'\x00é", value)
        assert store.settings.get("tokens", "../a/'\x00é") == value
    store.settings.put("sessions", "b", 1)
    assert store.settings.all("tokens") == {"../a/'\x00é": {"z": 1.5}}
    store.settings.delete("tokens", "../a/'\x00é")
    store.settings.delete("tokens", "nothing")
    assert store.settings.all("tokens") == {}


def test_what_does_not_fit_on_the_disk_is_written_later(store: Store, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    store.samples.add(1, some_rows(rng, 0, 1_000, ("a",)))
    store.commit()
    writer = store.connection.database._writer
    (pages,) = writer.execute("PRAGMA page_count").fetchone()
    writer.execute(f"PRAGMA max_page_count={pages + 2}").fetchall()
    rows = some_rows(rng, 1_000, 20_000, ("a",))
    store.samples.add(1, rows)
    store.items.put(item(1))
    for sync in (False, True):
        with pytest.raises(StateError, match="the disk is full"):
            store.commit(sync=sync)
    with pytest.raises(StateError, match="the disk is full"):
        store.settings.put("a", "b", "x" * 100_000)
    # All of it is read meanwhile.
    np.testing.assert_array_equal(store.samples.rows(1, 1_000, 20_999).values, rows.values)
    assert store.items.get("alarm-1") == item(1)
    writer.execute("PRAGMA max_page_count=1000000").fetchall()
    store.samples.flush()
    store.commit(sync=True)
    store.close()
    again = Store(tmp_path / "store.sqlite")
    np.testing.assert_array_equal(again.samples.rows(1, 1_000, 20_999).values, rows.values)
    assert again.items.get("alarm-1") == item(1)
    again.close()


def test_threads_that_read_find_whole_rows_while_one_writes(store: Store) -> None:
    channels = ("a", "b")
    batches = [
        some_rows(np.random.default_rng(at), at * 70, 70, channels, live=False) for at in range(150)
    ]
    values = np.concatenate([each.values for each in batches])
    problems: list[str] = []
    done = threading.Event()

    def read(seed: int) -> None:
        rng = np.random.default_rng(seed)
        try:
            while not done.is_set():
                count = store.samples.count(1)
                if count:
                    first, last = sorted(rng.integers(0, count, 2).tolist())
                    found = store.samples.rows(1, first, last, channels)
                    np.testing.assert_array_equal(found.values, values[first : last + 1])
                    series = store.samples.series(1, 0, 2**62, 50, channels)
                    assert np.nanmax(series.high) <= np.nanmax(values)
                    assert np.all(np.diff(series.times) > 0)
                store.settings.put("space", str(seed), count)
                store.items.page()
        except Exception as error:  # noqa: BLE001 - of a thread
            problems.append(repr(error))

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    for at, rows in enumerate(batches):
        store.samples.add(1, rows)
        store.items.put(item(at))
        store.commit()
        if at % 20 == 0:
            store.samples.flush()
            store.commit(sync=True)
    done.set()
    for thread in threads:
        thread.join()
    assert problems == []
    assert len(store.settings.all("space")) == 3
