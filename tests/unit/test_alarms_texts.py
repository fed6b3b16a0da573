"""Alarms, changes and incidents in words: the exact text of each kind of event."""

import io
import shlex
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from newnormal.alarms.words import (
    Deciding,
    Note,
    change_note,
    change_sentence,
    ended,
    event_note,
    incident_event_note,
    unusual_text,
)
from newnormal.cli.watch import StatusLine
from newnormal.io import SinkOptions
from newnormal.io.sinks.text import TextSink, note_lines
from newnormal.types import (
    ACCEPTED,
    BACK_TO_NORMAL,
    CHANGED,
    CLOSED,
    END_OF_STREAM,
    INCIDENT,
    INCIDENT_ENDED,
    OPENED,
    REJECTED,
    REVERTED,
    SAMPLES_AGAIN,
    SILENCE,
    UNDONE,
    UPDATED,
    Alarm,
    Change,
    Event,
    Evidence,
    Incident,
    IncidentEvent,
    Peak,
)


def at(clock: str, day: int = 9) -> np.datetime64:
    return np.datetime64(f"2026-03-{day:02}T{clock}", "ns")


ALARM = Alarm(
    1,
    560,
    at("09:20"),
    587,
    at("09:47"),
    Peak(562, at("09:22"), 9.0, 5.0, 1e-6, {"temperature": 0.9, "flow": 0.1}),
    evidence=(
        Evidence("temperature", 77.7, 64.9, 63.3, 66.5),
        Evidence("flow", 101.0, 110.0, 105.0, 115.0),
        Evidence("level", 50.0, 50.5, 48.0, 53.0),
    ),
    sentence="temperature 77.7, expected 63.3 to 66.5; high for 28 min; also flow, level",
)
ONE = replace(ALARM, evidence=ALARM.evidence[:1])
GAP = Alarm(
    4,
    700,
    at("11:40"),
    700,
    at("11:55"),
    Peak(700, at("11:55"), 0.0, 0.0, 1.0, {}),
    cause=SILENCE,
    sentence="no sample for 15 min, expected one every 1 min",
)
MISSING = replace(
    GAP, number=5, start=705, evidence=(Evidence("flow", None),), sentence="flow missing"
)
CHANGE = Change(
    3,
    560,
    at("09:20"),
    ("temperature", "power"),
    {"temperature": 65.1, "power": 80.9},
    {"temperature": 76.8, "power": 109.0},
    alarm=1,
    distance=2.0,
)
STILL = replace(CHANGE, channels=("temperature",), kind="still", units={"temperature": "°C"})
STILL = replace(STILL, alarm=None, sentence=change_sentence(STILL))
STATE = Deciding("plant.state", accept_after="24 h")


def text_of(note: Note, width: int = 80, stream: str | None = None, name_width: int = 0) -> str:
    console = Console(width=width, file=io.StringIO(), color_system=None)
    lines = note_lines(note, console, stream, name_width)
    return "\n".join(line.plain for line in lines)


EVENTS = {
    "opened": (
        Event(OPENED, 560, at("09:20"), ALARM),
        """\
2026-03-09 09:20:00  ALARM 1 opened: temperature high, flow low, level unusual
    temperature  77.7, expected 64.9 (63.3 to 66.5)
    flow         101, expected 110 (105 to 115)
    level        50, expected 50.5 (48 to 53)""",
    ),
    "opened, known later": (
        Event(OPENED, 563, at("09:23"), ONE),
        """\
2026-03-09 09:23:00  ALARM 1 opened: temperature high since 09:20:00
    temperature  77.7, expected 64.9 (63.3 to 66.5)""",
    ),
    "updated": (
        Event(UPDATED, 587, at("09:47"), ONE),
        """\
2026-03-09 09:47:00  ALARM 1 worse: temperature high since 09:20:00, for 28 min
    temperature  77.7, expected 64.9 (63.3 to 66.5)""",
    ),
    "closed": (
        Event(CLOSED, 600, at("10:30"), replace(ALARM, reason=BACK_TO_NORMAL)),
        """\
2026-03-09 10:30:00  alarm 1 closed: temperature high, flow low, level unusual
    for 28 min; back to normal""",
    ),
    "closed, accepted": (
        Event(CLOSED, 600, at("10:30"), replace(ONE, reason=ACCEPTED)),
        "2026-03-09 10:30:00  alarm 1 closed: temperature high for 28 min; accepted as\n    normal",
    ),
    "closed, at the end": (
        Event(CLOSED, 600, at("10:30"), replace(ONE, reason=END_OF_STREAM)),
        "2026-03-09 10:30:00  alarm 1 closed: temperature high for 28 min; the input\n    ended",
    ),
    "a gap": (
        Event(OPENED, 700, at("11:55"), GAP),
        """\
2026-03-09 11:55:00  ALARM 4 opened: no sample for 15 min, expected one every 1
    min""",
    ),
    "missing values": (
        Event(OPENED, 710, at("12:05"), MISSING),
        "2026-03-09 12:05:00  ALARM 5 opened: flow missing since 11:40:00",
    ),
    "values again": (
        Event(CLOSED, 711, at("12:06"), ended(MISSING, SAMPLES_AGAIN)),
        "2026-03-09 12:06:00  alarm 5 closed: flow missing for 15 min; values come again",
    ),
    "changed": (
        Event(CHANGED, 575, at("09:35"), ALARM, CHANGE),
        """\
2026-03-09 09:35:00  CHANGE 3 pending: temperature and power since 09:20:00,
    with alarm 1
    temperature  from 65.1 to 76.8
    power        from 80.9 to 109
    It becomes normal by itself once it has been stable for 24 h.
    if normal    newnormal accept plant.state --change 3
    if a fault   newnormal reject plant.state --change 3""",
    ),
    "changed, on another day": (
        Event(CHANGED, 2000, at("00:05", 10), None, replace(CHANGE, alarm=None, channels=())),
        """\
2026-03-10 00:05:00  CHANGE 3 pending: the model's weights since 2026-03-09
    09:20:00
    The model's weights have moved far from the accepted ones.
    It becomes normal by itself once it has been stable for 24 h.
    if normal   newnormal accept plant.state --change 3
    if a fault  newnormal reject plant.state --change 3""",
    ),
    "standing still": (
        Event(CHANGED, 575, at("09:35"), None, STILL),
        """\
2026-03-09 09:35:00  CHANGE 3 pending: temperature stands still at 76.8 °C since
    09:20:00
    temperature  at 76.8 °C
    It becomes normal by itself once it has been stable for 24 h.
    if normal    newnormal accept plant.state --change 3
    if a fault   newnormal reject plant.state --change 3""",
    ),
    "accepted": (
        Event(ACCEPTED, 2000, at("09:35", 10), None, replace(CHANGE, state=ACCEPTED)),
        """\
2026-03-10 09:35:00  change 3 accepted: it is normal from now on
    temperature  from 65.1 to 76.8
    power        from 80.9 to 109
    to undo      newnormal undo plant.state""",
    ),
    "rejected": (
        Event(REJECTED, 600, at("10:00"), None, replace(CHANGE, state=REJECTED)),
        """\
2026-03-09 10:00:00  change 3 rejected: it stays a fault; nothing is learned
    until the stream is back""",
    ),
    "reverted": (
        Event(REVERTED, 600, at("10:00"), None, replace(CHANGE, state=REVERTED)),
        "2026-03-09 10:00:00  change 3 over: temperature and power back to normal",
    ),
    "undone": (
        Event(UNDONE, 600, at("10:00")),
        "2026-03-09 10:00:00  acceptance undone: normal is what it was before it",
    ),
    "of another version": (
        Event("split_up", 600, at("10:00"), ALARM),
        """\
2026-03-09 10:00:00  split up: temperature 77.7, expected 63.3 to 66.5; high for
    28 min; also flow, level""",
    ),
}


@pytest.mark.parametrize("name", EVENTS)
def test_each_event_in_words(name: str) -> None:
    event, text = EVENTS[name]
    assert text_of(event_note(event, STATE)) == text
    assert all(len(line) <= 80 for line in text.splitlines())


def test_of_a_rejected_change_the_acceptance_is_left_and_without_a_state_what_is_needed() -> None:
    assert text_of(event_note(EVENTS["changed"][0], Deciding())).splitlines()[4:] == [
        "    It stays pending until the stream is back or you decide. To decide, start",
        "    watch with --state.",
    ]
    assert event_note(EVENTS["accepted"][0]).commands == ()
    assert STATE.about_change(replace(CHANGE, state=REJECTED)) == (
        ("if normal", "newnormal accept plant.state --change 3"),
    )


def test_a_stream_of_a_fleet_is_named_first_and_in_its_commands() -> None:
    deciding = Deciding("my fleet", "web 1", "24 h")
    note = event_note(EVENTS["changed"][0], deciding)
    assert note.commands[0][1] == "newnormal accept 'my fleet' 'web 1' --change 3"
    assert text_of(event_note(EVENTS["missing values"][0], deciding), 80, "web 1", 7) == (
        "web 1    2026-03-09 12:05:00  ALARM 5 opened: flow missing since 11:40:00"
    )


def test_times_are_of_the_stream_s_zone_and_samples_stand_for_them() -> None:
    zoned = replace(ALARM, zone="Europe/Berlin", evidence=())
    note = event_note(Event(OPENED, 563, at("09:23"), zoned, zone="Europe/Berlin"))
    assert (note.when, note.text[-14:]) == ("2026-03-09 10:23:00+01:00", "since 10:20:00")
    timeless = replace(ALARM, start_time=None, end_time=None, evidence=())
    note = event_note(Event(UPDATED, 1_587, None, timeless))
    assert note.when == "sample 1,587"
    assert note.text.endswith("since sample 560, for 28 samples")


def test_evidence_says_what_is_known() -> None:
    known = (
        Evidence("a", None, 3.0, 2.0, 4.0),
        Evidence("b", 5.0),
        Evidence("c", 5.0, None, 1.0, 2.0),
        Evidence("d", None),
    )
    note = event_note(Event(OPENED, 560, at("09:20"), replace(ALARM, evidence=known)))
    assert note.text == "a and d missing, b unusual, c high"
    assert note.lines == (
        ("a", "missing, expected 3 (2 to 4)"),
        ("b", "5"),
        ("c", "5, expected 1 to 2"),
    )


@pytest.mark.parametrize(
    ("ways", "heading"),
    [
        (["with b", "with a"], "a and b are not usual together"),
        (["with b and c", "changes", "with a and b"], "a and c unusual, b changes"),
        (["does not follow b", "with a"], "a does not follow b"),
        (["changes", "with a"], "a changes, b is not usual together with a"),
    ],
)
def test_what_is_unusual_together_is_said_once(ways: list[str], heading: str) -> None:
    parts = [
        Evidence(
            name, 1.0, 1.0, 0.0, 2.0, unusual=way.replace("with", "is not usual together with")
        )
        for name, way in zip("abc", ways, strict=False)
    ]
    assert unusual_text(replace(ALARM, evidence=tuple(parts))) == heading


def test_incidents_name_their_streams() -> None:
    incident = Incident(
        1,
        0,
        at("14:00"),
        5,
        at("14:05"),
        {f"web-{i}": i for i in range(1, 15)},
        sentence="Alarms opened in 14 of 20 streams within 5 min: web-1, web-2 and 12 more.",
    )
    note = incident_event_note(IncidentEvent(INCIDENT, incident))
    assert text_of(note, 100, "", 6).startswith(
        "        2026-03-09 14:05:00  INCIDENT 1: Alarms opened in 14 of 20 streams within 5 min:"
    )
    assert note.lines[0][1].endswith("web-11 alarm 11, web-12 alarm 12 and 2 more")
    ended = incident_event_note(IncidentEvent(INCIDENT_ENDED, replace(incident, open=False)))
    assert text_of(ended) == (
        "2026-03-09 14:05:00  incident 1 ended: no further alarm opened; it has alarms of\n"
        "    14 streams"
    )


def test_names_cannot_steer_the_terminal_and_commands_are_not_broken() -> None:
    evil = replace(ALARM, evidence=(Evidence("a\x1b[2Jb\nc", 1.0, 0.0, 0.0, 0.5),))
    text = text_of(event_note(Event(OPENED, 560, at("09:20"), evil)))
    assert "\x1b" not in text
    assert text.splitlines()[1] == r"    a\x1b[2Jb\nc  1, expected 0 (0 to 0.5)"
    long = Deciding("folder/" * 20 + "plant.state", accept_after=None)
    lines = text_of(event_note(EVENTS["changed"][0], long), 60).splitlines()
    assert lines[-1].endswith("plant.state --change 3")
    assert all(len(line) <= 60 for line in lines[:-2])


def test_wide_characters_are_aligned_by_the_cells_they_take() -> None:
    evidence = (Evidence("温度", 1.0, 0.0, 0.0, 0.5), Evidence("flow", 1.0, 0.0, 0.0, 0.5))
    note = event_note(Event(OPENED, 560, at("09:20"), replace(ALARM, evidence=evidence)))
    assert text_of(note).splitlines()[1:] == [
        "    温度  1, expected 0 (0 to 0.5)",
        "    flow  1, expected 0 (0 to 0.5)",
    ]


def test_a_file_is_appended_without_colour(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "30")
    target = tmp_path / "alarms.txt"
    for _ in range(2):
        sink = TextSink(str(target), SinkOptions())
        sink.write_events([EVENTS["reverted"][0]])
        sink.close()
    assert target.read_text() == (EVENTS["reverted"][1] + "\n") * 2


def test_the_status_line_counts_what_is_open(capsys: pytest.CaptureFixture[str]) -> None:
    console = Console(width=60, height=25, force_terminal=True, color_system=None)
    line = StatusLine(console, [("", CHANGE)])
    line.count(1_000, at("10:00"), None)
    line.draw()
    first = capsys.readouterr().out
    assert first == "\r\x1b[Kwatching: 1 change open, 1,000 samples, last 2026-03-09 …"
    line.count(1, at("10:01"), None)
    line.clear()
    line.clear()
    assert capsys.readouterr().out == "\r\x1b[K"
    for event in (EVENTS["opened"][0], EVENTS["changed"][0], EVENTS["a gap"][0]):
        line.note("", event)
    line.draw()
    assert line.text() == (
        "watching: 2 alarms and 1 change open, 1,001 samples, last 2026-03-09 10:01:00"
    )
    for event in (EVENTS["closed"][0], EVENTS["reverted"][0]):
        line.note("", event)
    assert line.text().startswith("watching: 1 alarm open, ")
    line.note("", Event(CLOSED, 711, at("12:06"), GAP))
    assert line.text().startswith("watching: nothing open, ")


def test_a_name_that_is_longer_than_a_line_stays_as_it_is() -> None:
    name = 'node_cpu{host="web-01.example.internal",job="node",mode="iowait",cpu="13"}'
    alarm = replace(ALARM, evidence=(Evidence(name, 77.7, 64.9, 63.3, 66.5),))
    for width in (30, 40, 60):
        lines = text_of(event_note(Event(OPENED, 560, at("09:20"), alarm)), width).splitlines()
        assert max(map(len, lines)) <= width
        joined = "".join(line.strip() for line in lines)
        assert joined.count(name) == 2, f"{width}: {joined}"


def test_of_a_change_of_many_channels_the_first_are_shown_and_all_of_one_in_full() -> None:
    names = tuple(f"sensor {each:03}" for each in range(80))
    many = replace(
        CHANGE, channels=names, before=dict.fromkeys(names, 1.0), after=dict.fromkeys(names, 9.0)
    )
    lines = text_of(event_note(Event(CHANGED, 575, at("09:35"), change=many), STATE)).splitlines()
    assert len(lines) == 14 and "    sensor 007  from 1 to 9" in lines
    assert lines[10] == "    and 72 channels more"
    assert text_of(change_note(many, STATE)).count("from 1 to 9") == 8
    assert text_of(change_note(many, STATE, full=True)).count("from 1 to 9") == 80
    large = replace(many, before=dict.fromkeys(many.before, 5147.0))
    assert text_of(change_note(large, STATE)).count("from 5,147 to 9") == 8


def test_a_change_that_is_over_has_the_levels_that_it_had() -> None:
    assert text_of(change_note(replace(CHANGE, state=REVERTED), STATE)) == (
        "2026-03-09 09:20:00  change 3: temperature and power moved, with alarm 1; the\n"
        "    stream came back by itself\n"
        "    temperature  from 65.1 to 76.8\n"
        "    power        from 80.9 to 109"
    )


def test_commands_can_be_pasted_whatever_a_stream_is_called() -> None:
    for name in ("web 1", "-dash", "--open", "</b>", "a'b", "$HOME", ""):
        words = shlex.split(Deciding("my.fleet", name).command("accept", "change", 3))
        assert words[:2] == ["newnormal", "accept"]
        options = words[2:]
        if name.startswith("-"):
            options = ["my.fleet", *words[words.index("--") + 2 :], *words[2 : words.index("--")]]
        assert options == ["my.fleet", name, "--change", "3"]
