"""The picture of a fleet: a row a stream, those that need attention first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeGuard

from newnormal.plots.style import Style
from newnormal.types import Verdicts

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["is_fleet", "overview"]


class FleetVerdicts(Protocol):
    """The verdicts of several streams, by their names."""

    def __iter__(self) -> Iterator[str]: ...
    def __getitem__(self, stream: str) -> Verdicts: ...


def is_fleet(found: Any) -> TypeGuard[FleetVerdicts]:
    """Whether these are the verdicts of a fleet, which a layer above knows."""
    return hasattr(found, "incidents") and hasattr(found, "streams")


def overview(
    found: FleetVerdicts, style: Style, name: str, streams: int | Sequence[str] | None
) -> Figure:
    raise NotImplementedError
