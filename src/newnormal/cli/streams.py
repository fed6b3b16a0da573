"""How an input holds many streams, and what a fleet is."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from newnormal.cli.options import names
from newnormal.errors import ParameterError

if TYPE_CHECKING:
    from newnormal.tabular import Long


class StreamNaming(NamedTuple):
    """How an input holds streams."""

    by: list[str]  # the columns that name the stream; none: there is one stream, or a file a stream
    long: "Long | None"  # the columns of long lines; None for a line a sample

    @classmethod
    def of(
        cls, by: list[str] | None, long: bool, tag: str | None = None, value: str | None = None
    ) -> "StreamNaming":
        """Return them from options."""
        from newnormal.tabular import Long

        for option, column in (("--tag", tag), ("--value", value)):
            if column is not None and not long:
                raise ParameterError(
                    f"{option}: expected only with --long, found it without", hint="add --long"
                )
        return cls(names(by) or [], Long(None, tag, value) if long else None)

    def after(self, by: Sequence[str]) -> "StreamNaming":
        """Return it with the columns of names taken from how history was read, if none is given."""
        return self._replace(by=self.by or list(by))


def is_fleet(path: Path) -> bool:
    """Whether a path is a fleet's: that is a folder, and a detector of one stream is a file."""
    return path.is_dir()


def check_streams(fleet: Path, streams: StreamNaming, source: str) -> None:
    """Raise a ParameterError if an input for a fleet does not say which stream a sample is of."""
    if not streams.by and not (source != "-" and Path(source).is_dir()):
        raise ParameterError(
            f"{fleet} is a fleet: expected --by with the column that names the stream, found none",
            hint="add --by COLUMN, such as --by host",
        )


def check_one_stream(path: Path, streams: StreamNaming) -> None:
    """Raise a ParameterError if --by is given for a detector of one stream."""
    if streams.by:
        raise ParameterError(
            f"--by: expected the folder of a fleet, found {path}, which is none",
            hint="`newnormal fit HISTORY --by COLUMN -o FOLDER` makes one; "
            "leave --by out for a detector of one stream",
        )


def stream_text(name: str) -> str:
    """Return what to call a stream in a message; lines that name none are under ""."""
    return f"stream {name!r}" if name else "lines without a stream"
