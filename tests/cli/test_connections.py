"""Connections of the service that send nothing, and too many of them."""

import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from newnormal.cli.serving import connection_kind, room_for_connections
from tests.waiting import until

uvicorn = pytest.importorskip("uvicorn")
_REQUEST = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


async def answer(scope: Any, receive: Any, send: Any) -> None:
    del scope, receive
    headers = [(b"content-length", b"2")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"ok"})


@contextmanager
def served(most: int, patience: float) -> Iterator[tuple[str, int]]:
    """Give the address of a server with these limits."""
    config = uvicorn.Config(
        answer, http=connection_kind(most, patience), lifespan="off", log_config=None
    )
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as port:
        thread = threading.Thread(target=server.run, args=([port],), daemon=True)
        thread.start()
        try:
            yield port.getsockname()
        finally:
            server.should_exit = True
            thread.join()


def received(connection: socket.socket) -> bytes:
    """Return what comes up to the end of an answer; nothing once the other side has closed."""
    found = b""
    try:
        while not found.endswith(b"ok") and (more := connection.recv(1000)):
            found += more
    except ConnectionResetError:
        return b""
    return found


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nHost:"])
def test_a_connection_without_a_request_is_closed(sent: bytes) -> None:
    with served(10, 0.05) as address, socket.create_connection(address, 20) as connection:
        connection.sendall(sent)
        assert received(connection) == b""


def test_a_connection_is_closed_some_time_after_its_last_answer() -> None:
    with served(10, 0.05) as address, socket.create_connection(address, 20) as connection:
        connection.sendall(_REQUEST)
        assert received(connection).endswith(b"ok")
        assert received(connection) == b""


def test_one_connection_too_many_is_closed_and_there_is_room_once_another_ended() -> None:
    with served(3, 600.0) as address, ExitStack() as stack:
        kept = [stack.enter_context(socket.create_connection(address, 20)) for _ in range(3)]
        for each in kept:
            each.sendall(_REQUEST)
            assert received(each).endswith(b"ok")
        with socket.create_connection(address, 20) as other:
            assert received(other) == b""
        kept[0].close()

        def answered() -> bool:
            with socket.create_connection(address, 20) as other:
                try:
                    other.sendall(_REQUEST)
                except OSError:
                    return False
                return received(other).endswith(b"ok")

        until(answered, "room for another connection")


def test_connections_leave_files_for_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    resource = pytest.importorskip("resource")
    limits = [(1024, 4096)]
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits[-1])
    monkeypatch.setattr(resource, "setrlimit", lambda _, new: limits.append(new))
    assert room_for_connections() == 4096 - 150
    assert limits[-1] == (4096, 4096)
    limits.append((256, 256))
    assert room_for_connections() == 106
