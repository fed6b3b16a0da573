"""Write a report: what it is about, as one HTML file made of a template, styles and scripts."""

from __future__ import annotations

import base64
import hashlib
import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any, Self

from newnormal import __version__
from newnormal.errors import InputError
from newnormal.fleet.results import FleetVerdicts
from newnormal.plots.overview import attention
from newnormal.reports.overview import fleet_streams, incidents_data, one_stream
from newnormal.reports.packing import text_of
from newnormal.reports.stream import Axis
from newnormal.state.files import remove_stale, replace_file
from newnormal.state.targets import check_file, resolved
from newnormal.texts import counted, listed
from newnormal.types import IncidentEvent, Timeline, Verdicts
from newnormal.types.zones import common_zone


@dataclass(frozen=True, eq=False)
class Contents:
    """The streams of a report."""

    name: str  # for the title
    timelines: tuple[Timeline, ...]  # one a stream
    incidents: Sequence[IncidentEvent] = ()
    fleet: bool = False  # whether there may be many streams

    @classmethod
    def of(cls, verdicts: Any, name: str = "", labels: Any = None) -> Self:
        """Return it for verdicts of a detector or of a fleet, for a timeline, or by stream."""
        if isinstance(verdicts, cls):
            return verdicts
        if isinstance(verdicts, Timeline):
            return cls(name or verdicts.name, (verdicts,))
        if isinstance(verdicts, Verdicts):
            return cls(name, (Timeline.of(verdicts, name, labels),))
        if not isinstance(verdicts, FleetVerdicts | Mapping):
            raise InputError(
                f"expected verdicts, found {type(verdicts).__name__}",
                hint="take those that detector.run(series) or fleet.run(series) returns",
            )
        if isinstance(verdicts, FleetVerdicts) and verdicts.observed is None:
            raise InputError(
                "expected verdicts of series that are over, found none that know their samples",
                hint="take those that fleet.run(series) returns, without flush=False",
            )
        truth = _labels_by_stream(verdicts, labels)
        timelines = tuple(
            Timeline.of(_checked(verdicts[stream], stream), stream, truth.get(stream))
            for stream in verdicts
        )
        incidents = verdicts.incidents if isinstance(verdicts, FleetVerdicts) else ()
        return cls(name, timelines, incidents, fleet=True)

    def summary(self) -> str:
        """Return how many alarms, changes and incidents there are, in words."""
        alarms = [alarm for timeline in self.timelines for alarm in timeline.alarms]
        still = sum(alarm.open for alarm in alarms)
        parts = [counted(len(self.timelines), "stream")] if self.fleet else []
        parts.append(counted(len(alarms), "alarm") + (f" ({still:,} open)" if still else ""))
        changes = [span.change for timeline in self.timelines for span in timeline.changes]
        states = Counter(change.state for change in changes)
        parts += [f"{counted(count, 'change')} {state}" for state, count in states.items()]
        if incidents := {event.incident.number for event in self.incidents}:
            parts.append(counted(len(incidents), "incident"))
        return ", ".join(parts)


def _checked(verdicts: Any, stream: str) -> Verdicts:
    if isinstance(verdicts, Verdicts):
        return verdicts
    raise InputError(
        f"expected verdicts by stream, found {type(verdicts).__name__} of {stream!r}",
        hint="take those that detector.run(series) returns",
    )


def _labels_by_stream(
    verdicts: Mapping[str, Any] | FleetVerdicts, labels: Any
) -> Mapping[str, Any]:
    """Return the labels of each stream that has any; raise an InputError if they are not that."""
    if labels is None:
        return {}
    if not isinstance(labels, Mapping):
        raise InputError(
            f"labels: expected those of each stream by its name, found {type(labels).__name__}",
            hint='such as labels={"web-1": truth}',
        )
    streams = tuple(verdicts)
    if unknown := [name for name in labels if name not in streams]:
        raise InputError(
            f"labels: expected names of streams, found {unknown[0]!r}",
            hint=f"the streams are {listed(streams)}",
        )
    return labels


BUDGET = 9_500_000  # bytes of a report
FORMAT = 1  # of the data inside a page
_TITLE = "newnormal report"
_SLACK = 1_000  # bytes: what is between the parts
_ENDINGS = (".html", ".htm")
# In the order in which they are joined, without a build step.
STYLES = ("vendor/uplot/uPlot.min.css", "page/page.css", "reports/page/report.css")
_SHARED = ("decode", "format", "events", "panels", "gestures", "picture", "parts")
SCRIPTS = (
    "page/theme.js",
    "vendor/uplot/uPlot.iife.min.js",
    *(f"page/{name}.js" for name in _SHARED),
    *(f"reports/page/{name}.js" for name in ("lists", "overview", "main")),
)
_PLACE = re.compile(r"\{\{(\w+)\}\}")


def report(
    verdicts: Any, path: str | os.PathLike[str], *, name: str = "", labels: Any = None
) -> Path:
    """Write what happened in a run as an HTML page, and return its path.

    The page needs no network and no other file. It has the channels in their expected ranges, the
    ratio to the limit, alarms and changes with their evidence; of a fleet an overview first. It
    stays below 10 MB: long series are thinned by their extremes, so no spike is lost.

    Parameters
    ----------
    verdicts
        What `run` or `score` of a detector returns, or `run` of a fleet; or verdicts by stream.
    path
        Of the file, which ends in .html; one that is there is replaced.
    name
        Of the stream or of the file, for the title.
    labels
        1 for a sample that is labelled as a fault, 0 for another; of a fleet, by stream. None: as
        in the input, and without any nothing is called a false alarm.

    Examples
    --------
    >>> import numpy as np, tempfile
    >>> import newnormal
    >>> rng = np.random.default_rng(0)
    >>> load = np.sin(np.arange(900)[:, None] / [7, 11]) + rng.normal(0, 0.1, (900, 2))
    >>> verdicts = newnormal.Detector(epochs=1).fit(load[:800]).run(load[800:])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     newnormal.report(verdicts, f"{folder}/report.html", name="plant").name
    'report.html'
    """
    check_target(path)
    text = page_of(verdicts, name=name, labels=labels)
    target = resolved(path, InputError)
    remove_stale(target)
    replace_file(target, text.encode(), sync=False)
    return Path(path)


def check_target(
    path: str | os.PathLike[str], others: Iterable[str | os.PathLike[str]] = ()
) -> None:
    """Raise an InputError unless a report can be written here that is none of `others`."""
    target = Path(path)
    if target.suffix.lower() not in _ENDINGS:
        raise InputError(
            f"{target}: expected a page ending in .html, found {target.suffix or 'no ending'!r}",
            hint=f"for example {target.with_suffix('.html').name}" if target.name else None,
        )
    check_file(target, others, error=InputError)


def page_of(verdicts: Any, *, name: str = "", labels: Any = None, budget: int = BUDGET) -> str:
    """Return a report as the text of an HTML page.

    `verdicts`, `name`, `labels`: as for `report`. `budget`: how large it may be, in bytes. Fewer
    bytes mean fewer details.
    """
    contents = Contents.of(verdicts, name, labels)
    room = budget - _empty_size() - _SLACK
    fleet: dict[str, Any] | None = None
    if contents.fleet:
        timed = all(timeline.times is not None for timeline in contents.timelines)
        axes = [Axis(timeline, timed) for timeline in sorted(contents.timelines, key=attention)]
        incidents = incidents_data(contents.incidents)
        streams, texts = fleet_streams(axes, room - len(text_of(incidents).encode()))
        fleet = {"streams": len(axes), "shown": len(streams), "incidents": incidents}
    else:
        axes = [Axis.of(timeline) for timeline in contents.timelines]
        pairs = [one_stream(axis, room) for axis in axes]
        streams, texts = [stream for stream, _ in pairs], [text for _, text in pairs]
    facts = _facts(contents.name, axes, streams, fleet)
    return _filled(facts["title"], text_of(facts), texts)


def _facts(
    name: str, axes: Sequence[Axis], streams: list[dict[str, Any]], fleet: dict[str, Any] | None
) -> dict[str, Any]:
    timed = bool(axes) and axes[0].timed
    zone = common_zone({axis.timeline.verdicts.zone for axis in axes}) if timed else None
    return {
        "format": FORMAT,
        "version": __version__,
        "title": name or _TITLE,
        "axis": {"kind": "time" if timed else "sample", "zone": zone},
        "labelled": any(axis.timeline.labels is not None for axis in axes),
        "streams": streams,
        "fleet": fleet,
    }


def _filled(title: str, report: str, data: Sequence[str]) -> str:
    """Return the page with its title and its data.

    `title`: plain text. `report`: the description of the data, as `text_of` writes JSON. `data`:
    the numbers of each stream as base64, "" for one that has none.
    """
    elements = [
        f'<script type="text/plain" id="data-{number}">{text}</script>'
        for number, text in enumerate(data)
        if text
    ]
    return _put(
        {
            "title": escape(title.encode("utf-8", "backslashreplace").decode()),
            "style": _joined(STYLES),
            "script": _joined(SCRIPTS),
            "digest": _digest(),
            "report": report,
            "data": "\n".join(elements),
        }
    )


@cache
def _empty_size() -> int:
    """Return how many bytes the page has before any data."""
    return len(_filled("", "", []).encode())


def _put(parts: Mapping[str, str]) -> str:
    """Fill each place of the template once; what is put there is not looked at again."""
    return _PLACE.sub(lambda match: parts[match[1]], _read("reports/page/template.html"))


@cache
def _digest() -> str:
    """Return what a browser compares the page's script with: it runs this one and no other."""
    return base64.b64encode(hashlib.sha256(_joined(SCRIPTS).encode()).digest()).decode()


@cache
def _joined(paths: tuple[str, ...]) -> str:
    return "\n".join(_read(path) for path in paths)


@cache
def _read(path: str) -> str:
    return files("newnormal").joinpath(path).read_text(encoding="utf-8")
