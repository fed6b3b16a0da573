"""Where output or state cannot be written is found before anything is read or fitted."""

import os
from pathlib import Path

import pytest

from newnormal.errors import InputError, StateError
from newnormal.state.targets import check_file, check_folder, same_file, what_is
from tests.cli.conftest import Command, Done, Plant
from tests.cli.fleets import Site


def refused(done: Done, text: str) -> None:
    """Check that a command said so, before its work."""
    assert done.returncode == 1
    assert done.stdout == ""
    assert text in done.stderr
    assert "fitting" not in done.stderr
    assert "judging" not in done.stderr
    assert "watching" not in done.stderr


def link(path: Path, to: Path) -> Path:
    path.symlink_to(to)
    return path


def test_fit_does_not_write_over_its_history(newnormal: Command, plant: Plant) -> None:
    before = plant.live.read_bytes()
    soft, hard = link(plant.folder / "soft.nn", plant.live), plant.folder / "hard.nn"
    hard.hardlink_to(plant.live)
    for target in (plant.live, plant.folder / "." / "live.csv", soft, hard):
        done = newnormal("fit", plant.live, "-o", target)
        refused(done, f"error: cannot write {target}: expected another file than {plant.live}, ")
        assert "hint: choose another name" in done.stderr
    assert plant.live.read_bytes() == before


def test_fit_replaces_a_detector_and_nothing_else(newnormal: Command, plant: Plant) -> None:
    notes = plant.folder / "notes.txt"
    notes.write_text("not to be lost\n")
    done = newnormal("fit", plant.live, "-o", notes)
    refused(done, "expected a new file or that of a detector, found another file\n")
    assert "hint: choose another name, or delete the file first" in done.stderr
    assert notes.read_text() == "not to be lost\n"
    damaged = plant.folder / "damaged.nn"
    damaged.write_bytes(plant.model.read_bytes()[:-7])
    empty = plant.folder / "empty.nn"
    empty.touch()
    options = ("--method", "m2n2", "--epochs", "1")
    for target in (plant.model, damaged, empty):
        assert newnormal("fit", plant.live, "-o", target, *options).returncode == 0
        assert newnormal("inspect", target).returncode == 0


def places(folder: Path) -> dict[Path, str]:
    """Return paths that no file can be written to, and what is said of them."""
    fifo, loop = folder / "fifo", folder / "loop"
    os.mkfifo(fifo)
    loop.symlink_to(loop)
    return {
        folder: "expected a file, found a folder",
        fifo: "expected a file, found a pipe",
        loop: "found a link that leads to itself",
        loop / "x.nn": "found a link that leads to itself",
        Path(os.devnull): "expected a file, found a device",
        folder / "none" / "x.nn": f"error: cannot write {folder / 'none' / 'x.nn'}: "
        f"found no folder {folder / 'none'}",
        folder / "plant.nn" / "x.nn": f"found a file called {folder / 'plant.nn'}",
        Path("/proc/x.nn"): "cannot write /proc/x.nn: ",
    }


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="no folder that nobody can write to")
def test_a_detector_goes_to_a_file_that_can_be_written(newnormal: Command, plant: Plant) -> None:
    for target, text in places(plant.folder).items():
        refused(newnormal("fit", plant.live, "-o", target), text)
        state = newnormal("watch", plant.model, plant.live, "--state", target)
        refused(
            state,
            f"error: cannot use {target}" if text.endswith("itself") else "error: cannot write ",
        )
    assert not list(plant.folder.glob(".*.tmp"))


def test_the_state_is_a_folder_of_its_own(newnormal: Command, plant: Plant) -> None:
    before = {path: path.read_bytes() for path in plant.folder.iterdir()}
    for target in (plant.live, plant.model, plant.folder):
        done = newnormal("watch", plant.model, plant.live, "--state", target)
        refused(done, f"cannot write {target}: expected a ")
    assert {path: path.read_bytes() for path in plant.folder.iterdir()} == before


def test_an_input_that_is_missing_leaves_no_folder(newnormal: Command, plant: Plant) -> None:
    for source in (plant.folder / "none.csv", plant.folder):
        refused(newnormal("watch", plant.model, source, "--state", plant.state), str(source))
        assert not plant.state.exists()


def test_the_output_is_no_file_that_is_read_or_written(newnormal: Command, plant: Plant) -> None:
    newnormal(*plant.watch)
    files = (plant.live, plant.model, plant.state / "log.sqlite")
    before = [path.read_bytes() for path in files]
    for path in (*files, link(plant.folder / "link", plant.live)):
        done = newnormal(*plant.watch, "-o", path)
        refused(done, "error: --output: expected another file than ")
    assert [path.read_bytes() for path in files] == before
    for name in ("none/out.jsonl", ".", "loop"):
        if name == "loop":
            link(plant.folder / name, plant.folder / name)
        done = newnormal("watch", plant.model, plant.live, "-o", plant.folder / name)
        refused(done, "error: --output: expected a file that can be written, found ")


def test_a_device_can_be_the_output(newnormal: Command, plant: Plant) -> None:
    done = newnormal("watch", plant.model, plant.live, "-o", os.devnull)
    assert (done.returncode, done.stdout) == (0, "")


def test_a_fleets_output_is_not_its_input(newnormal: Command, site: Site) -> None:
    before = site.live.read_bytes()
    done = newnormal("watch", site.fleet, site.live, "--by", "host", "-o", site.live)
    refused(done, "error: --output: expected another file than ")
    assert site.live.read_bytes() == before


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="no folder that nobody can write to")
def test_a_fleet_goes_to_a_folder_that_can_be_written(newnormal: Command, site: Site) -> None:
    folder = site.folder
    for target, text in {
        Path("/proc/x.fleet"): "write /proc/x.fleet: ",
        link(folder / "loop", folder / "loop"): f"use {folder / 'loop'}: ",
        site.live: f"write {site.live}: expected a folder, found a file",
        folder / "no" / "x": f"write {folder / 'no' / 'x'}: found no folder {folder / 'no'}",
        folder: f"write {folder}: expected a new folder or that of a fleet, found a folder with ",
    }.items():
        done = newnormal("fit", site.live, "--by", "host", "-o", target)
        refused(done, f"error: cannot {text}")


def test_a_picture_goes_to_a_file_that_can_be_written(newnormal: Command, plant: Plant) -> None:
    pytest.importorskip("matplotlib")
    folder = plant.folder / "folder.png"
    folder.mkdir()
    live = plant.folder / "live.png"
    live.write_bytes(plant.live.read_bytes())
    arguments = ("evaluate", plant.model, live, "--input-format", "csv", "--label", "a", "--plot")
    refused(newnormal(*arguments, folder), "expected a file, found a folder")
    refused(newnormal(*arguments, live), "expected another file than")
    fifo = plant.folder / "fifo.png"
    os.mkfifo(fifo)
    refused(newnormal(*arguments, fifo), "expected a file, found a pipe")


def test_results_go_to_a_folder_that_can_be_written(newnormal: Command, plant: Plant) -> None:
    done = newnormal("reproduce", "drift", "--data", plant.folder, "-o", plant.live)
    refused(done, f"cannot write {plant.live}: expected a folder, found a file called {plant.live}")
    done = newnormal("reproduce", "drift", "--data", plant.folder, "-o", plant.live / "results")
    refused(done, "expected a folder, found a file")


def test_pipes_and_loops_are_no_detectors(newnormal: Command, plant: Plant) -> None:
    fifo, loop = plant.folder / "fifo.csv", plant.folder / "loop.csv"
    os.mkfifo(fifo)
    loop.symlink_to(loop)
    for path, text in ((fifo, "a pipe"), (loop, "a link that leads to itself")):
        for arguments in (("inspect", path), ("watch", path, plant.live)):
            done = newnormal(*arguments, status=1)
            assert f"{path}: expected a file, found {text}\nhint: " in done.stderr
    # A pipe can be watched: tests/io/test_opening_sources.py.
    output = plant.folder / "x.nn"
    for reads in (
        ("fit", loop, "-o", output),
        ("score", plant.model, loop),
        ("watch", plant.model, loop),
    ):
        done = newnormal(*reads)
        assert (done.returncode, done.stdout) == (1, "")
        assert "Too many levels of symbolic links" in done.stderr


def test_the_functions(tmp_path: Path) -> None:
    file = tmp_path / "a"
    check_file(file, ["-", tmp_path / "b"])
    check_folder(tmp_path / "x" / "y")
    assert list(tmp_path.iterdir()) == []
    file.touch()
    assert same_file(file, tmp_path / "." / "a")
    assert not same_file(file, tmp_path / "b")
    assert what_is(file) is None
    with pytest.raises(InputError, match="expected another file"):
        check_file(file, [file], error=InputError)
    with pytest.raises(StateError, match="expected a folder, found a file called"):
        check_folder(file / "x")
