"""What sources and sinks of the service share."""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping
from typing import Any, ClassVar

from newnormal.io.options import Options


class Connector(ABC):  # noqa: B024 - those that derive from it have abstract methods
    """A source or a sink of the service, as a table of the configuration describes it.

    Parameters
    ----------
    name
        Of its table in the configuration.
    options
        The other keys of the table.

    Attributes
    ----------
    options
        `newnormal.io.Options`: take each, and then call `end`.
    """

    role: ClassVar[str] = "sink"  # what messages call it

    def __init__(self, name: str, options: Mapping[str, Any]) -> None:
        self.name = name
        self.options = Options(f"{self.role} {name}", options)

    def check(self) -> str:
        """Try the connection without sending anything; return what was found in one sentence.

        Raise an error if it could not work. What follows ``warning: `` in the sentence works and
        is likely not what people want. `newnormal serve --check` calls it.
        """
        return "not tried"

    def close(self) -> None:
        """Release what it holds. May be called twice, and while another method waits."""
        return
