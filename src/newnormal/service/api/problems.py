"""What goes wrong with a request, as an answer: a status, a sentence, and what to do."""

import logging
from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException

from newnormal.errors import FeedbackError, NewnormalError, StateError

_LOGGER = logging.getLogger("newnormal.service")
_LONGEST = 300  # characters of a sentence: what was sent is repeated in part only


class HttpProblem(Exception):  # noqa: N818 - it is an answer
    """A request that is refused.

    `status`: of HTTP, 4xx; 503 where the same request may succeed later. `error`: a sentence: what
    was expected and what was found. `hint`: what to do about it. `headers`: besides the usual ones.
    """

    def __init__(
        self,
        status: int,
        error: str,
        hint: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(error)
        self.status = status
        self.error = error
        self.hint = hint
        self.headers = dict(headers or {})


def problem_answer(problem: HttpProblem) -> Response:
    """Return a problem as JSON: `error` and `hint`."""
    body = {"error": _short(problem.error), "hint": _short(problem.hint or "")}
    return JSONResponse(body, problem.status, problem.headers)


def problem_of(error: NewnormalError, status: int = 400) -> HttpProblem:
    """Return an error of newnormal as a problem.

    An error may say its status itself, in an attribute `status`, and with it after how many
    seconds to try again, in `retry_after`.
    """
    own_status = getattr(error, "status", None)
    if isinstance(own_status, int):
        status = own_status
    elif isinstance(error, StateError):  # a full disk, most often
        status = 503
    elif isinstance(error, FeedbackError):
        status = 409
    headers = {}
    if status in (429, 503):
        headers["Retry-After"] = str(max(1, round(getattr(error, "retry_after", 1))))
    return HttpProblem(status, error.message, error.hint, headers)


def answer_problems(app: FastAPI) -> None:
    """Answer everything that goes wrong in an app with JSON."""

    async def handle(request: Request, error: Exception) -> Response:
        return problem_answer(_problem(request, error))

    for kind in (HttpProblem, NewnormalError, RequestValidationError, HTTPException, Exception):
        app.add_exception_handler(kind, handle)


def _problem(request: Request, error: Exception) -> HttpProblem:
    match error:
        case HttpProblem():
            return error
        case NewnormalError():
            return problem_of(error)
        case RequestValidationError():
            return _of_validation(error.errors())
        case HTTPException():
            return _of_http(request, error)
    _LOGGER.error("%s %s: %r", request.method, request.scope["path"], error)
    return HttpProblem(
        500,
        "the service failed to answer; the request may have had no effect",
        "its log has the reason: please report it",
    )


def _of_validation(errors: Any) -> HttpProblem:
    first: dict[str, Any] = errors[0] if errors else {"msg": "another request"}
    path = [str(part) for part in first.get("loc", ()) if part not in ("query", "path", "body")]
    name = ".".join(path) or "request"
    message = str(first.get("msg", "")).rstrip(".")
    if first.get("type") == "json_invalid":
        return HttpProblem(400, f"expected a body of JSON, found other text: {message}")
    message = message.removeprefix("Input should be ").removeprefix("String should have ")
    message = message.replace("a valid string", "text")
    value = _short(repr(first["input"]), 60) if "input" in first else "another"
    if first.get("type") == "missing":
        message, value = "a value", "none"
    return HttpProblem(
        422,
        f"{name}: expected {message[:1].lower() + message[1:]}, found {value}",
        "api/v1/openapi.json describes every parameter",
    )


def _of_http(request: Request, error: HTTPException) -> HttpProblem:
    headers = dict(error.headers or {})
    path = _short(request.scope["path"], 100)
    if error.status_code == 404:
        return HttpProblem(
            404,
            f"expected an address of this service, found {path!r}",
            "api/v1/openapi.json lists them",
        )
    if error.status_code == 405:
        allowed = headers.get("Allow", headers.get("allow", ""))
        return HttpProblem(
            405,
            f"{path}: expected {allowed or 'another method'}, found {_short(request.method, 20)}",
            "api/v1/openapi.json lists the methods of each address",
            headers,
        )
    return HttpProblem(error.status_code, str(error.detail), None, headers)


def _short(text: str, most: int = _LONGEST) -> str:
    """Return text that UTF-8 can hold, cut where it is long."""
    text = text.encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= most else text[: most - 3] + "..."
