"""Scores as samples of Prometheus, by its remote write 1.0."""

import math
import re
from collections.abc import Mapping
from http import HTTPStatus
from itertools import groupby
from typing import Any

import numpy as np

from newnormal.errors import ParameterError
from newnormal.io.http import authorization, checked_headers
from newnormal.io.options import Options
from newnormal.io.remote_write import HEADERS, pack, request_kind
from newnormal.io.sinks.alerts import AlertRefusedError, SinkDownError
from newnormal.io.sinks.http import HttpReceiver
from newnormal.io.sinks.scores import ScoreBatch, ScoreSink, ScoresRefusedError

# Other names than those of /metrics, so that nothing is counted twice where both are used.
RATIO = "newnormal_sample_ratio"
ALARM = "newnormal_sample_alarm"
_NAME, _STREAM = "__name__", "stream"

_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*\Z")
_MS = 1_000_000  # ns
_IN_PARTS = 120.0  # s for a batch that is sent again in parts
_SPLITS = 32  # of a batch that is refused
_REFUSED = "they are left out; see the log of the receiver, and whether another service writes them"
_HINTS: dict[int, str] = {
    HTTPStatus.UNAUTHORIZED: "check the token, or user and password",
    HTTPStatus.FORBIDDEN: "check the token, or user and password",
    HTTPStatus.NOT_FOUND: "check the address; Prometheus takes remote write at /api/v1/write once "
    "it is started with --web.enable-remote-write-receiver",
}


class RemoteWriteSink(ScoreSink):
    """Writes ratio and alarm of each stream to Prometheus, Mimir or VictoriaMetrics.

    Options: `url`; `token`, sent as ``Authorization: Bearer``, or `user` and `password`; `labels`,
    which all series get; `headers`, such as ``X-Scope-OrgID``; `every`, seconds of a stream that
    become one sample (1); `keep`, seconds after which a sample is too old (3000: Prometheus takes
    none that is older than an hour); `timeout` in seconds (10); `ca_file`, certificates to trust
    instead of the system's.
    """

    secrets = ("token", "password")
    private = ("url",)
    at_once = 1000  # two samples each

    def __init__(self, name: str, options: Mapping[str, Any]) -> None:
        super().__init__(name, options)
        where = f"sink {name}"
        given = Options(where, options)
        url: str = given.text("url")
        header = authorization(given)
        self._labels: dict[str, str] = _checked_labels(where, given.table("labels", {}))
        headers = checked_headers(where, given.table("headers", {}))
        # Times of samples are in ms: two stretches must not have one in common.
        self.every = math.ceil(given.number("every", 1.0, least=0.001) * 1000) / 1000
        self.keep = given.number("keep", 3000.0, least=1.0)
        seconds: float = given.number("timeout", 10.0, least=0.1)
        ca_file: str | None = given.text("ca_file", None)
        given.end()
        self.timeout = 3 * seconds + _IN_PARTS
        self._receiver = HttpReceiver(
            where,
            url,
            timeout=seconds,
            ca_file=ca_file,
            headers={**headers, **HEADERS},
            authorization=header,
            hidden=(options.get("token"), options.get("password")),
            hints=_HINTS,
            port=True,
        )
        request_kind()  # an extra that is missing is known now

    def send(self, batch: ScoreBatch) -> None:
        """Write a batch; one that is refused is sent again in parts, as only some of it is bad."""
        parts, splits = [batch], _SPLITS
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
        times = (batch.times // _MS).tolist()
        ratios, alarms = batch.ratios.tolist(), batch.alarms.astype(np.float64).tolist()
        begin = 0
        for stream, own in groupby(batch.streams):
            end = begin + sum(1 for _ in own)
            for name, values in ((ALARM, alarms), (RATIO, ratios)):
                series = request.timeseries.add()
                # In the order of their names, as the protocol demands.
                for label, text in sorted({**self._labels, _NAME: name, _STREAM: stream}.items()):
                    series.labels.add(name=label, value=text)
                for at in range(begin, end):
                    series.samples.add(value=values[at], timestamp=times[at])
            begin = end
        self._receiver.judge(self._receiver.ask("POST", body=pack(request)))


def _checked_labels(where: str, labels: dict[str, str]) -> dict[str, str]:
    for name, value in labels.items():
        reserved = name == _STREAM or name.startswith("__")
        if reserved or not _LABEL.match(name) or not value:
            raise ParameterError(
                f"{where}: labels: expected names of letters, digits and _ with a text each, "
                f"found {name!r}",
                hint=f'such as labels = {{site = "north"}}; {_STREAM} and names that begin with __ '
                "are taken",
            )
    return labels
