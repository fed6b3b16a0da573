"""The page and its files: read from the package, with an ETag each."""

import hashlib
import re
from importlib.resources import files
from importlib.resources.abc import Traversable

from fastapi import APIRouter, Request
from fastapi.responses import Response

from newnormal.service.api.problems import HttpProblem

# Where a file of this name is looked for, in this order.
_FOLDERS = ("service/page", "page", "vendor/uplot")
_KINDS = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".webmanifest": "application/manifest+json",
}
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,80}")

# Scripts set styles through the object model, which the policy allows; no attribute has any.
CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; "
    "connect-src 'self'; img-src 'self' data:; font-src 'self'; manifest-src 'self'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
)

router = APIRouter(include_in_schema=False)


@router.api_route("/", methods=["GET", "HEAD"])
async def page(request: Request) -> Response:
    """Return the page."""
    return _file(request, "index.html")


@router.api_route("/static/{name}", methods=["GET", "HEAD"])
async def static(request: Request, name: str) -> Response:
    """Return a file of the page."""
    return _file(request, name)


def _file(request: Request, name: str) -> Response:
    kind = _KINDS.get(name[name.rfind(".") :] if "." in name else "")
    file = _located(name) if kind is not None and _NAME.fullmatch(name) else None
    if file is None or kind is None:
        raise HttpProblem(404, f"expected a file of the page, found {name!r}", "the page is at /")
    body = file.read_bytes()
    tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    headers = {"ETag": tag, "Cache-Control": "no-cache"}
    if tag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    return Response(body, 200, headers, kind)


def _located(name: str) -> Traversable | None:
    package = files("newnormal")
    for folder in _FOLDERS:
        file = package.joinpath(folder).joinpath(name)
        if file.is_file():
            return file
    return None
