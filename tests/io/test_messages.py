"""What is reported of an input that cannot be used, and what to do about it."""

import sys
from pathlib import Path

import pytest

from newnormal import InputError
from newnormal.io.sources.lines import FileInput, LineOptions, PipeInput
from tests.errors import raised

OPTIONS = LineOptions(("a",))


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    assert str(raised(InputError, lambda: FileInput(str(tmp_path / "none.csv"), OPTIONS))) == (
        f"{tmp_path}/none.csv: expected a file that can be read, found: No such file or directory\n"
        "hint: give the path of a file, or - for standard input"
    )


def test_standard_input_that_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    assert str(raised(InputError, lambda: PipeInput("-", OPTIONS))) == (
        "standard input: expected lines, found it closed\n"
        "hint: pipe lines into the command, or give the path of a file"
    )
