"""Scores as samples of Prometheus, by its remote write 1.0."""

import math
import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from newnormal.errors import ParameterError
from newnormal.io.http import authorization, checked_headers
from newnormal.io.remote_write import HEADERS, pack, request_kind
from newnormal.io.sinks.alerts import AlertRefusedError, SinkDownError
from newnormal.io.sinks.http import HttpReceiver
from newnormal.io.sinks.scores import ScoreBatch, ScoreSink, ScoresRefusedError

# Other names than those of /metrics, so that nothing is counted twice where both are used.
RATIO = "newnormal_sample_ratio"
ALARM = "newnormal_sample_alarm"
# Of a channel, in the order of `ScoreBatch.channel_values`.
CHANNELS = tuple(f"newnormal_channel_{kind}" for kind in ("expected", "low", "high", "ratio"))
_NAME, _STREAM, _CHANNEL = "__name__", "stream", "channel"

_Labels = tuple[tuple[str, str], ...]
_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*\Z")
_MS = 1_000_000  # ns
_IN_PARTS = 120.0  # s for a batch that is sent again in parts
_SPLITS = 32  # of a batch that is refused
_SAMPLES = 20_000  # of a request, about
_REFUSED = "they are left out; see the log of the receiver, and whether another service writes them"
_HINTS: dict[int, str] = {
    HTTPStatus.UNAUTHORIZED: "check the token, or user and password",
    HTTPStatus.FORBIDDEN: "check the token, or user and password",
    HTTPStatus.NOT_FOUND: "check the address; Prometheus takes remote write at /api/v1/write once "
    "it is started with --web.enable-remote-write-receiver",
}


class RemoteWriteSink(ScoreSink):
    """Writes ratio and alarm of streams, and channels, to Prometheus, Mimir or VictoriaMetrics.

    Options: `url`; `token`, sent as ``Authorization: Bearer``, or `user` and `password`; `labels`,
    which all series get; `headers`, such as ``X-Scope-OrgID``; `every`, how much of a stream
    becomes one sample (1s); `keep`, after how long a sample is too old (50m: Prometheus takes
    none that is older than an hour); `channels`, whether each channel has series, too (yes);
    `timeout` (10s); `ca_file`, certificates to trust instead of the system's.
    """

    at_once = 1000  # two samples each, and four a channel

    def __init__(self, name: str, options: Mapping[str, Any]) -> None:
        super().__init__(name, options)
        where = self.options.where
        url: str = self.options.private("url")
        header = authorization(self.options)
        secrets = (self.options.secret("password"), self.options.secret("token"))
        self._labels: dict[str, str] = _checked_labels(where, self.options.table("labels", {}))
        headers = checked_headers(where, self.options.table("headers", {}))
        # Times of samples are in ms: two stretches must not have one in common.
        self.every = math.ceil(self.options.seconds("every", "1s", least="1ms") * 1000) / 1000
        self.keep = self.options.seconds("keep", "50m", least="1s")
        self.channels = self.options.flag("channels", default=True)
        self._receiver = HttpReceiver(
            self.options,
            url,
            headers={**headers, **HEADERS},
            authorization=header,
            hidden=secrets,
            hints=_HINTS,
            port=True,
        )
        self.options.end()
        self.timeout = 3 * self._receiver.timeout + _IN_PARTS
        request_kind()  # an extra that is missing is known now

    def send(self, batch: ScoreBatch) -> None:
        """Write a batch; one that is refused is sent again in parts, as only some of it is bad."""
        most = max(1, _SAMPLES // (2 + 4 * max(map(len, batch.channels), default=0)))
        starts = range(0, len(batch), most)
        parts, splits = [batch.part(at, at + most) for at in reversed(starts)], _SPLITS
        refused, why = 0, None
        while parts:
            part = parts.pop()
            try:
                self._write(part)
            except AlertRefusedError as error:
                half = len(part) // 2
                if half and splits:
                    splits -= 1
                    # The first half first: samples of a series must come in the order of time.
                    parts += part.part(half, len(part)), part.part(0, half)
                else:
                    refused, why = refused + len(part), error
        if why is not None:
            raise ScoresRefusedError(why.message, count=refused, hint=_REFUSED)

    def check(self) -> str:
        """Write a request without samples."""
        answer = self._receiver.ask("POST", body=pack(request_kind()()))
        try:
            self._receiver.judge(answer)
        except AlertRefusedError as error:  # it has nothing in it that could be refused
            raise SinkDownError(error.message, hint=_HINTS[HTTPStatus.NOT_FOUND]) from None
        return f"{self._receiver.name} takes remote write (status {answer.status})"

    def close(self) -> None:
        """Close the connections."""
        self._receiver.close()

    def _write(self, batch: ScoreBatch) -> None:
        request = request_kind()()
        for labels, samples in _series(batch).items():
            series = request.timeseries.add()
            # In the order of their names, as the protocol demands.
            for label, text in sorted({**self._labels, **dict(labels)}.items()):
                series.labels.add(name=label, value=text)
            for time, value in samples:
                series.samples.add(value=value, timestamp=time)
        self._receiver.judge(self._receiver.ask("POST", body=pack(request)))


def _series(batch: ScoreBatch) -> dict[_Labels, list[tuple[int, float]]]:
    series: dict[_Labels, list[tuple[int, float]]] = {}
    ratios, alarms = batch.ratios.tolist(), batch.alarms.astype(float).tolist()
    times = (batch.times // _MS).tolist()
    for at, stream in enumerate(batch.streams):
        values: dict[_Labels, float] = {
            ((_NAME, ALARM),): alarms[at],
            ((_NAME, RATIO),): ratios[at],
        }
        if batch.channels:
            for channel, known in zip(batch.channels[at], batch.channel_values[at], strict=True):
                for name, value in zip(CHANNELS, known.tolist(), strict=True):
                    values[(_NAME, name), (_CHANNEL, channel)] = value
        for labels, value in values.items():
            if not math.isnan(value):
                series.setdefault((*labels, (_STREAM, stream)), []).append((times[at], value))
    return series


def _checked_labels(where: str, labels: dict[str, str]) -> dict[str, str]:
    for name, value in labels.items():
        reserved = name in (_STREAM, _CHANNEL) or name.startswith("__")
        if reserved or not _LABEL.match(name) or not value:
            raise ParameterError(
                f"{where}: labels: expected names of letters, digits and _ with a text each, "
                f"found {name!r}",
                hint=f'such as labels = {{site = "north"}}; {_STREAM}, {_CHANNEL} and names that '
                "begin with __ are taken",
            )
    return labels
