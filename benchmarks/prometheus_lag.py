"""How long it takes from a scrape of Prometheus until a page shows its judgement."""

from __future__ import annotations

import json
import threading
import time
from contextlib import suppress
from typing import Any, NamedTuple

import httpx
import numpy as np


class Lags(NamedTuple):
    """Seconds, sorted: from each scrape, and from the time of the grid that shows it first."""

    of_scrapes: list[float]
    of_times: list[float]
    missing: int  # scrapes that were never shown


class Follower:
    """Follows the events of a service as a page does, and notes when each stream got further."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._begun: dict[int, tuple[str, int, int]] = {}  # by number: name, samples, newest (ns)
        self._shown: dict[int, list[tuple[float, int]]] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)

    def start(self) -> None:
        """Follow from now on."""
        self._thread.start()
        for each in _streams(self._url):
            self._begun[each["id"]] = each["name"], each["samples"], _ns(each["newest"])

    def stop(self) -> None:
        """Follow no more."""
        self._ended.set()

    def _follow(self) -> None:
        with (
            suppress(httpx.HTTPError),
            httpx.stream("GET", f"{self._url}/api/v1/events", timeout=None) as answer,
        ):
            kind = ""
            for line in answer.iter_lines():
                if self._ended.is_set():
                    return
                if line.startswith("event:"):
                    kind = line.partition(":")[2].strip()
                elif line.startswith("data:") and kind == "tick":
                    now = time.time()
                    for number, count in json.loads(line[5:])["streams"].items():
                        self._shown.setdefault(int(number), []).append((now, count))

    def lags(self, scraped: dict[str, dict[int, float]], step: int, last: float) -> Lags:
        """Return the lags of all scrapes up to a moment.

        Parameters
        ----------
        scraped
            By stream and by the time of the grid in ns: when the scrape was whose value it has.
        step
            Of the grid, in ns.
        last
            In Unix seconds.
        """
        of_scrapes, of_times, missing = [], [], 0
        for number, (name, samples, first) in self._begun.items():
            seen: set[float] = set()
            for moment, at in sorted(scraped.get(name, {}).items()):
                if moment <= first or at in seen or at > last:
                    continue
                seen.add(at)
                wanted = samples + (moment - first) // step
                shown = next((t for t, n in self._shown.get(number, ()) if n >= wanted), None)
                if shown is None:
                    missing += 1
                    continue
                of_scrapes.append(shown - at)
                of_times.append(shown - moment / 1e9)
        return Lags(sorted(of_scrapes), sorted(of_times), missing)


def scrapes(
    prometheus: str, metric: str, first: int, last: int, step: int
) -> dict[str, dict[int, float]]:
    """Return when each host was scraped, by the times of a grid, as Prometheus has it."""
    parameters: dict[str, str | float] = {
        "query": f"timestamp({metric})",
        "start": first / 1e9,
        "end": last / 1e9,
        "step": step / 1e9,
    }
    answer = httpx.get(f"{prometheus}/api/v1/query_range", params=parameters, timeout=60.0)
    return {
        each["metric"]["instance"]: {round(at * 1e3) * 10**6: float(v) for at, v in each["values"]}
        for each in answer.json()["data"]["result"]
    }


def newest(url: str) -> int:
    """Return the newest time in ns that all streams have."""
    return min(_ns(each["newest"]) for each in _streams(url))


def _streams(url: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    cursor: str | None = None
    while True:
        query = {"limit": "200"} | ({"cursor": cursor} if cursor else {})
        page = httpx.get(f"{url}/api/v1/streams", params=query, timeout=60.0).json()
        found += page["items"]
        cursor = page["cursor"]
        if cursor is None:
            return found


def _ns(text: str) -> int:
    return int(np.datetime64(text.removesuffix("Z"), "ns").astype(np.int64))
