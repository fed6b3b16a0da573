"""What is reported of an input or a state file that cannot be used, and what to do about it."""

import sys
from pathlib import Path
from typing import Any

import pytest

from newnormal import InputError, StateError
from newnormal.io import SourceOptions
from newnormal.io.sources.file import FileSource
from newnormal.io.sources.lines import PipeSource
from newnormal.runtime.checkpoint import input_position
from newnormal.runtime.feedback import FeedbackAct, FeedbackRequest, Queue
from newnormal.state import State
from tests.errors import raised

OPTIONS = SourceOptions(("a",))


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    assert str(raised(InputError, lambda: FileSource(str(tmp_path / "none.csv"), OPTIONS))) == (
        f"{tmp_path}/none.csv: expected a file that can be read, found: No such file or directory\n"
        "hint: give the path of a file, or - for standard input"
    )


def test_standard_input_that_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    assert str(raised(InputError, lambda: PipeSource("-", OPTIONS))) == (
        "standard input: expected lines, found it closed\n"
        "hint: pipe lines into the command, or give the path of a file"
    )


@pytest.mark.parametrize(
    ("place", "message"),
    [
        (3, "plant.nn: expected place with the kind of its input, found 3"),
        ({"line": 4}, "plant.nn: expected place with the kind of its input, found {'line': 4}"),
        (
            {"kind": "file", "feedback": [1]},
            "plant.nn: expected place.feedback as a list of keys, found [1]",
        ),
    ],
)
def test_a_place_that_is_none(place: Any, message: str) -> None:
    with pytest.raises(StateError) as caught:
        input_position(State({"place": place}, {}), Path("plant.nn"))
    hint = "hint: delete the state file to read the input from the start"
    assert str(caught.value) == f"{message}\n{hint}"


def test_feedback_that_cannot_be_written(tmp_path: Path) -> None:
    queue = Queue(tmp_path / "none" / "plant.nn", print)
    error = raised(StateError, lambda: queue.enqueue(FeedbackRequest(FeedbackAct.accept, 1)))
    assert str(error) == (
        f"cannot write {tmp_path}/none/plant.nn.feedback: No such file or directory\n"
        "hint: the folder of the state file must be writable"
    )
