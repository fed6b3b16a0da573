"""Twenty simulated machines at high speed, for `newnormal serve --demo`.

They push their samples as anybody does. A sample of each is a minute of theirs; many minutes pass
in a second. When those that it needs are live, a fault, two changes and an incident follow within
seconds; later there is something now and then. The same seed gives the same machines.
"""

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from newnormal.arrivals.arrival import Arrival
from newnormal.engine.values import LIVE
from newnormal.errors import NewnormalError
from newnormal.fleet.processors import cores
from newnormal.service.config import Override, ServiceConfig
from newnormal.types import Floats

if TYPE_CHECKING:
    from newnormal.service.service import Service

MINUTE = 60 * 10**9  # ns
HISTORY = 480  # samples that a machine collects before its fit: eight of its hours
_CYCLE = 60  # minutes of a machine's cycle
_BLOCK = 240  # minutes whose noise is drawn at once
_BACK = 3 * 1440  # minutes before now at which they begin; they reach it after some minutes

# Minutes that pass in a second: while collecting, while fitting, and from then on until now.
_COLLECTING, _FITTING, SPEED = 480.0, 5.0, 20.0
_PUSHES = 5.0  # a second
_PATIENCE = 90.0  # seconds until the story begins, should a machine not go live
_WAIT = 2.0  # seconds after a push that was refused


class SimulatedChannel(NamedTuple):
    """base + gain · sin(phase - lag) + noise · ε."""

    name: str
    base: float
    gain: float
    lag: float
    noise: float

    @property
    def spread(self) -> float:
        """The standard deviation."""
        return float(np.hypot(self.gain / np.sqrt(2), self.noise))


_KINDS: dict[str, tuple[SimulatedChannel, ...]] = {
    "press": (
        SimulatedChannel("pressure", 180.0, 12.0, 0.0, 1.5),
        SimulatedChannel("oil temperature", 52.0, 2.4, 1.2, 0.4),
        SimulatedChannel("power", 38.0, 6.0, 0.3, 0.8),
        SimulatedChannel("vibration", 2.1, 0.5, 2.0, 0.08),
    ),
    "oven": (
        SimulatedChannel("temperature", 420.0, 9.0, 1.5, 1.2),
        SimulatedChannel("power", 95.0, 14.0, 0.0, 2.0),
        SimulatedChannel("exhaust", 140.0, 5.0, 2.2, 0.9),
    ),
    "pump": (
        SimulatedChannel("flow", 64.0, 5.0, 0.0, 0.8),
        SimulatedChannel("pressure", 6.2, 0.4, 0.6, 0.05),
        SimulatedChannel("current", 11.5, 0.9, 0.2, 0.12),
        SimulatedChannel("bearing temperature", 47.0, 1.8, 1.4, 0.3),
    ),
    "mixer": (
        SimulatedChannel("speed", 310.0, 22.0, 0.0, 3.0),
        SimulatedChannel("torque", 27.0, 3.0, 0.8, 0.5),
        SimulatedChannel("temperature", 38.0, 1.5, 1.9, 0.3),
    ),
}


class Machine(NamedTuple):
    """A simulated machine."""

    name: str
    kind: str

    @property
    def channels(self) -> tuple[SimulatedChannel, ...]:
        """What it measures."""
        return _KINDS[self.kind]


MACHINES = tuple(
    Machine(f"hall-{hall}/{kind}-{hall}{number}", kind)
    for hall, kinds in enumerate(
        (
            ("press", "press", "press", "oven", "pump"),
            ("pump", "pump", "mixer", "mixer", "oven"),
            ("press", "press", "oven", "oven", "pump"),
            ("mixer", "mixer", "mixer", "pump", "press"),
        ),
        1,
    )
    for number, kind in enumerate(kinds, 1)
)


class Happening(NamedTuple):
    """A fault or a change of a machine."""

    machine: int  # its index in `MACHINES`
    channel: int  # which of its channels
    # In minutes since the story began; a change has no end: `length` is None.
    start: int
    length: int | None
    size: float  # how far the values move, in standard deviations


_BY_ITSELF, _BY_HAND, _FAULTY, _HALL = 3, 4, 1, range(5, 10)
_STORY = (
    Happening(_FAULTY, 1, 20, 40, 7.0),
    Happening(_BY_ITSELF, 1, 30, None, 6.0),
    Happening(_BY_HAND, 2, 45, None, 6.0),
    *(Happening(machine, 0, 90, 45, -6.0) for machine in _HALL),
)
_LATER = 600  # minutes after which something happens now and then
_EVERY = 240  # minutes, on average, between two of these


def demo_config(config: ServiceConfig) -> ServiceConfig:
    """Return a configuration in which the machines are fitted soon and accept soon.

    One of them accepts nothing by itself: its change waits for a person.
    """
    return replace(
        config,
        demo=True,
        workers=max(config.workers, min(cores(), 4)),  # all machines want a fit at once
        overrides=(
            Override(
                "hall-*",
                {"history": HISTORY, "period": MINUTE, "accept_after": "3h", "alarms_per_day": 0.2},
            ),
            Override(MACHINES[_BY_HAND].name, {"accept_after": "never"}),
            *config.overrides,
        ),
    )


class Simulation:
    """The samples of all machines, at any minute and in any order of asking.

    Minute 0 is at `begin` in ns; the story begins at the minute `story`, None: not yet. Another
    seed gives other machines.

    >>> simulation = Simulation(0)
    >>> arrival = simulation.arrivals(0, 10)[0]
    >>> arrival.stream, arrival.values.shape
    ('hall-1/press-11', (10, 4))
    """

    def __init__(self, begin: int, seed: int = 0) -> None:
        self.begin = begin
        self.story: int | None = None
        self._seed = seed

    def arrivals(self, first: int, count: int) -> list[Arrival]:
        """Return `count` minutes of all machines."""
        minutes = np.arange(first, first + count)
        times = (self.begin + minutes * MINUTE).astype(np.int64)
        return [
            Arrival(
                machine.name,
                tuple(channel.name for channel in machine.channels),
                times,
                self._values(number, first, count),
            )
            for number, machine in enumerate(MACHINES)
        ]

    def _values(self, number: int, first: int, count: int) -> Floats:
        channels = MACHINES[number].channels
        minutes = np.arange(first, first + count)
        rng = np.random.default_rng((self._seed, number))
        phase = rng.uniform(0, 2 * np.pi) + 2 * np.pi / _CYCLE * minutes
        scale = rng.uniform(0.9, 1.1, len(channels))
        noise = self._noise(number, first, count, len(channels))
        values = np.empty((count, len(channels)))
        for k, channel in enumerate(channels):
            wave = channel.gain * np.sin(phase - channel.lag) + channel.noise * noise[:, k]
            values[:, k] = channel.base * scale[k] + wave
        if self.story is not None:
            since = minutes - self.story
            for happening in self._happenings(number, int(since[0]), int(since[-1])):
                on = since >= happening.start
                if happening.length is not None:
                    on &= since < happening.start + happening.length
                k = happening.channel
                values[on, k] += happening.size * channels[k].spread
        return values.round(3)

    def _noise(self, number: int, first: int, count: int, width: int) -> Floats:
        blocks = range(first // _BLOCK, (first + count - 1) // _BLOCK + 1)
        drawn = [
            np.random.default_rng((self._seed, number, 1, block)).standard_normal((_BLOCK, width))
            for block in blocks
        ]
        skipped = first - blocks[0] * _BLOCK
        return np.concatenate(drawn)[skipped : skipped + count]

    def _happenings(self, number: int, first: int, last: int) -> Iterator[Happening]:
        yield from (it for it in _STORY if it.machine == number and it.start <= last)
        # Each stretch of `_EVERY` minutes has one fault somewhere.
        for stretch in range(max(first - _EVERY, _LATER) // _EVERY, max(last, 0) // _EVERY + 1):
            rng = np.random.default_rng((self._seed, 2, stretch))
            machine = int(rng.integers(len(MACHINES)))
            start = stretch * _EVERY + int(rng.integers(_EVERY // 2))
            if machine == number and start >= _LATER:
                channel = int(rng.integers(len(MACHINES[number].channels)))
                size = float(rng.choice((-1, 1)) * rng.uniform(4, 7))
                yield Happening(number, channel, start, int(rng.integers(5, 60)), size)


class DemoSender:
    """Pushes the samples of the machines from a thread of its own."""

    def __init__(
        self, service: "Service", *, clock: Callable[[], int] = time.time_ns, seed: int = 0
    ) -> None:
        self._service, self._clock = service, clock
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="newnormal-demo", daemon=True)
        kept = service.store.settings.get("demo", "times")  # of an earlier start with the same data
        begin = kept["begin"] if kept else (clock() // MINUTE - _BACK) * MINUTE
        self.simulation = Simulation(begin, seed)
        self.simulation.story = kept["story"] if kept else None
        self.minute = self._resumed()

    def start(self) -> None:
        """Begin to push."""
        self._thread.start()

    def stop(self) -> None:
        """Push no more."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def step(self) -> float:
        """Push some minutes; return the seconds to wait before the next."""
        speed = self._speed()
        count = max(1, round(speed / _PUSHES))
        if self.minute < HISTORY:
            count = min(count, HISTORY - self.minute)
        ahead = (self._clock() - self.simulation.begin) // MINUTE - self.minute
        if ahead <= 0:  # they have caught up: a minute takes a minute
            return 1.0
        try:
            self._service.push(self.simulation.arrivals(self.minute, min(count, ahead))).result()
        except NewnormalError:  # it is busy, or its disk is full; the page says so
            return _WAIT
        self.minute += min(count, ahead)
        return count / speed

    def begin_story(self) -> None:
        """Let things happen from now on."""
        self.simulation.story = self.minute
        times = {"begin": self.simulation.begin, "story": self.minute}
        self._service.store.settings.put("demo", "times", times)

    def ready(self) -> bool:
        """Whether all machines of the story are live."""
        needed = {happening.machine for happening in _STORY}
        views = [self._service.stream_named(MACHINES[number].name) for number in needed]
        return all(view is not None and view.state == LIVE for view in views)

    def _speed(self) -> float:
        if self.minute < HISTORY:
            return _COLLECTING
        return _FITTING if self.simulation.story is None else SPEED

    def _resumed(self) -> int:
        """Return the first minute that the service does not have."""
        views = [self._service.stream_named(machine.name) for machine in MACHINES]
        newest = [view.newest for view in views if view is not None and view.newest is not None]
        return 0 if not newest else (max(newest) - self.simulation.begin) // MINUTE + 1

    def _run(self) -> None:
        began = time.monotonic()
        wait = 0.0
        while not self._stop.wait(wait):
            wait = self.step()
            if self.simulation.story is None:
                late = time.monotonic() - began > _PATIENCE
                if self.ready() or late:
                    self.begin_story()
