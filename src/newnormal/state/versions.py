"""Versions of state files and of fleets: one list of migrations serves both.

Until the first release the version stays 1, whatever is added. From then on a file of every version
is kept in the tests, and one that was written before goes through the migrations on its way in.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

from numpy.typing import NDArray

from newnormal.errors import StateError
from newnormal.state.facts import AGAIN

VERSION = 1
_LIVE = "live."  # before the names of a stream's arrays in a file

JSONFacts: TypeAlias = dict[str, Any]
Arrays: TypeAlias = dict[str, NDArray[Any]]


class Migration(NamedTuple):
    """How what one version wrote becomes what the next one writes."""

    file: Callable[[JSONFacts, Arrays], tuple[JSONFacts, Arrays]]  # facts and tensors of a file
    arrays: Callable[[Arrays], Arrays]  # a stream's arrays by name, of a file or of a fleet


MIGRATIONS: tuple[Migration, ...] = ()  # the first one is that from version 1 to 2


def check_version(version: int, origin: str) -> None:
    """Raise a StateError if a newer newnormal wrote this."""
    if version > VERSION:
        raise StateError(
            f"{origin} has state version {version}; this newnormal reads up to version {VERSION}",
            hint="pip install --upgrade newnormal",
        )


def migrated(
    facts: JSONFacts, tensors: Mapping[str, NDArray[Any]], version: int, origin: str
) -> tuple[JSONFacts, Arrays]:
    """Return the facts and tensors of a file as the present version writes them."""
    arrays = dict(tensors)
    try:
        for step in MIGRATIONS[version - 1 :]:
            facts, arrays = step.file(facts, arrays)
            names = [name for name in arrays if name.startswith(_LIVE)]
            live = {name[len(_LIVE) :]: arrays.pop(name) for name in names}
            arrays |= {_LIVE + name: array for name, array in step.arrays(live).items()}
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise StateError(
            f"{origin} is not a state this newnormal understands: {error!r}", hint=AGAIN
        ) from error
    return facts, arrays


def migrated_arrays(arrays: Arrays, version: int) -> Arrays:
    """Return the arrays of a fleet's stream as the present version has them."""
    for step in MIGRATIONS[version - 1 :]:
        arrays = step.arrays(arrays)
    return arrays
