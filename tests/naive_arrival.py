"""The slow, obvious twin of `Arrival`: one sample at a time, in lists."""

from itertools import pairwise
from math import isnan, nan
from typing import Any

from newnormal.tabular import Reading

Sample = tuple[int, int, list[float]]  # time in ns, number, values
MINUTE = 60_000_000_000


class NaiveArrival:
    """Takes one sample a call, and lists what comes out: samples, and numbers that are refused."""

    def __init__(self, reading: Reading, counters: list[int], limit: int) -> None:
        self.reading, self.counters = reading, counters
        self.newest: int | None = None  # of all that was not held for its time
        self.limit = limit
        self.far: list[Sample] = []
        self.buffer: dict[int, list[Sample]] = {}
        self.given: int | None = None
        self.last: dict[int, tuple[float, int]] = {}
        self.step: int | None = None
        self.step_rows: list[list[float]] = []
        self.given_step: int | None = None
        self.longest = 0
        self.out: list[Any] = []

    def push(self, sample: Sample) -> None:
        time = sample[0]
        if self.newest is None:
            self.newest = time
        if time <= self.newest:
            self.order(sample)
        elif time - self.newest <= self.limit:
            self.out += [("refused", number) for _, number, _ in self.far]
            self.far = []
            self.newest = time
            self.order(sample)
        else:
            self.far.append(sample)
            self.decide()

    def decide(self) -> None:
        assert self.newest is not None
        groups: list[list[Sample]] = []
        for sample in self.far:
            for group in groups:
                times = [time for time, _, _ in group]
                reach = max(self.limit, 2 * (times[0] - self.newest))
                if min(times) - self.limit <= sample[0] <= max(times) + reach:
                    group.append(sample)
                    break
            else:
                groups.append([sample])
            if sum(map(len, groups)) > 16:
                self.out += [("refused", number) for _, number, _ in groups[0]]
                self.far = [each for each in self.far if each not in groups[0]]
                return
        for group in groups:
            times = sorted({time for time, _, _ in group})
            if len(times) < 3:
                continue
            others = [each for each in self.far if each not in group]
            self.out += [("refused", number) for _, number, _ in others]
            steps = [b - a for a, b in pairwise(times)]
            self.limit = max(self.limit, times[0] - self.newest, *steps)
            self.newest = times[-1]
            self.far = []
            for each in group:
                self.order(each)
            return

    def order(self, sample: Sample) -> None:
        time, number, _ = sample
        how, reorder = self.reading.on_duplicate, self.reading.reorder
        if not (how or reorder or self.counters or self.reading.resample):
            self.out.append(("sample", time, sample[2]))
        elif (time in self.buffer and how is None) or (self.given or -1) >= time:
            self.out.append(("refused", number))
        else:
            self.buffer.setdefault(time, []).append(sample)
            while len(self.buffer) > max(reorder, int(how in ("last", "mean"))):
                self.give(min(self.buffer))

    def give(self, time: int) -> None:
        samples = [values for _, _, values in self.buffer.pop(time)]
        self.given = time
        if self.reading.on_duplicate == "mean":
            values = [mean([each[at] for each in samples]) for at in range(len(samples[0]))]
        else:
            values = list(samples[-1])
        for at in self.counters:
            if isnan(values[at]):
                continue
            value, rate = values[at], nan
            if at in self.last:
                before, when = self.last[at]
                rise = value - before if value >= before else value
                rate = rise / ((time - when) / 1e9)
            self.last[at] = (value, time)
            values[at] = rate
        self.grid(time, values)

    def grid(self, time: int, values: list[float]) -> None:
        if self.reading.resample is None:
            self.out.append(("sample", time, values))
            return
        period = int(self.reading.resample.astype("timedelta64[ns]").astype(int))
        step = -(-time // period)
        if self.step is not None and self.step != step:
            self.close(period)
        self.step = step
        self.step_rows.append(values)
        if step * period == time:
            self.close(period)

    def close(self, period: int) -> None:
        if self.step is None:
            return
        width = len(self.step_rows[0])
        if self.given_step is not None:
            gap = self.step - self.given_step
            if gap <= max(100, 10 * self.longest):
                for between in range(self.given_step + 1, self.step):
                    self.out.append(("sample", between * period, [nan] * width))
            if gap <= 100:
                self.longest = max(self.longest, gap)
        else:
            self.longest = 1
        values = [mean([each[at] for each in self.step_rows]) for at in range(width)]
        self.out.append(("sample", self.step * period, values))
        self.given_step, self.step, self.step_rows = self.step, None, []

    def flush(self) -> None:
        for time in sorted(self.buffer):
            self.give(time)
        if self.reading.resample is not None:
            self.close(int(self.reading.resample.astype("timedelta64[ns]").astype(int)))
        self.out += [("refused", number) for _, number, _ in self.far]
        self.far = []


def mean(values: list[float]) -> float:
    total, count = 0.0, 0
    for value in values:
        if not isnan(value):
            total, count = total + value, count + 1
    return total / count if count else nan
