"""Steps that are in order, judged by a fleet: by the applier, and where nothing is logged."""

from collections.abc import Callable

import numpy as np

from newnormal.arrivals.arrival import Arrival
from newnormal.engine.log.entries import StepsTaken
from newnormal.fleet import Fleet, FleetVerdicts
from newnormal.tabular import StreamTables, Table
from newnormal.types import NO_TIME, Bools, Ints


def judge_steps(
    fleet: Fleet, entry: StepsTaken, select: Callable[[Arrival], Bools | None]
) -> list[FleetVerdicts]:
    """Judge the samples of an entry; do what else it says.

    `select` returns (N,) which samples of an arrival are taken; None: all.
    """
    for name in entry.anew:
        if name in fleet:
            fleet.add(name, fleet.remove(name).restart())
    verdicts = []
    tables = _tables(fleet, entry, select)
    if tables.tables:
        verdicts.append(fleet.consume(tables, flush=entry.flush))
    elif entry.flush:
        verdicts.append(fleet.flush())
    if entry.close_alarms:
        verdicts.append(fleet.close_alarms())
    return verdicts


def _tables(
    fleet: Fleet, entry: StepsTaken, select: Callable[[Arrival], Bools | None]
) -> StreamTables:
    zone = None if entry.input_position is None else entry.input_position.get("zone")
    rows: dict[str, Ints] = {}
    counts = [len(arrival.times) for arrival in entry.arrivals]
    ends = np.cumsum(counts).tolist() if len(entry.rows) else []
    by_arrival = np.argsort(entry.rows, kind="stable")
    tables = StreamTables({}, rows if len(entry.rows) else None)
    for at, arrival in enumerate(entry.arrivals):
        if arrival.stream not in fleet or not len(arrival.values):
            continue
        taken = select(arrival)
        _, channels, times, values = arrival
        if taken is not None:
            times, values = times[taken], values[taken]
        if not len(values):
            continue
        moments = None if times[0] == NO_TIME else times.view("datetime64[ns]")
        tables.tables[arrival.stream] = Table(values, channels, moments, zone=zone)
        if len(entry.rows):
            origin = by_arrival[ends[at] - counts[at] : ends[at]]
            rows[arrival.stream] = origin if taken is None else origin[taken]
    return tables
