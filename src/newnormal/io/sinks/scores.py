"""What a sink of the service's scores is."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, fields, replace

from newnormal.errors import NewnormalError
from newnormal.io.options import Connector
from newnormal.types import Bools, Floats, Ints


@dataclass(frozen=True, eq=False)
class ScoreBatch:
    """Scores of samples, of one or of many streams; never empty.

    A score stands for the samples of `ScoreSink.every` seconds of a stream: that one of them whose
    ratio is the highest. Those of a stream follow each other, times increasing.

    Attributes
    ----------
    streams
        (N,) the name of the stream of each.
    times
        (N,) of the samples, in ns since 1970.
    scores, thresholds
        (N,) what ranks samples, and the limit of the joint score.
    ratios
        (N,) how far, in units of the limit: 1 and above is anomalous; may be infinite, is never
        NaN.
    anomalous
        (N,) whether any of the samples is anomalous.
    alarms
        (N,) whether an alarm of the stream was open.
    channels, channel_values
        (N,) the names of the stream's C channels; and of that sample (C, 4): expected, low, high
        and ratio of each, NaN where not known. Both are empty unless `ScoreSink.channels`.
    attempt
        Counted from 1: how often it was tried to send them.
    """

    streams: tuple[str, ...]
    times: Ints
    scores: Floats
    thresholds: Floats
    ratios: Floats
    anomalous: Bools
    alarms: Bools
    channels: tuple[tuple[str, ...], ...] = ()
    channel_values: tuple[Floats, ...] = ()
    attempt: int = 1

    def __len__(self) -> int:
        return len(self.streams)

    def part(self, begin: int, end: int) -> ScoreBatch:
        """Return the scores from `begin` up to `end`, which is not included."""
        arrays = [each.name for each in fields(self) if each.name != "attempt"]
        return replace(self, **{name: getattr(self, name)[begin:end] for name in arrays})


class ScoresRefusedError(NewnormalError):
    """The receiver does not take some scores of a batch, and never will; it has the others.

    Attributes
    ----------
    count
        How many.
    """

    def __init__(self, message: str, *, count: int, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.count = count


class ScoreSink(Connector):
    """Where the service sends scores. Derive from it and name your class in `[sinks]`.

    Attributes
    ----------
    timeout
        Seconds after which `send` is given up. Choose your own ones shorter.
    every
        Seconds of a stream that one score stands for; 0: every sample is sent.
    keep
        Seconds after which a sample is too old to be sent; None: none is.
    at_once
        The most scores of a batch.
    channels
        Whether it gets what is known of each channel.

    Notes
    -----
    Scores are read from the store, every few seconds, by a thread for each sink: a sink that is
    slow or down slows nobody. After it was down it gets what the store has kept since, and no
    sample that is older than `keep`. A sink that is new gets the samples from then on.

    A batch is sent until `send` returns. So a receiver can get scores twice, where the answer to
    the first request was lost or the service was killed; both times they have the same times and
    ratios.

    Raise `ScoresRefusedError` if some of them cannot be taken: they are counted and not sent again.
    Any other exception means that the sink is down: all wait, 1 s at first, 5 min at most.
    """

    timeout: float = 30.0
    every: float = 1.0
    keep: float | None = None
    at_once: int = 1000
    channels: bool = False

    @abstractmethod
    def send(self, batch: ScoreBatch) -> None:
        """Send scores; return once the receiver has them."""

    def check(self) -> str:
        """As that of a `Connector`."""
        return "not tried: it has no way to without sending a score"
