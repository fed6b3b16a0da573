"""Programs in the test's own process that connectors talk to."""

from typing import Protocol, Self, TypeVar


class Closable(Protocol):
    def close(self) -> None: ...


C = TypeVar("C", bound=Closable)


class Peer:
    """Closed at the end of a `with`, after the connectors that were made for it."""

    def __init__(self) -> None:
        self._connectors: list[Closable] = []

    def closing(self, connector: C) -> C:
        """Return a connector, which is closed at the end."""
        self._connectors.append(connector)
        return connector

    def close(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for connector in self._connectors:
            connector.close()
        self.close()
