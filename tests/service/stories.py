"""Random logs of the service: streams that come and go, fits, people, and the clock."""

import warnings
from base64 import b64encode
from collections.abc import Iterator

import numpy as np

from newnormal import Detector
from newnormal.arrivals.arrival import Arrival
from newnormal.engine.applying import Applier
from newnormal.engine.log import entries as log
from newnormal.engine.modelling import history_of, model_file
from newnormal.engine.streams import StreamRecord

START = 1_767_225_600 * 10**9
PERIOD = 60 * 10**9
CHANNELS = ("a", "b", "c")
HISTORY = 60


class Story:
    """Gives the entries of one record after the other, as a service would log them.

    With `jumps` there are also wrong clocks, and gaps that are held until they are confirmed.
    """

    def __init__(self, seed: int, names: int = 4, *, jumps: bool = False) -> None:
        self.jumps = jumps
        self.rng = np.random.default_rng(seed)
        self.names = [f"m-{at}" for at in range(names)]
        self.clock = dict.fromkeys(self.names, 0)

    def record(self, applier: Applier) -> list[log.Entry]:
        """Return the next record, from how everything is now."""
        found = list(self._fits(applier))
        for _ in range(int(self.rng.integers(1, 4))):
            found += self._entries(applier)
        return found

    def _entries(self, applier: Applier) -> list[log.Entry]:
        streams = list(applier.streams)
        chance = self.rng.random()
        if chance < 0.75 or not streams:
            return [self._arrived()]
        stream = streams[self.rng.integers(len(streams))]
        if chance < 0.80:
            return [log.Closed(stream.id, (stream.order.held or stream.order.newest) + 1)]
        if chance < 0.82:
            return [log.Started(stream.order.newest)]
        if chance < 0.84:
            since = stream.order.closed
            others = tuple(
                (each.id, each.order.closed)
                for each in streams
                if each is not stream and self.rng.random() < 0.5
            )
            return [log.Silent(stream.id, since, since + 100 * PERIOD, others)]
        if chance < 0.93:
            return self._decision(stream)
        if chance < 0.95 and stream.count > HISTORY:
            first = int(self.rng.integers(0, stream.count - HISTORY))
            return [log.FitBegan(stream.id, first, stream.count - 1, "request")]
        if chance < 0.96:
            return [log.Restored(stream.id, int(self.rng.integers(1, 3)))]
        if chance < 0.97:
            return [log.Removed(stream.id)]
        if chance < 0.98:
            return [self._uploaded()]
        if chance < 0.985:
            return [log.Configured((("m-[12]", None, None, float(self.rng.integers(1, 40))),))]
        models = sorted(applier.models.glob("*.nn"))
        if chance < 0.99 and models:
            content = models[self.rng.integers(len(models))].read_bytes()
            name = str(self.rng.choice([*self.names, "put"]))
            return [log.ModelPut(name, b64encode(content).decode(), START)]
        source = f"source-{self.rng.integers(2)}"
        place, past = {"at": int(self.rng.integers(1000))}, bool(self.rng.integers(2))
        return [log.SamplesArrived((self._arrival(),), source, place, past=past)]

    def _decision(self, stream: StreamRecord) -> list[log.Entry]:
        verb = str(self.rng.choice(["accept", "reject", "undo"]))
        keys = [*stream.items, f"alarm-{stream.id}-{stream.generation}-1"]
        key = None if verb == "undo" else str(self.rng.choice(keys))
        return [log.FeedbackGiven(stream.id, verb, key, "someone", "because")]

    def _arrived(self) -> log.Entry:
        return log.SamplesArrived(
            tuple(self._arrival() for _ in range(int(self.rng.integers(1, 5))))
        )

    def _arrival(self) -> Arrival:
        name = str(self.rng.choice(self.names))
        return self._samples(name, int(self.rng.integers(1, 30)), begin=self.clock[name])

    def _uploaded(self) -> log.Entry:
        name = str(self.rng.choice(self.names))
        begin = max(0, self.clock[name] - 100)
        return log.SamplesArrived((self._samples(name, 80, begin=begin),), history=True)

    def _samples(self, name: str, count: int, begin: int) -> Arrival:
        rng = self.rng
        at = begin + np.arange(count)
        gap = int(rng.random() < 0.05) * (150 if self.jumps else 30)
        self.clock[name] = max(self.clock[name], begin + count + gap)
        width = 2 if name.endswith("0") else 3
        values = np.sin(at[:, None] / 7 + np.arange(width)) + rng.normal(0, 0.1, (count, width))
        if rng.random() < 0.15:
            values[count // 2 :] += 6.0
        times = START + at * PERIOD
        if self.jumps and rng.random() < 0.05:
            times[int(rng.integers(count)) :][:1] += 500 * PERIOD  # a wrong clock
        channels = CHANNELS[:width]
        if name.endswith("3"):  # its channels come apart
            kept = int(rng.integers(width))
            channels, values = channels[kept : kept + 1], values[:, kept : kept + 1]
            times = times + kept * PERIOD // 5
        if rng.random() < 0.2:
            order = rng.permutation(count)
            times, values = times[order], values[order]
        if rng.random() < 0.1:
            values = np.where(rng.random(values.shape) < 0.2, np.nan, values)
        if rng.random() < 0.05:
            channels, values = (*channels, "late"), np.column_stack([values, values[:, :1]])
        return Arrival(name, channels, times.astype(np.int64), np.ascontiguousarray(values))

    def _fits(self, applier: Applier) -> Iterator[log.Entry]:
        """Fit what has begun, and begin what is due."""
        for stream in list(applier.started):
            fit = stream.fit
            if fit is None or applier.streams.get(stream.id) is not stream:
                applier.started.remove(stream)
            elif self.rng.random() < 0.3:  # others take longer
                applier.started.remove(stream)
                path = applier.models / model_file(stream, fit)
                if not path.exists():
                    if self.rng.random() < 0.1:
                        yield log.FitFailed(stream.id, fit.began, "it was to fail", None)
                        continue
                    try:
                        fitted(history_of(applier, stream)).save(path)
                    except Exception as error:  # noqa: BLE001
                        yield log.FitFailed(stream.id, fit.began, str(error), None)
                        continue
                yield log.FitTaken(stream.id, fit.began, path.name)
        for stream in applier.streams:
            if stream.fit is None and not stream.is_live and stream.count >= HISTORY:
                if stream.tried + HISTORY <= stream.count:
                    yield log.FitBegan(stream.id, 0, stream.count - 1, "history")
            elif stream.fit is None and stream.wanted is not None:
                channels, first = stream.wanted
                if stream.count - first >= HISTORY:
                    last = stream.count - 1
                    yield log.FitBegan(stream.id, first, last, "channels", channels)


def fitted(history: object) -> Detector:
    """Return a detector that was fitted quickly."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return Detector(epochs=1, alarms_per_day=2.0, accept_after=30).fit(history)
