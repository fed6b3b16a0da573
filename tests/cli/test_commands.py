"""The other commands: what they print, what they refuse, and in which words."""

import json
import sys
from pathlib import Path

import pytest

from newnormal import M2N2, Detector, __version__, datasets, load
from newnormal.tabular import read
from tests.cli.conftest import CHANGE, Command, Plant, cut, labelled, rows

SPIKES = [at for at in range(400) if (900 + at) % 97 == 50]


def test_fit_writes_what_python_would(plant: Plant, newnormal: Command) -> None:
    history = plant.write(["time,a,b,c", *rows(300)], plant.folder / "history.csv")
    model = plant.folder / "mine.nn"
    options = ("--method", "m2n2", "--window", 6, "--half-life", "2h", "--seed", 3)
    done = newnormal("fit", history, "-o", model, *options, status=0)
    assert f"next: newnormal watch {model} LIVE.csv" in done.stderr
    assert done.stdout == ""
    twin = plant.folder / "twin.nn"
    M2N2(window=6, half_life="2h", seed=3).fit(read(history)).save(twin)
    assert model.read_bytes() == twin.read_bytes()


def test_fit_takes_a_threshold_as_a_score(plant: Plant, newnormal: Command) -> None:
    model = plant.folder / "mine.nn"
    newnormal("fit", plant.live, "-o", model, "--fixed-threshold", 4.5)
    assert load(model).threshold_ == 4.5


def test_fit_says_when_little_was_learned(plant: Plant, newnormal: Command) -> None:
    model = plant.folder / "mine.nn"
    done = newnormal("fit", plant.live, "-o", model, "--method", "m2n2", "--epochs", 1)
    assert "the model learned little more than the mean (loss " in done.stderr
    assert "try --fit-stride 1, more --epochs or a smaller --batch, or no --method" in done.stderr


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--window", 12),
        ("--stride", 3),
        ("--fit-stride", 1),
        ("--latent", 4),
        ("--decay", 0.9),
        ("--half-life", "2h"),
        ("--lr", 0.01),
        ("--no-detrend", None),
        ("--adapt", None),
        ("--model", "mlp"),
    ],
)
def test_an_option_of_the_paper_needs_its_method(
    plant: Plant, newnormal: Command, option: str, value: object
) -> None:
    given = [option] if value is None else [option, value]
    done = newnormal("fit", plant.live, "-o", plant.folder / "mine.nn", *given, status=1)
    assert done.stderr == (
        f"error: {option}: expected only with --method m2n2, found --method detector\n"
        f"hint: add --method m2n2, or leave {option} out: "
        "the detector chooses it from history\n"
    )


def test_a_threshold_and_a_limit_are_refused_together(plant: Plant, newnormal: Command) -> None:
    options = ("--threshold", 0.9, "--alarms-per-day", 3)
    done = newnormal("fit", plant.live, "-o", plant.folder / "mine.nn", *options, status=1)
    assert done.stderr == (
        "error: expected one of --threshold, --fixed-threshold, --alarms-per-day, --risk, "
        "found --threshold and --alarms-per-day\n"
        "hint: a threshold stays where it is put; a limit on alarms moves it\n"
    )


@pytest.mark.parametrize("model", ["pyod:ECOD", "tests.strangers.model:Cells"])
def test_a_model_that_cannot_be_saved_is_not_fitted(
    plant: Plant, newnormal: Command, model: str
) -> None:
    if model.startswith("pyod"):
        pytest.importorskip("pyod")
    options = ("--method", "m2n2", "--model", model, "--no-adapt")
    done = newnormal("fit", plant.live, "-o", plant.folder / "objects.nn", *options, status=1)
    assert done.stderr == (
        f"error: --model {model}: expected a model that can be saved, "
        "found one that holds objects of its own\n"
        f"hint: use it in Python: newnormal.M2N2(model='{model}', adapt=False)\n"
    )
    assert not (plant.folder / "objects.nn").exists()


def test_fit_draws_its_progress_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from newnormal.cli.bars import fit_progress, progress

    with fit_progress() as nothing, progress("judging", 3) as none:
        assert (nothing["on_epoch"], nothing["on_phase"], none) == (None, None, None), "no terminal"
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    with fit_progress() as callbacks:
        on_epoch, on_phase = callbacks["on_epoch"], callbacks["on_phase"]
        assert on_epoch is not None
        assert on_phase is not None
        on_phase("learning history", 0.0)
        on_epoch(1, 0.25)
        on_phase("learning history", 0.5)
    shown = capsys.readouterr().err
    assert "50%" in shown
    assert "learning history, loss 0.25" in shown
    with progress("judging", 4) as on_samples:
        assert on_samples is not None
        on_samples(3)
    assert "75%" in capsys.readouterr().err


MINE = """
from newnormal.models.mlp import MLP

class Mine(MLP):
    pass
"""


@pytest.mark.parametrize(
    ("kind", "name"),
    [("model", "mine_model:Mine"), ("threshold", "tests.strangers.threshold:Trailing")],
)
def test_a_state_file_of_a_model_or_threshold_of_others_loads_where_it_is_named(
    plant: Plant, newnormal: Command, monkeypatch: pytest.MonkeyPatch, kind: str, name: str
) -> None:
    monkeypatch.chdir(plant.folder)
    monkeypatch.setattr("sys.path", [*sys.path])
    Path("mine_model.py").write_text(MINE)
    named = (f"--{kind}", name)
    done = newnormal("fit", plant.live, "-o", "mine.nn", "--method", "m2n2", *named, "--epochs", 1)
    assert done.returncode == 0, done.stderr
    for command in (("inspect", "mine.nn"), ("score", "mine.nn", plant.live)):
        done = newnormal(*command, status=1)
        assert f"the {kind} {name!r} is neither built in nor an installed entry" in done.stderr
    assert newnormal("inspect", "mine.nn", *named).returncode == 0
    whole = newnormal("score", "mine.nn", plant.live, *named).stdout.splitlines()
    thresholds = {json.loads(line)["threshold"] for line in whole}
    assert (len(thresholds) > 10) == (kind == "threshold")  # it moves
    state = ("--state", "mine.state", "--flush")
    assert newnormal("watch", "mine.nn", plant.live, *state, *named).stdout.splitlines() == whole
    done = newnormal("watch", "mine.nn", plant.live, *state, *named)
    assert "resuming at line 402" in done.stderr
    path = labelled(plant, SPIKES)
    assert newnormal("evaluate", "mine.nn", path, "--label", "truth", *named).returncode == 0
    done = newnormal("undo", "mine.state", *named)
    assert "error: expected a detector with acceptance, found one" in done.stderr


def test_a_model_that_is_built_in_needs_no_name(plant: Plant, newnormal: Command) -> None:
    path = plant.folder / "pca.nn"
    options = ("--method", "m2n2", "--model", "pca", "--no-adapt")
    assert newnormal("fit", plant.live, "-o", path, *options).returncode == 0
    assert newnormal("score", path, plant.live).returncode == 0
    assert newnormal("inspect", path).returncode == 0


def test_fit_without_options_says_what_it_chose(plant: Plant, newnormal: Command) -> None:
    model = plant.folder / "mine.nn"
    done = newnormal("fit", plant.live, "-o", model, "--epochs", 1, status=0)
    assert Detector.load(model).explain() in done.stderr
    assert "learned little" not in done.stderr


def test_score_prints_what_score_of_python_returns(plant: Plant, newnormal: Command) -> None:
    table = read(plant.live)
    ran = newnormal("score", plant.model, plant.live).stdout.splitlines()
    assert ran == load(plant.model).score(table).json_lines()
    frozen = newnormal("score", plant.model, plant.live, "--frozen").stdout.splitlines()
    assert frozen == load(plant.model).score_frozen(table).json_lines()
    assert frozen != ran


def test_evaluate_prints_every_metric_and_draws(plant: Plant, newnormal: Command) -> None:
    path, picture = labelled(plant, SPIKES), plant.folder / "picture.png"
    done = newnormal("evaluate", plant.model, path, "--label", "truth", "--json", "--plot", picture)
    assert done.returncode == 0, done.stderr
    metrics = json.loads(done.stdout)
    assert metrics["samples"] == 400
    assert metrics["labelled"] == 4
    assert metrics["scores"]["auroc"] > 0.9
    assert picture.read_bytes().startswith(b"\x89PNG")
    shown = newnormal("evaluate", plant.model, path, "--label", "truth").stdout
    for name in ("precision", "recall", "AUPRC", "VUS-PR", "affiliation F1", "false a day"):
        assert name in shown


def test_evaluate_measures_what_was_reported_as_alarms(moved: Plant, newnormal: Command) -> None:
    """The level moves for good: one event, found at its first sample."""
    path = labelled(cut(moved, 2 * CHANGE), range(CHANGE, CHANGE + 20))
    arguments = ("evaluate", moved.model, path, "--label", "truth", "--json")
    alarms = json.loads(newnormal(*arguments).stdout)["alarms"]
    assert alarms["events"] == alarms["found"] == 1
    assert alarms["mean_delay"] == 0
    assert alarms["opened"] == alarms["true"] + alarms["false"]
    assert 0 < alarms["pending_share"] < 1
    assert json.loads(newnormal(*arguments, "--frozen").stdout)["alarms"]["pending"] == 0


def test_evaluate_refuses_an_unknown_label_and_picture(plant: Plant, newnormal: Command) -> None:
    path = labelled(plant, SPIKES)
    done = newnormal("evaluate", plant.model, path, "--label", "y")
    assert (done.returncode, "label names column 'y'" in done.stderr) == (1, True)
    done = newnormal("evaluate", plant.model, path, "--label", "truth", "--plot", "x.gif")
    assert "expected a picture ending in .pdf, .png, .svg" in done.stderr


def test_inspect_says_what_a_checkpoint_has_been_through(plant: Plant, newnormal: Command) -> None:
    newnormal(*plant.watch)
    facts = json.loads(newnormal("inspect", plant.state, "--json").stdout)
    assert facts["samples_seen"] == 400
    assert facts["learning_steps"] > 0
    assert facts["stream_bytes"] == load(plant.state).nbytes_["stream"] > 0
    assert facts["distance_from_fit"] > 0
    assert facts["line"] == 401
    assert facts["input"] == str(plant.live.resolve())
    shown = newnormal("inspect", plant.model).stdout
    assert "channel names" in shown
    assert "a, b, c" in shown


@pytest.mark.parametrize("command", ["watch", "score", "inspect"])
def test_a_model_that_is_none_is_refused(plant: Plant, newnormal: Command, command: str) -> None:
    arguments = [plant.live] if command == "inspect" else [plant.live, plant.live]
    done = newnormal(command, *arguments, status=1)
    assert "is not a newnormal state file" in done.stderr
    assert "Traceback" not in done.stderr


def test_data_list_says_where_to_get_each(
    plant: Plant, newnormal: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NEWNORMAL_DATA", raising=False)
    done = newnormal("data", "list")
    for name in ("SMD", "SMAP", "MSL", "CreditCard", "NAB", "ASD", "SWaT", "WADI", "Yahoo"):
        assert f"{name}  " in done.stdout
    folder = plant.folder / "SMD"
    for part, text in (("train", "1,2\n3,4\n"), ("test", "1,2\n3,4\n"), ("test_label", "0\n1\n")):
        (folder / part).mkdir(parents=True)
        (folder / part / "machine-1-4.txt").write_text(text)
    assert "1: SMD/1-4" in newnormal("data", "list", "--data", plant.folder).stdout
    monkeypatch.setenv("NEWNORMAL_DATA", str(plant.folder))
    assert "1: SMD/1-4" in newnormal("data", "list").stdout
    assert datasets.available() == ["SMD/1-4"]
    assert newnormal("data", "list", "--data", plant.folder / "no").returncode == 1


def test_help_is_a_quickstart_and_a_wrong_usage_is_exit_code_2(newnormal: Command) -> None:
    assert newnormal("--version").stdout == f"newnormal {__version__}\n"
    newnormal("fit", "history.csv", status=2)
    shown = newnormal("--help").stdout
    for command in ("newnormal example", "newnormal fit history.csv -o plant.nn", "Exit codes"):
        assert command in shown
