"""The command, for tests of what it reads and writes."""

from tests.cli.conftest import newnormal

__all__ = ["newnormal"]
