"""How the service and its parts are, for the page and for monitoring."""

import shutil
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from newnormal.engine.running import Submitted
    from newnormal.service.service import Service

_RATE_S = 10  # seconds that a rate is taken over
_WRITERS = 5  # whose names take most


class Health:
    """What the parts report of themselves."""

    def __init__(self) -> None:
        self.samples = 0  # how many closed samples there were in all
        self.recovering = 0  # the position of the log that a start has come to; 0 when it is done
        self.stopping = False  # whether the service stops
        self.checkpoint_s = 0.0  # how long the last checkpoint took
        self._parts: dict[str, tuple[bool, str]] = {}
        self._lock = threading.Lock()
        self._rates: deque[tuple[float, int]] = deque(maxlen=_RATE_S + 1)
        self._tried: Submitted | None = None

    def report(self, part: str, ok: bool, message: str = "") -> None:
        """Take note of how a part is."""
        if self._parts.get(part) != (ok, message):
            with self._lock:
                self._parts[part] = ok, message

    @property
    def writable(self) -> bool:
        """Whether the log could be written when it was tried last."""
        return self._parts.get("log", (True, ""))[0]

    def try_log(self, submit: "Callable[[], Submitted]") -> None:
        """Hand an entry in if the log cannot be written, to find out when there is room again.

        Senders who ask whether the service is ready send nothing then. The entry is tried until it
        is written.
        """
        if not self.writable and (self._tried is None or self._tried.durable.done()):
            self._tried = submit()

    def tick(self) -> None:
        """Take note of the samples so far, once a second."""
        self._rates.append((time.monotonic(), self.samples))

    @property
    def rate(self) -> float:
        """Samples a second."""
        rates = list(self._rates)
        if len(rates) < 2:
            return 0.0
        (begin, before), (end, after) = rates[0], rates[-1]
        return (after - before) / max(end - begin, 1e-9)

    def shown(self, service: "Service") -> dict[str, Any]:
        """Return all of it as JSON values."""
        with self._lock:
            reported = dict(self._parts)
        parts: dict[str, Any] = {
            name: {"ok": ok, "message": message} for name, (ok, message) in reported.items()
        }
        for name in ("log", "store"):
            parts.setdefault(name, {"ok": True, "message": ""})
        if not service.ready:
            status = "stopping" if self.stopping else "starting"
            return {"status": status, "parts": parts, "recovering": self.recovering}
        applier, fits = service.applier, service.fits
        parts["log"] |= {"bytes": service.log.size, "position": service.log.last}
        parts["store"] |= {"bytes": service.store.size, "checkpoint_s": self.checkpoint_s}
        parts["fitting"] = {
            "ok": True,
            "message": "",
            "running": fits.running,
            "waiting": fits.waiting,
        }
        for name, state in service.sources.states().items():
            part = parts.setdefault(f"source {name}", {"ok": True, "message": ""})
            part |= {"kind": state["kind"], "taken": state["samples"], "refused": state["refused"]}
        for name, counts in service.sinks.score_counts().items():
            parts.setdefault(f"sink {name}", {"ok": True, "message": ""}).update(counts)
        limits, names = service.config.limits, applier.streams.names
        memory = {
            "requests": {
                "bytes": service.bodies.taken,
                "limit": limits.memory,
                "refused": service.bodies.refused,
            },
            "names": {
                "bytes": names.total(),
                "limit": limits.names,
                "writers": dict(names.most_common(_WRITERS)),
            },
        }
        damaged = service.store.connection.damaged
        if damaged and parts["store"]["ok"]:
            parts["store"] |= {"ok": False, "message": f"{damaged[0]}: it is left out"}
        disk = shutil.disk_usage(service.config.data)
        states = Counter(stream.state for stream in applier.streams)
        rate = self.rate
        return {
            "status": "ok" if all(part["ok"] for part in parts.values()) else "degraded",
            "parts": parts,
            "position": service.log.last,
            "applied": applier.position,
            "lag_entries": service.log.last - applier.position,
            "lag_samples": service.lag,
            "lag_s": service.lag / rate if rate else 0.0,
            "memory": memory,
            "streams": dict(states),
            "samples": self.samples,
            "samples_per_s": rate,
            "subscribers": len(service.hub),
            "disk": {"total": disk.total, "free": disk.free},
        }
