"""Files that one process holds at a time."""

import subprocess
import sys
from pathlib import Path

import pytest

from newnormal.locks import LockFile, content_of, is_held, opened_alone

HOLD = """
import sys
from pathlib import Path
from newnormal.locks import LockFile
lock = LockFile(Path(sys.argv[1]))
print(lock.acquire(), flush=True)
lock.write(b"mine")
print("written", flush=True)
sys.stdin.read()
"""


def test_a_file_is_held_until_its_process_ends(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    own = LockFile(path)
    assert is_held(path) is False and not path.exists()
    other = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert other.stdout is not None
    assert [other.stdout.readline() for _ in range(2)] == ["True\n", "written\n"]
    assert is_held(path) is True
    assert own.acquire() is False
    assert content_of(path) == b"mine"
    other.kill()
    other.communicate()
    assert is_held(path) is False
    assert content_of(path) == b"mine"
    assert own.acquire() is True


def test_what_is_written_replaces_what_was_there_and_is_left_or_removed(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    for remove in (False, True):
        lock = LockFile(path)
        assert lock.acquire()
        lock.write(b"a longer text")
        lock.write(b"short")
        assert path.read_bytes() == b"\nshort", "the first byte is the lock's"
        lock.release(remove=remove)
        assert path.exists() is not remove
    with pytest.raises(FileNotFoundError):
        content_of(path)


def test_a_file_that_was_removed_by_its_owner_is_made_again(tmp_path: Path) -> None:
    path = tmp_path / "queue"
    with opened_alone(path):
        path.unlink()
    with opened_alone(path):
        assert path.exists()
        assert is_held(path) is True
