"""The configuration as people may see it: no token, no hash, no option of a connection."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

from newnormal.service.api.shown import finite
from newnormal.service.demo import MACHINES, SPEED

_PLAIN = ("streams", "limits", "retention")
_KEPT = (
    "host",
    "port",
    "public_url",
    "insecure",
    "workers",
    "checkpoint_every",
    "service_alarms_per_day",
    "demo",
)


def settings_json(config: Any) -> dict[str, Any]:
    """Return what of a configuration is no secret: only what is named here is shown.

    Options of sinks and sources may be secrets, or addresses with one inside.
    """
    found = {name: getattr(config, name, None) for name in _KEPT}
    for name in _PLAIN:
        found[name] = _values(getattr(config, name, None))
    found["overrides"] = [
        {"match": each.match, "given": dict(each.given)}
        for each in getattr(config, "overrides", ())
    ]
    found["tokens"] = [{"name": each.name, "role": each.role} for each in config.tokens]
    for name in ("sinks", "sources"):
        found[name] = [{"name": e.name, "kind": e.kind} for e in getattr(config, name)]
    # Machines of the demo live faster than those who look at them.
    found["simulated"] = (
        {"machines": len(MACHINES), "minutes_a_second": SPEED} if found["demo"] else None
    )
    return dict(finite(found))


def _values(value: Any) -> Any:
    if value is None:
        return None
    named: Mapping[str, Any]
    if is_dataclass(value):
        named = {each.name: getattr(value, each.name) for each in fields(value)}
    else:
        named = vars(value)
    return {k: str(v) if isinstance(v, Path) else v for k, v in named.items()}
