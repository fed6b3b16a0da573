"""Routes of operation: health, settings, alerts, maintenance windows, metrics."""

import time
from typing import Annotated, Any

from fastapi import APIRouter
from fastapi.responses import Response

from newnormal import __version__
from newnormal.errors import ParameterError
from newnormal.service import metrics
from newnormal.service.alerts import Window, add_window, end_window, windows
from newnormal.service.api import schemas
from newnormal.service.api.bodies import body_of
from newnormal.service.api.parameters import OPERATES, READS, Operator, TheService, Threads
from newnormal.service.api.problems import HttpProblem, problem_of
from newnormal.service.api.schemas import gives
from newnormal.service.api.shown import answer, iso, nanoseconds
from newnormal.service.config import ServiceConfig
from newnormal.service.connectors import alert_sinks
from newnormal.service.demo import MACHINES, SPEED

_SHOWN = (  # settings that are no secret; options of sinks and sources may be, or have one inside
    *("host", "port", "public_url", "insecure", "workers", "checkpoint_every"),
    *("service_alarms_per_day", "demo"),
)

router = APIRouter(tags=["operation"])
root = APIRouter(tags=["operation"])


@root.head("/healthz", include_in_schema=False)
@root.get("/healthz", responses=gives(schemas.Alive))
async def healthz() -> Response:
    """Say that the process answers."""
    return answer({"status": "ok"})


@root.head("/readyz", include_in_schema=False)
@root.get("/readyz", responses=gives(schemas.Alive))
async def readyz(service: TheService) -> Response:
    """Say whether samples are taken: 503 while the service starts or stops, or its disk is full."""
    if not service.ready:
        raise HttpProblem(
            503,
            "expected a service that is ready, found one that starts or stops",
            "try again soon",
            {"Retry-After": "2"},
        )
    if not service.writable:
        raise HttpProblem(
            503,
            "expected a log that can be written, found one that cannot",
            "GET api/v1/health says why; it is tried again every second",
            {"Retry-After": "2"},
        )
    return answer({"status": "ok"})


@root.get(
    "/metrics",
    dependencies=READS,
    response_class=Response,
    responses={200: {"description": "for Prometheus", "content": {"text/plain": {}}}},
)
async def prometheus(service: TheService, reading: Threads) -> Response:
    """Return measurements of the service and of its streams, as Prometheus reads them."""
    text, kind = await reading(metrics.exposition, service)
    return Response(text, media_type=kind, headers={"Cache-Control": "no-store"})


@router.get("/health", dependencies=READS, responses=gives(schemas.HealthFacts))
async def health(service: TheService, reading: Threads) -> Response:
    """Return how every part of the service is."""
    return answer({**await reading(service.health), "version": __version__})


@router.get("/settings", dependencies=READS, responses=gives(schemas.Settings))
async def settings(service: TheService) -> Response:
    """Return the configuration, without secrets."""
    return answer({"version": __version__, **_settings(service.config)})


@router.get("/alerts", dependencies=READS, responses=gives(schemas.Alerts))
async def alerts(service: TheService, reading: Threads) -> Response:
    """Return how many alerts of each sink wait, were delivered and fail."""
    counts = await reading(service.store.outbox.counts)
    named = {sink.name: {"kind": sink.kind} for sink in alert_sinks(service.config.sinks)}
    sinks: dict[str, dict[str, Any]] = {
        name: {**named.get(name, {}), **of_sink, "oldest": iso(of_sink["oldest"] or None)}
        for name, of_sink in counts.items()
    }
    for name, facts in named.items():
        sinks.setdefault(name, {**facts, "waiting": 0, "delivered": 0, "failing": 0})
    return answer({"sinks": sinks})


@router.get("/maintenance", dependencies=READS, responses=gives(schemas.WindowList))
async def maintenance(service: TheService, reading: Threads) -> Response:
    """List maintenance windows, the one that begins last first."""
    kept = await reading(windows, service.store.settings)
    return answer({"items": [_window(window) for window in kept]})


@router.post(
    "/maintenance",
    status_code=201,
    responses=gives(schemas.WindowFacts, 201),
    openapi_extra=schemas.takes(schemas.NewWindow, required=True),
)
async def begin_maintenance(
    caller: Operator,
    service: TheService,
    reading: Threads,
    body: Annotated[schemas.NewWindow, body_of(schemas.NewWindow)],
) -> Response:
    """Make a maintenance window: alerts of items that open in it are not sent."""
    begin = time.time_ns() if body.begin is None else nanoseconds(body.begin, "begin")
    end = nanoseconds(body.end, "end")
    kept, names = service.store.settings, body.streams
    try:
        made = await reading(
            add_window, kept, begin, end, names, reason=body.reason, who=caller.who
        )
    except ParameterError as error:
        raise problem_of(error, 422) from None
    return answer(_window(made), 201)


@router.delete("/maintenance/{name}", dependencies=OPERATES, responses=gives(schemas.Done))
async def end_maintenance(service: TheService, reading: Threads, name: str) -> Response:
    """Remove a maintenance window."""
    if not await reading(end_window, service.store.settings, name):
        raise HttpProblem(
            404,
            f"expected the id of a maintenance window, found {name[:60]!r}",
            "GET api/v1/maintenance lists them",
        )
    return answer({"done": True})


def _settings(config: ServiceConfig) -> dict[str, Any]:
    """Return the configuration as people may see it: no token, no hash, no option."""
    shown: dict[str, Any] = {name: getattr(config, name) for name in _SHOWN}
    for name in ("streams", "limits", "retention"):
        shown[name] = vars(getattr(config, name))
    shown["overrides"] = [{"match": o.match, "given": dict(o.given)} for o in config.overrides]
    shown["tokens"] = [{"name": token.name, "role": token.role} for token in config.tokens]
    for name in ("sinks", "sources"):
        shown[name] = [{"name": c.name, "kind": c.kind} for c in getattr(config, name)]
    # Machines of the demo live faster than those who look at them.
    simulated = {"machines": len(MACHINES), "minutes_a_second": SPEED}
    shown["simulated"] = simulated if config.demo else None
    return shown


def _window(window: Window) -> dict[str, Any]:
    active = window.begin <= time.time_ns() < window.end
    times = {"begin": iso(window.begin), "end": iso(window.end)}
    return {**vars(window), **times, "active": active}
