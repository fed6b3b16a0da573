"""Channels of a live stream that are not those of its model: missing values until accepted."""

from typing import TYPE_CHECKING

import numpy as np

from newnormal.arrivals.order import Steps
from newnormal.engine import items
from newnormal.engine.streams import StreamRecord

if TYPE_CHECKING:
    from newnormal.engine.applying import Applier

_NEW_FOR = 20  # samples since a new channel came, before it is reported
_GONE_FOR = 60  # samples without a value of a channel, before it is reported as gone


def compare_channels(applier: "Applier", stream: StreamRecord, steps: Steps) -> None:
    """Open, update or end the item of a stream whose channels are not its model's."""
    assert stream.model is not None
    seen = stream.order.channels
    missing = np.isnan(steps.values)
    if len(seen) == len(stream.model.channels) and not stream.absent and not missing.any():
        return  # by far the most frequent
    _count_absent(stream, steps)
    of_model = set(stream.model.channels)
    for name in seen:
        if name not in of_model:
            stream.since.setdefault(name, stream.count - len(steps.times))
    pending = next((i for i in stream.items.values() if i.kind == items.CHANNELS), None)
    reported = () if pending is None else pending.body["new"]
    new = [
        name
        for name, first in stream.since.items()
        if stream.count - first >= _NEW_FOR
        # One that has a value now and then is one item, and not an item for each of its values.
        and stream.absent.get(name, 0) < (_GONE_FOR if name in reported else 1)
    ]
    gone = [name for name in stream.model.channels if stream.absent.get(name, 0) >= _GONE_FOR]
    new, gone = ([n for n in names if n not in stream.ignored] for names in (new, gone))
    if pending is None and (new or gone):
        fit = stream.fit
        decided = stream.wanted is not None or (fit is not None and fit.reason == "channels")
        if not decided:
            item = items.channels_item(stream, new, gone, None, applier.position)
            applier.report.item("channels", stream, item, item.updated)
    elif pending is not None and [new, gone] != [pending.body["new"], pending.body["gone"]]:
        item = items.channels_item(stream, new, gone, pending, applier.position)
        kind = "updated" if item.open else "reverted"
        applier.report.item(kind, stream, item, item.updated)


def _count_absent(stream: StreamRecord, steps: Steps) -> None:
    """Count for how many steps each channel has had no value."""
    there = ~np.isnan(steps.values)
    count = len(steps.times)
    for k, name in enumerate(stream.order.channels[: there.shape[1]]):
        column = there[:, k]
        if column.any():
            since = int(np.flatnonzero(column)[-1])
            absent = count - 1 - since
        else:
            absent = stream.absent.get(name, 0) + count
        if absent:
            stream.absent[name] = absent
        else:
            stream.absent.pop(name, None)
