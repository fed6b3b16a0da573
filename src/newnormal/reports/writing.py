"""Write a report: one HTML file with all it needs."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from newnormal import __version__
from newnormal.errors import InputError
from newnormal.fleet.results import FleetVerdicts
from newnormal.plots.attention import attention
from newnormal.reports.axis import Axis
from newnormal.reports.overview import fleet_streams, incidents_data, one_stream
from newnormal.reports.packing import text_of
from newnormal.reports.pages import filled, shell_size
from newnormal.state.files import remove_stale, replace_file
from newnormal.state.targets import check_file, resolved
from newnormal.types import IncidentEvent, Timeline, Verdicts
from newnormal.types.zones import common_zone

__all__ = ["BUDGET", "page_of", "report"]

BUDGET = 9_500_000  # bytes of a report
FORMAT = 1  # of the data inside a page
_TITLE = "newnormal report"
_SLACK = 1_000  # bytes: what is between the parts


def report(found: Any, path: str | os.PathLike[str], *, name: str = "", labels: Any = None) -> Path:
    """Write what happened in a run as an HTML page, and return its path.

    The page needs no network and no other file. It has the channels with what was expected, the
    score beside its threshold, alarms and changes with their evidence; of a fleet an overview
    first. It stays below 10 MB: long series are thinned by their extremes, so no spike is lost.

    Parameters
    ----------
    found
        What `run` or `score` of a detector returns, or `run` of a fleet; or verdicts by stream.
    path
        Of the file; one that is there is replaced.
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
    >>> detector = newnormal.Detector(epochs=1).fit(rng.normal(size=(400, 2)))
    >>> verdicts = detector.run(rng.normal(size=(100, 2)))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     newnormal.report(verdicts, f"{folder}/report.html", name="plant").name
    'report.html'
    """
    check_file(path, error=InputError)
    text = page_of(found, name=name, labels=labels)
    target = resolved(path, InputError)
    remove_stale(target)
    replace_file(target, text.encode(), sync=False)
    return Path(path)


def page_of(found: Any, *, name: str = "", labels: Any = None, budget: int = BUDGET) -> str:
    """Return a report as the text of an HTML page of about `budget` bytes at most.

    Parameters
    ----------
    found, name, labels
        As for `report`.
    budget
        How large it may be, in bytes. Fewer bytes mean fewer details; what happened is in it
        anyway.
    """
    room = budget - shell_size() - _SLACK
    if isinstance(found, Verdicts | Timeline):
        timeline = found
        if isinstance(timeline, Verdicts):
            timeline = Timeline.of(timeline, name, labels)
        axis = Axis.of(timeline)
        data, text = one_stream(axis, room)
        facts = _facts(name or timeline.name, [axis], [data], None)
        return filled(facts["title"], text_of(facts), [text])
    timelines, incidents = _streams(found, labels)
    timed = all(each.times is not None for each in timelines)
    axes = [Axis(each, timed) for each in sorted(timelines, key=attention)]
    reported = incidents_data(incidents)
    streams, texts = fleet_streams(axes, room - len(text_of(reported).encode()))
    fleet = {"streams": len(axes), "shown": len(streams), "incidents": reported}
    facts = _facts(name, axes, streams, fleet)
    return filled(facts["title"], text_of(facts), texts)


def _facts(
    name: str,
    axes: Sequence[Axis],
    streams: list[dict[str, Any]],
    fleet: dict[str, Any] | None,
) -> dict[str, Any]:
    timed = bool(axes) and axes[0].timed
    zone = common_zone({each.timeline.verdicts.zone for each in axes}) if timed else None
    return {
        "format": FORMAT,
        "version": __version__,
        "title": name or _TITLE,
        "axis": {"kind": "time" if timed else "sample", "zone": zone},
        "labelled": any(each.timeline.labels is not None for each in axes),
        "streams": streams,
        "fleet": fleet,
    }


def _streams(found: Any, labels: Any) -> tuple[list[Timeline], Sequence[IncidentEvent]]:
    """Return the streams of a fleet, and what happened to incidents."""
    given: Mapping[str, Any] = {} if labels is None else labels
    if isinstance(found, FleetVerdicts):
        names, incidents = list(found), found.incidents
    elif isinstance(found, Mapping):
        names, incidents = list(found), ()
    else:
        raise InputError(
            f"expected verdicts, found {type(found).__name__}",
            hint="take those that detector.run(series) or fleet.run(series) returns",
        )
    return [Timeline.of(found[each], each, given.get(each)) for each in names], incidents
