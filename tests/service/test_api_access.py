"""Who may do what."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import httpx
import pytest
from fastapi.routing import APIRoute

from newnormal.service.api import access
from newnormal.service.config import TokenConfig, hash_token
from newnormal.service.service import Service
from tests.service.asgi import API, Client, app_of
from tests.service.plant import ALARM, ALARMED, item, plant, stream_name
from tests.service.running import logged

ROLES = ("read", "write", "operate")
TOKENS = tuple(TokenConfig(f"a-{role}", role, hash_token(f"nn_{role}")) for role in ROLES)
PUBLIC = {
    *((method, path) for method in ("GET", "HEAD") for path in ("/", "/static/{name}")),
    *((method, path) for method in ("GET", "HEAD") for path in ("/healthz", "/readyz")),
    *(("GET", f"{API}/session"), ("POST", f"{API}/login"), ("POST", f"{API}/logout")),
}
OF_A_STREAM = f"{API}/streams/{{id}}"
OF_AN_ITEM = f"{API}/items/{{key}}"
NEEDED = {
    ("GET", "/metrics"): "read",
    ("GET", f"{API}/openapi.json"): "read",
    ("GET", f"{API}/streams"): "read",
    ("GET", f"{API}/streams/by-name/{{name:path}}"): "read",
    ("GET", OF_A_STREAM): "read",
    ("DELETE", OF_A_STREAM): "operate",
    **{("GET", f"{OF_A_STREAM}/{part}"): "read" for part in ("series", "picture", "models")},
    ("GET", f"{OF_A_STREAM}/model"): "read",
    ("PUT", f"{API}/streams/model"): "operate",
    ("POST", f"{OF_A_STREAM}/models/{{generation}}/restore"): "operate",
    **{("POST", f"{OF_A_STREAM}/{verb}"): "operate" for verb in ("refit", "undo")},
    ("POST", f"{API}/streams/history"): "operate",
    ("GET", f"{API}/items"): "read",
    ("GET", OF_AN_ITEM): "read",
    **{("POST", f"{OF_AN_ITEM}/{verb}"): "operate" for verb in ("accept", "reject", "comments")},
    **{("GET", f"{API}/{part}"): "read" for part in ("events", "events.json", "health")},
    **{("GET", f"{API}/{part}"): "read" for part in ("settings", "alerts", "maintenance")},
    ("POST", f"{API}/maintenance"): "operate",
    ("DELETE", f"{API}/maintenance/{{name}}"): "operate",
    **{("POST", f"{API}/{part}"): "write" for part in ("samples", "write")},
    **{("POST", f"/{path}"): "write" for path in ("v1/metrics", "write")},
    **{("POST", f"/api/{path}"): "write" for path in ("v2/write", "v3/write_lp")},
}


def routes() -> list[tuple[str, str]]:
    """Return method and path of every route."""
    found = []
    with plant(empty=True) as service, app_of(service) as app:
        waiting: list[Any] = [(route, "") for route in app.routes]
    while waiting:
        route, prefix = waiting.pop()
        if isinstance(route, APIRoute):
            found += [(method, prefix + route.path) for method in route.methods or ()]
            continue
        inner = getattr(route, "original_router", None) or getattr(route, "router", None)
        assert inner is not None, route
        context = getattr(route, "include_context", None)
        more = prefix + (context.prefix if context is not None else "")
        waiting += [(each, more) for each in inner.routes]
    return found


@pytest.fixture
def service() -> Iterator[Service]:
    with plant(tokens=TOKENS, host="0.0.0.0") as made:
        yield made


@pytest.fixture(scope="module")
def roles() -> Iterator[Client]:
    """A client of one service for all routes."""
    with plant(tokens=TOKENS, host="0.0.0.0") as made, Client(made) as client:
        yield client


@contextmanager
def client_of(**changes: Any) -> Iterator[Client]:
    """Give a client of a service without streams."""
    with plant(empty=True, **changes) as service, Client(service) as made:
        yield made


def path_of(template: str) -> str:
    for part, value in {
        "{name:path}": stream_name(ALARMED),
        "{id}": str(ALARMED),
        "{key}": ALARM,
        "{generation}": "1",
        "{name}": "0123456789ab",
    }.items():
        template = template.replace(part, value)
    assert "{" not in template
    return template


def bearer(role: str) -> dict[str, str]:
    return {"authorization": f"Bearer nn_{role}"}


def test_every_route_is_public_or_needs_a_role() -> None:
    assert set(routes()) == PUBLIC | set(NEEDED)


LAST_DELETE = sorted(NEEDED, key=lambda route: (route[0] == "DELETE", route))


@pytest.mark.parametrize(("method", "template"), LAST_DELETE)
def test_a_route_answers_its_roles_alone(roles: Client, method: str, template: str) -> None:
    path = path_of(template)
    if path.endswith("/events"):
        path += "?after=bad"  # else it goes on for ever
    assert roles.request(method, path).status_code == 401
    wrong = roles.request(method, path, headers={"authorization": "Bearer nn_none"})
    assert wrong.status_code == 401 and wrong.headers["www-authenticate"] == "Bearer"
    for role in ROLES:
        allowed = ROLES.index(role) >= ROLES.index(NEEDED[method, template])
        found = roles.request(method, path, headers=bearer(role))
        assert (found.status_code not in (401, 403)) == allowed, found.text
        if not allowed:
            expected = (
                f"expected a token of the role {NEEDED[method, template]}, found one of {role}"
            )
            assert found.status_code == 403 and found.json()["error"] == expected


def test_a_refused_request_changes_nothing(client: Client, service: Service) -> None:
    before = service.log.last
    body = {"stream": "a", "time": 0, "values": {"x": 1}}
    client.post(f"{API}/samples", json=body, headers=bearer("read"))
    client.delete(f"{API}/streams/17", headers=bearer("write"))
    client.post(f"{API}/items/{ALARM}/accept", headers=bearer("write"))
    assert logged(service, before) == [] and service.stream(ALARMED) is not None
    assert item(service, ALARM).open


def test_public_routes_need_no_token_and_tell_nothing(client: Client) -> None:
    for path in ("/", "/healthz", "/readyz", "/static/decode.js"):
        assert client.get(path).status_code == 200
    assert client.get(f"{API}/session").json() == {
        "who": None,
        "role": None,
        "csrf": None,
        "login": True,
    }


@pytest.mark.parametrize(
    "header", ["", "Bearer", "Bearer ", "Basic bm46cmVhZA==", "nn_read", "Bearer nn_read nn_read"]
)
def test_only_a_bearer_token_that_is_known_counts(client: Client, header: str) -> None:
    found = client.get(f"{API}/streams", headers={"authorization": header})
    assert found.status_code == 401 and found.json()["hint"]


def test_a_token_of_the_store_counts_until_it_is_revoked(
    client: Client, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access, "_STALE", 0.0)
    headers = {"authorization": "Bearer nn_stored"}
    assert client.get(f"{API}/streams", headers=headers).status_code == 401
    service.store.settings.put(
        "tokens", "stored", {"role": "read", "hash": hash_token("nn_stored")}
    )
    assert client.get(f"{API}/streams", headers=headers).status_code == 200
    service.store.settings.delete("tokens", "stored")
    assert client.get(f"{API}/streams", headers=headers).status_code == 401


def test_without_a_token_an_address_that_others_reach_answers_nobody() -> None:
    with client_of(host="0.0.0.0") as client:
        assert client.get(f"{API}/streams").status_code == 401
    with client_of(host="0.0.0.0", insecure=True) as client:
        assert client.get(f"{API}/streams").status_code == 200


# --- sessions


def login(client: Client, role: str = "operate") -> dict[str, str]:
    found = client.post(f"{API}/login", json={"token": f"nn_{role}"})
    assert found.status_code == 200, found.text
    return {"x-csrf-token": found.json()["csrf"], "origin": client.base_url, "x-newnormal": "page"}


def test_a_login_gives_a_cookie_that_scripts_and_other_sites_do_not_get(client: Client) -> None:
    found = client.post(f"{API}/login", json={"token": "nn_operate"})
    cookie = found.headers["set-cookie"]
    assert re.match(r"newnormal_session=[\w-]{43}; ", cookie)
    assert "HttpOnly" in cookie and "SameSite=strict" in cookie and "Path=/" in cookie
    assert "Secure" not in cookie
    assert {k: found.json()[k] for k in ("who", "role", "login")} == {
        "who": "a-operate",
        "role": "operate",
        "login": True,
    }
    assert client.get(f"{API}/session").json()["csrf"] == found.json()["csrf"]


def test_the_cookie_is_for_https_alone_where_the_page_is_reached_by_it() -> None:
    with client_of(tokens=TOKENS, public_url="https://watch.example") as client:
        found = client.post(f"{API}/login", json={"token": "nn_read"})
        assert "Secure" in found.headers["set-cookie"]


def test_a_session_reads_and_changes_with_its_csrf_token_alone(client: Client) -> None:
    headers = login(client)
    assert client.get(f"{API}/streams").status_code == 200
    for missing in ({}, {"x-csrf-token": "x"}, {"x-csrf-token": b"\xe9"}):
        sent = {"origin": client.base_url, "x-newnormal": "page", **missing}
        refused = client.post(f"{API}/items/{ALARM}/accept", headers=sent)
        assert refused.status_code == 403 and "X-CSRF-Token" in refused.json()["error"]
    assert client.post(f"{API}/items/{ALARM}/accept", headers=headers).status_code == 200


def test_a_session_has_the_role_of_its_token(client: Client) -> None:
    headers = login(client, "read")
    found = client.post(f"{API}/items/{ALARM}/accept", headers=headers)
    assert found.status_code == 403 and "role operate" in found.json()["error"]


def test_a_logout_ends_the_session_for_the_cookie_too(client: Client) -> None:
    headers = login(client)
    cookie = client.client.cookies["newnormal_session"]
    assert client.post(f"{API}/logout", headers=headers).status_code == 200
    assert "newnormal_session" not in client.client.cookies
    stolen = {"cookie": f"newnormal_session={cookie}"}
    assert client.get(f"{API}/streams", headers=stolen).status_code == 401


def test_a_session_outlives_a_restart_without_cookies(client: Client, service: Service) -> None:
    login(client)
    cookie = client.client.cookies["newnormal_session"]
    assert cookie not in repr(service.store.settings.all("sessions"))
    with Client(service) as other:
        sent = {"cookie": f"newnormal_session={cookie}"}
        assert other.get(f"{API}/streams", headers=sent).status_code == 200


def test_a_session_ends_with_its_token_and_after_a_week(
    client: Client, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    login(client)
    now = [0.0]
    known = client.app.state.access
    clock = known._clock
    monkeypatch.setattr(known, "_clock", lambda: clock() + now[0])
    assert client.get(f"{API}/streams").status_code == 200
    now[0] = 7 * 86_400 + 1
    assert client.get(f"{API}/streams").status_code == 401
    now[0] = 0
    service.config = replace(service.config, tokens=TOKENS[:2])
    refused = client.get(f"{API}/streams")
    assert refused.status_code == 401 and "revoked" in refused.json()["error"]


def test_sessions_are_limited_in_number(
    client: Client, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access, "_MOST_SESSIONS", 3)
    for _ in range(5):
        client.client.cookies.clear()
        login(client)
    assert len(service.store.settings.all("sessions")) == 3
    assert client.get(f"{API}/streams").status_code == 200


def test_logins_that_fail_are_limited_by_client(client: Client) -> None:
    for _ in range(10):
        refused = client.post(f"{API}/login", json={"token": "nn_wrong"})
        assert refused.status_code == 401
    refused = client.post(f"{API}/login", json={"token": "nn_operate"})
    assert refused.status_code == 429 and int(refused.headers["retry-after"]) > 200
    other = client.another("10.0.0.7")
    found = client.runner.run(other.post(f"{API}/login", json={"token": "nn_operate"}))
    client.runner.run(other.aclose())
    assert found.status_code == 200


@pytest.mark.parametrize("body", [{}, {"token": ""}, {"token": 5}, {"token": "a" * 1001}])
def test_a_login_needs_a_token(client: Client, body: Any) -> None:
    refused = client.post(f"{API}/login", json=body)
    assert refused.status_code == 422 and "aaa" not in refused.text


# --- other sites


@pytest.fixture(scope="module")
def local() -> Iterator[Client]:
    with client_of() as made:
        yield made


SAMPLE = b'{"stream": "a", "time": 0, "values": {"x": 1}}'


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),  # a program
        ({"content-type": "text/csv"}, 400),  # read as CSV, and not refused before
        ({"origin": "http://127.0.0.1:8765", "content-type": "application/json"}, 200),
        ({"origin": "http://127.0.0.1:8765", "x-newnormal": "1"}, 200),
        (
            {"origin": "http://127.0.0.1:8765", "sec-fetch-site": "same-origin", "x-newnormal": ""},
            200,
        ),
        ({"origin": "http://127.0.0.1:8765", "content-type": "text/plain"}, 403),
        ({"origin": "http://127.0.0.1:8766", "content-type": "application/json"}, 403),
        ({"origin": "http://localhost:8765", "content-type": "application/json"}, 403),
        ({"origin": "https://evil.example", "x-newnormal": "1"}, 403),
        ({"origin": "null", "x-newnormal": "1"}, 403),
        ({"origin": "http://[", "x-newnormal": "1"}, 403),
        ({"sec-fetch-site": "cross-site", "x-newnormal": "1"}, 403),
        ({"sec-fetch-site": "same-site", "x-newnormal": "1"}, 403),
        ({"sec-fetch-site": "none", "content-type": "text/plain"}, 403),
    ],
)
def test_requests_of_other_sites_fail(local: Client, headers: dict[str, str], status: int) -> None:
    found = local.post(f"{API}/samples", content=SAMPLE, headers=headers)
    assert found.status_code == status, found.text


def test_what_a_page_of_another_site_reads_is_refused(local: Client) -> None:
    found = local.get(f"{API}/streams", headers={"sec-fetch-site": "cross-site"})
    assert found.status_code == 403
    assert "page of another site" in found.json()["error"]


def test_the_page_behind_a_proxy_changes_things_by_its_public_address() -> None:
    with client_of(public_url="https://watch.example") as client:
        sent = {"origin": "https://watch.example", "x-newnormal": "1"}
        assert client.post(f"{API}/samples", content=SAMPLE, headers=sent).status_code == 200


@pytest.fixture(scope="module")
def named() -> Iterator[Client]:
    """A client of a service that has names."""
    url = "https://watch.example:8443/x"
    with client_of(allowed_hosts=("plant.example",), public_url=url) as made:
        yield made


@pytest.mark.parametrize(
    ("host", "status"),
    [
        *((host, 200) for host in ("127.0.0.1:8765", "127.0.0.1", "localhost:1", "LOCALHOST")),
        *((host, 200) for host in ("[::1]:8765", "plant.example:8765", "watch.example")),
        ("10.1.2.3", 200),  # figures cannot be pointed anywhere
        *((f"{name}evil.example", 421) for name in ("", "127.0.0.1.", "localhost@")),
        *((host, 421) for host in ("localhost.evil.example:8765", "evil.example/localhost")),
        *((host, 421) for host in ("localhost:port", "", "[::1", "a" * 5000)),
    ],
)
def test_a_name_that_was_pointed_at_this_machine_is_refused(
    named: Client, host: str, status: int
) -> None:
    for path in ("/", f"{API}/streams", "/metrics"):
        assert named.get(path, headers={"host": host}).status_code == status
    assert named.get("/healthz", headers={"host": host}).status_code == 200


def test_with_tokens_any_host_will_do_unless_some_are_named(client: Client) -> None:
    sent = {"host": "newnormal.internal:8765", **bearer("read")}
    assert client.get(f"{API}/streams", headers=sent).status_code == 200
    with client_of(tokens=TOKENS, allowed_hosts=("plant.example",)) as other:
        assert other.get(f"{API}/streams", headers=sent).status_code == 421


def test_no_answer_lets_another_origin_read_it(local: Client) -> None:
    found = local.request("OPTIONS", f"{API}/streams", headers={"origin": "https://evil.example"})
    assert found.status_code == 405
    for answer in (found, local.get(f"{API}/streams")):
        assert not [name for name in answer.headers if name.startswith("access-control")]


def test_a_token_is_in_no_answer_and_no_log(client: Client, caplog: Any) -> None:
    texts: list[httpx.Response] = [
        client.get(f"{API}/settings", headers=bearer("operate")),
        client.get(f"{API}/health", headers=bearer("operate")),
        client.get("/metrics", headers=bearer("operate")),
        client.get(f"{API}/streams?cursor=nn_operate", headers=bearer("read")),
    ]
    for found in texts[:3]:
        assert "nn_operate" not in found.text and hash_token("nn_operate") not in found.text
    assert "nn_operate" not in caplog.text
