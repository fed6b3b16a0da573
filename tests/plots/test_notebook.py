"""What a notebook shows: tables that any viewer shows, and a page in a frame that is closed."""

import re
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser

import numpy as np
import pytest

from newnormal import M2N2, Detector, hooks
from newnormal.reports import notebook
from newnormal.reports.notebook import html
from newnormal.types import Event, Evidence, Incident, Verdicts
from tests.plots.runs import alarm, change, over, run

NASTY = "<script>alert(1)</script> & \"x\" 'y'"


class Text(HTMLParser):
    """Gathers the text and the tags of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.words: list[str] = []
        self.tags: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def fitted() -> Detector:
    rng = np.random.default_rng(0)
    history = np.sin(np.arange(600) / 9)[:, None] + rng.normal(0, 0.1, (600, 2))
    return Detector(alarms_per_day=1, epochs=1).fit(history)


def test_verdicts_are_a_table_and_a_closed_frame_or_without_their_samples_a_line() -> None:
    opened = alarm(2, 280, 299, reason=None)
    shown = run(events=over(alarm(1, 20, 30)), remaining=(opened, change(1, 200)))._repr_html_()
    table, frame = shown.split("<iframe", 1)
    words = Text(table).words
    assert words[0] == "In alarm since 2026-03-09 14:40: c1 71, expected 20 to 30; high"
    assert (
        "2026-03-09 10:00 to 14:59, 300 samples of 3 channels · 0 anomalous · 2 alarms" in words[1]
    )
    assert words[-2:] == ["c0 from 1 to 2", "pending"]
    assert 'sandbox="allow-scripts"' in frame
    assert "allow-same-origin" not in frame
    assert "script" not in Text(table).tags
    assert len(shown) < 1.5 * notebook.PAGE
    page = unescape(re.findall(r'srcdoc="([^"]*)"', shown)[0])
    assert page.lstrip().lower().startswith("<!doctype html>")
    ones = np.ones(3)
    verdicts = Verdicts(ones, ones, ones > 1, None, None, None, ("a",))
    assert html(verdicts) == "<div><p><b>Verdicts(samples 0 to 2, 0 anomalous)</b></p></div>"
    assert "Nothing unusual in 0 samples" in html(run(0))


def test_an_alarm_shows_its_evidence_and_a_change_where_it_was_and_is() -> None:
    shown = Text(alarm(3, 20, 30)._repr_html_()).words
    assert shown[0] == "Alarm 3: c1 71, expected 20 to 30; high for 11 min"
    assert shown[1] == "since 2026-03-09 10:20 · closed: back to normal"
    assert shown[-5:] == ["c1", "71", "25", "20 to 30", "high"]
    assert "missing" in html(replace(alarm(3, 20, 30), evidence=(Evidence("c1", None),)))
    shown = Text(change(4, 20)._repr_html_()).words
    assert shown[:2] == ["Change 4, pending: c0 from 1 to 2", "since 2026-03-09 10:20"]
    assert shown[-3:] == ["c0", "1", "2"]


def test_events_and_incidents_are_shown() -> None:
    assert Text(Event("opened", 20, None, alarm(3, 20, 30))._repr_html_()).words[:2] == [
        "opened at sample 20",
        "Alarm 3: c1 71, expected 20 to 30; high for 11 min",
    ]
    assert "undone at sample 7" in html(Event("undone", 7, None))
    incident = Incident(1, 7, None, 8, None, {"web-1": 3, "db": 2}, sentence="2 of 9 streams")
    assert Text(incident._repr_html_()).words[0] == "Incident 1: 2 of 9 streams"
    assert repr(incident) == "Incident(1, open: 2 of 9 streams)"


def test_a_detector_shows_its_state() -> None:
    assert "not fitted: call fit(history)" in M2N2(window=12)._repr_html_()
    detector = fitted()
    live = np.sin(np.arange(230) / 9)[:, None] + np.zeros((230, 2))
    live[200:] += 3
    assert "normal" in Text(detector._repr_html_()).words
    detector.run(live)
    words = Text(detector._repr_html_()).words
    assert words[0] == "Detector(alarms_per_day=1, epochs=1)"
    assert words[1:5] == ["status", "in alarm", "2 channels", "0, 1"]
    assert any("expected" in word for word in words)


def test_only_so_many_alarms_are_listed() -> None:
    found = [alarm(at + 1, 5 * at, 5 * at + 1) for at in range(52)]
    table = html(run(events=over(*found))).split("<iframe")[0]
    assert table.count("<tr>") == 6
    assert "and 47 more" in table


@pytest.mark.parametrize(
    "found",
    [
        alarm(1, 20, 30, channel=NASTY),
        change(1, 20, channels=(NASTY,)),
        Event("opened", 20, None, alarm(1, 20, 30, channel=NASTY)),
        Incident(1, 7, None, 8, None, {NASTY: 3}, sentence=NASTY),
        run(remaining=(alarm(1, 280, 299, reason=None, channel=NASTY),)),
    ],
    ids=["alarm", "change", "event", "incident", "verdicts"],
)
def test_everything_is_escaped(found: object) -> None:
    if isinstance(found, Verdicts):
        found = replace(found, channels=(NASTY, "b", "c"))
    parsed = Text(html(found))
    assert "script" not in parsed.tags
    assert any(NASTY in word for word in parsed.words)


def test_a_notebook_never_ends_in_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(found: object) -> str:
        raise RuntimeError("broken")

    monkeypatch.setattr("newnormal.reports.html", fail)
    assert hooks.html("<x>") == "<pre>&#x27;&lt;x&gt;&#x27;</pre>"
    assert run()._repr_html_() == "<pre>Verdicts(samples 0 to 299, 0 anomalous)</pre>"


def test_values_have_short_reprs() -> None:
    assert repr(alarm(3, 20, 30)) == (
        "Alarm(3, closed, since 2026-03-09T10:20:00: c1 71, expected 20 to 30; high for 11 min)"
    )
    assert repr(alarm(3, 20, 30, reason=None, timed=False)).startswith(
        "Alarm(3, open, since sample 20: "
    )
    assert repr(change(4, 20, "accepted")).startswith("Change(4, accepted: c0 from 1 to 2 since ")
    assert repr(Event("opened", 20, None, alarm(3, 20, 30))).startswith(
        "Event(opened at sample 20: Alarm(3, closed, "
    )
    assert repr(Event("undone", 7, None)) == "Event(undone at sample 7)"
    assert repr(Evidence("a", 71.0, 25.0, 20.0, 30.0)) == (
        "Evidence(a: 71, expected 20 to 30; high)"
    )
    assert repr(Evidence("a", None)) == "Evidence(a: missing; missing)"
    assert repr(Evidence("a", 1.5, 2.0)) == "Evidence(a: 1.5, expected 2; within)"
