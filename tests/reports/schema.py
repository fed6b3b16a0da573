"""What the data of a page must be like: each field, its type, and nothing besides."""

from typing import Any

NUMBER = (int, float)
X = (int, float)
_META = {
    "format": int,
    "version": str,
    "title": str,
    "axis": dict,
    "labelled": bool,
    "streams": list,
    "fleet": (dict, type(None)),
}
_STREAM = {
    "name": str,
    "status": str,
    "samples": int,
    "anomalous": int,
    "missing": int,
    "start": (*X, type(None)),
    "end": (*X, type(None)),
    "period": (*NUMBER, type(None)),
    "first": int,
    "channels": list,
    "alarms": list,
    "changes": list,
    "decisions": list,
    "found": (dict, type(None)),
    "labels": (list, type(None)),
    "more": dict,
    "sparkline": (dict, type(None)),
    "blocks": (list, type(None)),
}
_CHANNEL = {"name": str, "concern": NUMBER}
_ALARM = {
    "number": int,
    "cause": str,
    "open": bool,
    "reason": (str, type(None)),
    "sentence": str,
    "start": X,
    "end": X,
    "peak": X,
    "ratio": (*NUMBER, type(None)),
    "severity": int,
    "word": str,
    "labelled": (bool, type(None)),
    "samples": int,
    "since": str,
    "until": str,
    "lasted": str,
    "evidence": list,
    "shares": dict,
}
_EVIDENCE = {
    "channel": str,
    "observed": (*NUMBER, type(None)),
    "expected": (*NUMBER, type(None)),
    "low": (*NUMBER, type(None)),
    "high": (*NUMBER, type(None)),
    "direction": str,
    "unit": str,
}
_CHANGE = {
    "number": int,
    "state": str,
    "sentence": str,
    "channels": list,
    "before": dict,
    "after": dict,
    "units": dict,
    "since": str,
    "alarm": (int, type(None)),
    "steps": list,
    "end": X,
}
_BLOCK = {"per": int, "start": X, "end": X, "points": int, "detail": bool, "columns": dict}
_INCIDENT = {
    "number": int,
    "sentence": str,
    "open": bool,
    "start": X,
    "end": X,
    "count": int,
    "streams": dict,
}
_STATUS = {"in alarm", "change pending", "change rejected", "normal"}


def check_meta(meta: dict[str, Any]) -> None:
    """Raise an AssertionError unless these are data of a page, format 1."""
    _fields(meta, _META)
    assert meta["format"] == 1
    _fields(meta["axis"], {"kind": str, "zone": (str, type(None))})
    assert meta["axis"]["kind"] in ("time", "sample")
    fleet = meta["fleet"]
    if fleet is None:
        assert len(meta["streams"]) == 1
    else:
        _fields(fleet, {"streams": int, "shown": int, "incidents": list})
        assert fleet["shown"] == len(meta["streams"]) <= fleet["streams"]
        for incident in fleet["incidents"]:
            _fields(incident, _INCIDENT)
    for stream in meta["streams"]:
        _check_stream(stream, fleet is not None)


def _check_stream(stream: dict[str, Any], in_fleet: bool) -> None:
    _fields(stream, _STREAM)
    assert stream["status"] in _STATUS
    assert (stream["sparkline"] is not None) == in_fleet
    for channel in stream["channels"]:
        _fields(channel, _CHANNEL)
    concerned = [channel["concern"] > 0 for channel in stream["channels"]]
    assert concerned == sorted(concerned, reverse=True)
    for alarm in stream["alarms"]:
        _fields(alarm, _ALARM)
        for evidence in alarm["evidence"]:
            _fields(evidence, _EVIDENCE)
    for change in stream["changes"]:
        _fields(change, _CHANGE)
        assert all(isinstance(x, X) and isinstance(state, str) for x, state in change["steps"])
    for kind in ("alarms", "changes"):
        numbers = [each["number"] for each in stream[kind]]
        assert numbers == sorted(set(numbers))
    for start, end in stream["labels"] or []:
        assert start <= end
    _fields(stream["more"], {"alarms": int, "changes": int, "channels": int})
    assert all(count >= 0 for count in stream["more"].values())
    if in_fleet:
        _fields(stream["sparkline"], {"ratio": list, "alarms": list})
        assert len(stream["sparkline"]["ratio"]) <= 120
    _check_blocks(stream)


def _check_blocks(stream: dict[str, Any]) -> None:
    levels_over = False
    per = None
    for block in stream["blocks"] or []:
        _fields(block, _BLOCK)
        assert block["start"] <= block["end"]
        if block["detail"]:
            levels_over = True
            assert block["per"] == 1
        else:
            assert not levels_over and (per is None or block["per"] < per)
            per = block["per"]
            assert (block["start"], block["end"]) == (stream["start"], stream["end"])
            assert block["points"] == -(-stream["samples"] // per)
        for name, column in block["columns"].items():
            _fields(column, {"at": int, "base": NUMBER})
            kind, _, channel = name.partition(":")
            if channel:
                single = ("below", "above") if block["per"] == 1 else ("high", "least", "most")
                assert kind in ("low", "expected", "ratio", *single)
                assert int(channel) < len(stream["channels"])
            else:
                assert kind in ("x", "ratio")
        assert (block["per"] > 1) == any(name.startswith("high") for name in block["columns"])


def _fields(found: dict[str, Any], wanted: dict[str, Any]) -> None:
    assert set(found) == set(wanted), set(found) ^ set(wanted)
    for name, kind in wanted.items():
        kinds = kind if isinstance(kind, tuple) else (kind,)
        assert type(found[name]) in kinds, (name, found[name])
