"""Sources in the service: places, acknowledgements, errors and waits."""

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np
import pytest

from newnormal.errors import InputError, ParameterError, StateError
from newnormal.io import Arrival
from newnormal.service.config import SourceConfig
from newnormal.service.connectors import make_source
from newnormal.service.retry import Loop
from newnormal.service.sources import Puller, Sources
from newnormal.testing import MemorySource


def arrivals(streams: int = 2, count: int = 5) -> list[Arrival]:
    times = np.arange(count, dtype=np.int64) * 10**9
    return [
        Arrival(f"s{each}", ("a",), times, np.full((count, 1), float(each)))
        for each in range(streams)
    ]


class Taker:
    """A service that keeps what it is given."""

    def __init__(self) -> None:
        self.taken: list[tuple[str, int, Any]] = []  # stream, time, input_position of the entry
        self.past: list[bool] = []  # of each sample
        self.positions: dict[str, Any] = {}
        self.reports: list[tuple[str, bool, str]] = []
        self.ready = True
        self.refuses: Callable[[Sequence[Arrival]], Exception | None] = lambda _: None
        self.late: Callable[[Sequence[Arrival]], Exception | None] = lambda _: None

    def push(
        self,
        arrivals: Sequence[Arrival],
        *,
        history: bool = False,
        source: str = "",
        input_position: Mapping[str, Any] | None = None,
        past: bool = False,
    ) -> Future[int]:
        error = self.refuses(arrivals)
        if error is not None:
            raise error
        done: Future[int] = Future()
        error = self.late(arrivals)
        if error is not None:
            done.set_exception(error)
            return done
        for each in arrivals:
            self.taken += [(each.stream, int(time), input_position) for time in each.times]
            self.past += [past] * len(each.times)
        if input_position is not None:
            self.positions[source] = dict(input_position)
        done.set_result(len(self.taken))
        return done

    def input_position(self, source: str) -> Mapping[str, Any] | None:
        found: Mapping[str, Any] | None = self.positions.get(source)
        return found

    def report(self, part: str, ok: bool, message: str = "") -> None:
        self.reports.append((part, ok, message))

    @property
    def samples(self) -> list[tuple[str, int]]:
        return [(stream, time // 10**9) for stream, time, _ in self.taken]


ALL = [(f"s{stream}", second) for stream in range(2) for second in range(5)]


def puller_of(taker: Taker, source: Any, limit: int = 4) -> Puller:
    make = source if callable(source) else lambda: source
    return Puller("plant", make, cast("Any", taker), limit=limit)


def run(puller: Puller, most: int = 100) -> list[float]:
    """Do steps until the source ends; return the waits."""
    waits: list[float] = []
    for _ in range(most):
        wait = puller.step()
        if wait is None:
            return waits
        waits.append(wait)
    return waits


def test_all_samples_arrive_each_batch_with_the_place_behind_it() -> None:
    taker = Taker()
    source = MemorySource(arrivals())
    puller = puller_of(taker, source)
    assert run(puller) == [0.0, 0.0, 0.0]
    assert taker.samples == ALL
    assert [input_position["at"] for _, _, input_position in taker.taken] == [4] * 4 + [8] * 4 + [
        10
    ] * 2
    assert taker.reports == [
        ("source plant", True, ""),
        ("source plant", True, "ended after 10 samples"),
    ]
    assert puller.state()["samples"] == 10


def test_a_batch_is_acknowledged_once_it_is_durable() -> None:
    taker = Taker()
    source = MemorySource(arrivals())
    seen = []
    taker.late = lambda _: seen.append(source.acknowledged)
    run(puller_of(taker, source))
    assert seen == [0, 4, 8]
    assert source.acknowledged == 10


def test_after_a_restart_a_source_goes_on_behind_what_is_in_the_log() -> None:
    taker = Taker()
    puller_of(taker, MemorySource(arrivals())).step()
    assert len(taker.taken) == 4
    run(puller_of(taker, MemorySource(arrivals())))
    assert taker.samples == ALL


def test_a_source_goes_on_behind_what_is_durable_although_the_service_has_not_applied_it() -> None:
    taker: Any = Taker()
    taker.input_position = lambda source: None
    positions: dict[str, Mapping[str, Any]] = {}
    for _ in range(3):  # a new one each time, as after a change of the configuration
        puller = Puller(
            "plant", lambda: MemorySource(arrivals()), taker, limit=4, positions=positions
        )
        puller.step()
        puller.close()
    assert taker.samples == ALL


def test_another_input_under_the_same_name_is_read_from_its_beginning() -> None:
    taker = Taker()
    taker.positions["plant"] = {"input": "another", "at": 7}
    run(puller_of(taker, MemorySource(arrivals())))
    assert taker.samples == ALL


def test_a_source_that_fails_is_closed_and_made_anew_after_longer_and_longer_waits() -> None:
    taker = Taker()
    closed = []

    class Failing(MemorySource):
        def next_batch(self, limit: int) -> Sequence[Arrival] | None:
            raise OSError("connection refused")

        def close(self) -> None:
            closed.append(self)

    puller = puller_of(taker, lambda: Failing(arrivals()))
    assert run(puller, 10) == [1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 300.0, 300.0]
    assert len(set(map(id, closed))) == 10
    assert taker.reports == [("source plant", False, "OSError: connection refused")]
    assert puller.state()["failures"] == 10


def test_a_source_that_works_again_goes_on_behind_what_is_in_the_log() -> None:
    taker = Taker()
    made: list[Any] = []

    class Flaky(MemorySource):
        def next_batch(self, limit: int) -> Sequence[Arrival] | None:
            if len(made) == 1 and self._at:
                raise OSError("connection reset")
            return super().next_batch(limit)

    def make() -> Any:
        made.append(Flaky(arrivals()))
        return made[-1]

    assert run(puller_of(taker, make)) == [0.0, 1.0, 0.0, 0.0]
    assert taker.samples == ALL
    assert taker.reports[-2:] == [
        ("source plant", True, ""),
        ("source plant", True, "ended after 10 samples"),
    ]


def test_while_the_service_starts_or_ends_the_batch_is_kept_and_nothing_is_reported() -> None:
    taker = Taker()
    taker.ready = False
    source = MemorySource(arrivals())
    puller = puller_of(taker, source)
    assert run(puller, 3) == [0.2, 0.2, 0.2]
    assert (taker.reports, taker.samples, source.acknowledged) == ([], [], 0)
    taker.ready = True
    run(puller)
    assert taker.samples == ALL


def test_while_the_service_takes_nothing_the_batch_is_kept_and_no_more_is_fetched() -> None:
    taker = Taker()
    source = MemorySource(arrivals())
    puller = puller_of(taker, source)
    full = StateError("no room on the disk", hint="make room")
    taker.refuses = lambda _: full
    assert run(puller, 6) == [1.0, 2.0, 5.0, 10.0, 10.0, 10.0]
    assert source.snapshot()["at"] == 4 and source.acknowledged == 0
    assert taker.reports == [("source plant", False, "no room on the disk (make room)")]
    taker.refuses = lambda _: None
    taker.late = lambda _: full
    puller.step()
    assert source.snapshot()["at"] == 4 and source.acknowledged == 0
    taker.late = lambda _: None
    run(puller)
    assert taker.samples == ALL


def test_samples_that_a_limit_refuses_are_left_out_and_the_others_are_taken() -> None:
    taker = Taker()
    source = MemorySource(arrivals(3))

    def limit(found: Sequence[Arrival]) -> Exception | None:
        return InputError("too many") if any(e.stream == "s1" for e in found) else None

    taker.refuses = limit
    puller = puller_of(taker, source, limit=100)
    run(puller)
    assert {stream for stream, _ in taker.samples} == {"s0", "s2"}
    assert puller.state()["refused"] == 5
    assert taker.positions["plant"]["at"] == 15
    assert ("source plant", False, "5 samples refused by the limits") in taker.reports


@pytest.mark.parametrize("refused", [False, True])
def test_a_batch_of_the_past_is_handed_in_as_such(refused: bool) -> None:
    class History(MemorySource):
        @property
        def past(self) -> bool:  # type: ignore[override]
            return bool(self.snapshot()["at"] <= 8)

    taker = Taker()
    if refused:  # together, so that each stream is handed in by itself
        taker.refuses = lambda found: InputError("too many") if len(found) > 1 else None
    run(puller_of(taker, History(arrivals())))
    assert taker.samples == ALL
    assert taker.past == [True] * 8 + [False] * 2


def test_a_batch_that_is_not_as_promised_is_reported_and_not_taken() -> None:
    taker = Taker()

    class Infinite(MemorySource):
        def next_batch(self, limit: int) -> Sequence[Arrival] | None:
            batch = super().next_batch(limit)
            return batch and [each._replace(values=each.values + np.inf) for each in batch]

    assert run(puller_of(taker, lambda: Infinite(arrivals())), 1) == [1.0]
    assert taker.taken == []
    assert "expected finite values, found an infinite one" in taker.reports[0][2]


def test_an_empty_batch_is_waited_for_and_is_no_error() -> None:
    taker = Taker()

    class Quiet(MemorySource):
        def next_batch(self, limit: int) -> Sequence[Arrival] | None:
            return ()

    waits = run(puller_of(taker, Quiet([])), 3)
    assert all(0 < wait < 1 for wait in waits)
    assert taker.reports == [("source plant", True, "")]


def test_an_acknowledgement_that_fails_does_not_bring_samples_twice() -> None:
    taker = Taker()
    made: list[Any] = []

    class Unsure(MemorySource):
        def acknowledge(self) -> None:
            if len(made) == 1:
                raise OSError("connection reset")

    def make() -> Any:
        made.append(Unsure(arrivals()))
        return made[-1]

    run(puller_of(taker, make))
    assert taker.samples == ALL


class Configured(MemorySource):
    """Made by the configuration; needs a password."""

    ended: ClassVar[threading.Event] = threading.Event()

    def __init__(self, name: str, options: Mapping[str, Any]) -> None:
        super().__init__(arrivals(), name, options)
        self.password = self.options.private("password")

    def close(self) -> None:
        self.ended.set()


def test_a_source_is_made_with_its_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PW", "swordfish")
    config = SourceConfig("plant", f"{__name__}:Configured", {"password_env": "PW"})
    source = make_source(config)
    assert isinstance(source, Configured) and source.password == "swordfish"
    monkeypatch.delenv("PW")
    with pytest.raises(ParameterError, match="source plant: password_env: expected a secret"):
        make_source(config)


def test_each_source_runs_in_a_thread_of_its_own_until_it_ends(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("swordfish")
    Configured.ended.clear()
    kind = f"{__name__}:Configured"
    good = SourceConfig("good", kind, {"password_file": str(tmp_path / "password")})
    taker: Any = Taker()
    sources = Sources(taker)
    sources.start([good, SourceConfig("bad", kind)])
    assert Configured.ended.wait(30)
    sources.start([good])  # goes on where it was: there is nothing more
    assert set(sources.states()) == {"good"}
    sources.stop()
    assert taker.samples == ALL
    assert ("source bad", False, "expected the option password, found none") in taker.reports
    assert ("source bad", True, "removed from the configuration") in taker.reports
    assert not [each for each in threading.enumerate() if each.name.startswith("source ")]


def test_a_loop_waits_as_long_as_the_step_says_up_to_its_limit() -> None:
    waits: list[float | None] = []
    steps = iter([2.0, 500.0, None])
    loop = Loop("source a", lambda: next(steps), lambda: waits.append(None), longest=30.0)

    class Wake(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            waits.append(timeout)
            return True

    loop._wake = Wake()
    loop.start()
    loop.join(10.0)
    assert waits == [2.0, 30.0, None]
