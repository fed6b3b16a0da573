"""Routes of login and logout."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from fastapi.responses import Response

from newnormal.service.api import schemas
from newnormal.service.api.access import COOKIE, LIFETIME, Access
from newnormal.service.api.bodies import body_of
from newnormal.service.api.problems import HttpProblem
from newnormal.service.api.schemas import gives
from newnormal.service.api.shown import answer

router = APIRouter(tags=["session"])


async def _access(request: Request) -> Access:
    access: Access = request.app.state.access
    access.check_foreign(request)
    return access


_OwnPage = Annotated[Access, Depends(_access)]


@router.get("/session", responses=gives(schemas.SessionFacts))
async def session(request: Request) -> Response:
    """Return who uses the page, and what a change must carry; nobody before a login."""
    access: Access = request.app.state.access
    return answer(_facts(request, access))


@router.post(
    "/login",
    responses=gives(schemas.SessionFacts),
    openapi_extra=schemas.takes(schemas.Login, required=True),
)
async def login(
    request: Request, access: _OwnPage, body: Annotated[schemas.Login, body_of(schemas.Login)]
) -> Response:
    """Begin a session with a token."""
    if access.open:
        return answer(_facts(request, access))
    client = request.client.host if request.client else ""
    cookie, made, role = await access.login(body.token.strip(), client)
    response = answer({"who": made.who, "role": role, "csrf": made.csrf, "login": True})
    public = request.app.state.service.config.public_url or ""
    response.set_cookie(
        COOKIE,
        cookie,
        max_age=LIFETIME,
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https" or public.startswith("https:"),
        path="/",
    )
    return response


@router.post("/logout", responses=gives(schemas.Done))
async def logout(request: Request, access: _OwnPage) -> Response:
    """End the session."""
    await access.logout(request)
    response = answer({"done": True})
    response.delete_cookie(COOKIE, path="/", httponly=True, samesite="strict")
    return response


def _facts(request: Request, access: Access) -> dict[str, Any]:
    try:
        caller = access.caller(request)
    except HttpProblem:
        return {"who": None, "role": None, "csrf": None, "login": True}
    _, current = access.session(request)
    csrf = None if current is None else current.csrf
    return {"who": caller.who, "role": caller.role, "csrf": csrf, "login": not access.open}
