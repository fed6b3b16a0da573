"""Routes of models: listed, fitted anew, restored, put in and taken out."""

from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from newnormal.errors import InputError
from newnormal.io.decoders.base import check_name
from newnormal.service.api import schemas
from newnormal.service.api.bodies import body_of, check_encoding, gunzip, lease_of, read_body
from newnormal.service.api.parameters import OPERATES, READS, AStream, TheService, Threads
from newnormal.service.api.problems import HttpProblem, problem_of
from newnormal.service.api.schemas import gives
from newnormal.service.api.shown import answer, model_json
from newnormal.service.api.streams import applied

_BYTES = "application/octet-stream"

router = APIRouter(prefix="/streams", tags=["streams"])


@router.put(
    "/model",
    dependencies=OPERATES,
    responses=gives(schemas.Done),
    openapi_extra={"requestBody": {"required": True, "content": {_BYTES: {}}}},
)
async def put(
    request: Request,
    service: TheService,
    reading: Threads,
    stream: Annotated[str, Query(description="the name of the stream, which may be new")],
) -> Response:
    """Put a model that `newnormal fit` or `watch` wrote into a stream, which goes on with it."""
    check_name(stream, "stream", "address")
    limits, compressed = service.config.limits, check_encoding(request)
    with lease_of(request, 2) as lease:
        content = await read_body(request, limits.max_body, lease)
        if compressed:
            content = await reading(gunzip, content, limits.decompressed, lease)
        lease.take(3 * len(content))
        done = await reading(service.put_model, stream, content, lease.writer)
        await applied(lambda: done)
    return answer({"done": True})


@router.get("/{id}/model", dependencies=READS, responses={200: {"content": {_BYTES: {}}}})
async def take(view: AStream, service: TheService, reading: Threads) -> Response:
    """Return the model of a stream as it is now: a state file, which `newnormal.load` reads."""
    try:
        content = await reading(service.take_model, view.id)
    except InputError as error:
        raise problem_of(error, 409) from None
    return Response(content, media_type=_BYTES)


@router.get("/{id}/models", dependencies=READS, responses=gives(schemas.ModelList))
async def models(view: AStream, service: TheService, reading: Threads) -> Response:
    """List the models that a stream has had, newest first."""
    fitted = [model_json(model) for model in await reading(service.models, view.id)]
    fitted.sort(key=lambda model: -model["generation"])
    return answer({"items": fitted, "generation": view.generation})


@router.post(
    "/{id}/models/{generation}/restore", dependencies=OPERATES, responses=gives(schemas.Done)
)
async def restore(view: AStream, service: TheService, generation: int) -> Response:
    """Go back to an older model."""
    if not 0 <= generation < 2**31:
        raise HttpProblem(422, f"generation: expected a number, found {str(generation)[:40]}")
    await applied(lambda: service.restore_model(view.id, generation))
    return answer({"done": True})


@router.post(
    "/{id}/refit",
    dependencies=OPERATES,
    responses=gives(schemas.Done),
    openapi_extra=schemas.takes(schemas.Refit),
)
async def refit(
    view: AStream, service: TheService, body: Annotated[schemas.Refit, body_of(schemas.Refit)]
) -> Response:
    """Fit again, on the newest history or on the samples `first` to `last`."""
    numbers = body.model_dump(exclude_none=True)
    for name, number in numbers.items():
        if number >= view.samples:
            raise HttpProblem(
                422,
                f"{name}: expected the number of a sample of {view.name!r}, found {number}",
                f"it has {view.samples:,} samples, counted from 0",
            )
    if numbers.get("last", view.samples) < numbers.get("first", 0):
        raise HttpProblem(422, "expected first before last, found it after", "exchange them")
    await applied(lambda: service.refit(view.id, **numbers))
    return answer({"done": True})
