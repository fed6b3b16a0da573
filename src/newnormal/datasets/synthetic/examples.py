"""Files to try everything on: a plant with two faults and a change, and some machines.

What happens in them is meant to be seen: `plant_example` and `machines_example` say what it is.
"""

from typing import NamedTuple

import numpy as np

from newnormal.datasets.synthetic.plants import CHANNELS, DAY, Channel, operation, place_faults
from newnormal.types import Floats, Ints, Times

_START = np.datetime64("2026-03-02T00:00:00", "ns")  # a Monday
_HOUR = 60  # minutes
_HISTORY, _LIVE, _LABELLED = 7 * DAY, 2 * DAY, 4 * DAY
_SHIFT = 3.0  # standard deviations of history, times that of the channel
_FAULTS = 10  # in the labelled part

# Faults of the live plant: minute, length, channel, how far in standard deviations.
_COOLING = (9 * _HOUR + 20, 8, "temperature", 4.0)
_VALVE = (20 * _HOUR + 5, 6, "flow", -4.0)
_RETUNED = DAY + 8 * _HOUR  # of the live part: a new level that stays

HOSTS = ("web-1", "web-2", "web-3", "web-4", "db-1", "db-2", "cache-1", "queue-1")
_MACHINE = (
    Channel("cpu", 35.0, 9.0, 2.0, 0.4, 1.5),
    Channel("memory", 58.0, 3.0, 0.5, 1.6, 0.5),
    Channel("requests", 420.0, 150.0, 20.0, 0.0, 12.0),
    Channel("latency", 42.0, 6.0, 1.5, 0.8, 1.6),
)
_EVERY = 5  # minutes between two samples of a machine
_STORAGE = (10 * _HOUR, 15, ("web-1", "web-2", "web-3", "web-4", "db-1"))  # slow for these
_LEAK = (20 * _HOUR, 4 * _HOUR, "queue-1")  # its memory alone


class ExampleTable(NamedTuple):
    """A table to be written as a file."""

    times: Times  # one a row
    # The columns of numbers, (T, C).
    channels: tuple[str, ...]
    values: Floats
    hosts: tuple[str, ...] | None = None  # the machine of each row; None where there is one stream
    faults: Ints | None = None  # 1 where a row is part of a fault; None where that is not known


def plant_example(seed: int = 0) -> dict[str, ExampleTable]:
    """Return history, live and labelled samples of a plant, one a minute.

    History is a week in which nothing happens. Live are the two days after it: on the first the
    cooling fails at 09:20 for 8 minutes, and a valve closes at 20:05 for 6; on the second the
    plant is retuned at 08:00, and most levels move for good. Labelled are the four days after
    these, of the plant as it was in history: ten faults, of which the column tells, and a new level
    half way that is no fault.

    >>> tables = plant_example()
    >>> [(name, len(table.values)) for name, table in tables.items()]
    [('history', 10080), ('live', 2880), ('labelled', 5760)]
    >>> tables["live"].channels
    ('temperature', 'pressure', 'flow', 'power', 'vibration', 'level')
    """
    rng = np.random.default_rng(seed)
    values = operation(_HISTORY + _LIVE + _LABELLED, rng)
    history, live, labelled = np.split(values, (_HISTORY, _HISTORY + _LIVE))
    spread = history.std(axis=0)
    moved = _SHIFT * spread * np.array([channel.level for channel in CHANNELS])
    names = tuple(channel.name for channel in CHANNELS)
    for begin, length, channel, size in (_COOLING, _VALVE):
        column = names.index(channel)
        live[begin : begin + length, column] += size * spread[column]
    live[_RETUNED:] += moved
    labelled[_LABELLED // 2 :] += moved
    centre = np.tile([channel.base for channel in CHANNELS], (_LABELLED, 1))
    centre[_LABELLED // 2 :] += moved
    faults = place_faults(labelled, centre, spread, _FAULTS, rng)
    times = _START + np.arange(len(values)) * np.timedelta64(60, "s")
    first, second, third = np.split(times, (_HISTORY, _HISTORY + _LIVE))
    return {
        "history": ExampleTable(first, names, history),
        "live": ExampleTable(second, names, live),
        "labelled": ExampleTable(third, names, labelled, faults=faults),
    }


def machines_example(seed: int = 0) -> dict[str, ExampleTable]:
    """Return history and live samples of eight machines, one every 5 minutes each.

    History is a week in which nothing happens. Live is the day after it: their storage is slow at
    10:00 for 15 minutes, which five machines show; the memory of queue-1 alone fills up from 20:00
    on.

    >>> tables = machines_example()
    >>> [(name, len(table.values)) for name, table in tables.items()]
    [('history', 16128), ('live', 2304)]
    >>> tables["live"].hosts[:3], tables["live"].channels
    (('web-1', 'web-2', 'web-3'), ('cpu', 'memory', 'requests', 'latency'))
    """
    rng = np.random.default_rng([seed, 1])
    hosts = []
    for host in HOSTS:
        values = operation(_HISTORY + DAY, rng, _MACHINE)
        values *= rng.uniform(0.8, 1.2, len(_MACHINE))
        spread = values[:_HISTORY].std(axis=0)
        live = values[_HISTORY:]
        begin, length, slow = _STORAGE
        if host in slow:
            live[begin : begin + length, 0] += 2 * spread[0]
            live[begin : begin + length, 3] *= 3
        begin, length, leaking = _LEAK
        if host == leaking:
            live[begin : begin + length, 1] += np.linspace(1, 9, length) * spread[1]
        hosts.append(values[::_EVERY])
    rows = np.stack(hosts, axis=1)  # (T, machines, C): as they would be collected
    times = _START + np.arange(len(rows)) * np.timedelta64(60 * _EVERY, "s")
    return {
        "history": _machines(times[: _HISTORY // _EVERY], rows[: _HISTORY // _EVERY]),
        "live": _machines(times[_HISTORY // _EVERY :], rows[_HISTORY // _EVERY :]),
    }


def _machines(times: Times, rows: Floats) -> ExampleTable:
    return ExampleTable(
        np.repeat(times, len(HOSTS)),
        tuple(channel.name for channel in _MACHINE),
        rows.reshape(-1, len(_MACHINE)),
        HOSTS * len(times),
    )
