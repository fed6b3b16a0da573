"""`newnormal reproduce` from the command line: narrowing, adding a row, resuming, mistakes."""

import csv
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from newnormal.cli.app import add_reproduce
from newnormal.errors import MissingExtraError
from newnormal_reproduce.command import reproduce_app
from newnormal_reproduce.engine.runner import Runner
from newnormal_reproduce.registry import ENTRIES, ExperimentEntry
from tests.cli.conftest import Command
from tests.reproduce.test_store import write_smd

TOY = """
from newnormal.models.mlp import MLP

class Toy(MLP):
    pass
"""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    root = tmp_path / "data"
    write_smd(root)
    return root


def lines(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))


def test_an_experiment_says_where_files_are(newnormal: Command, data: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    arguments = ("reproduce", "ablation", "--data", data, "-o", out, "--seeds", "1,2")
    done = newnormal(*arguments, "--variants", "frozen,DT", "--processes", 1, status=0)
    assert "computed 6 results, wrote" in done.stderr
    names = {"ablation.md", "ablation-detail.md", "ablation.csv", ".newnormal-cache"}
    assert {path.name for path in out.iterdir()} == names
    assert {line["variant"] for line in lines(out / "ablation.csv")} == {"frozen", "DT", ""}
    again = newnormal(*arguments, "--variants", "frozen,DT,TTA", "--processes", 1)
    assert "computed 2 results, wrote" in again.stderr


def test_a_class_of_ones_own_is_one_more_row(data: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(TOY)
    (tmp_path / "rows.toml").write_text('[[row]]\nmodel = "mine:Toy"\nname = "Again"\nbatch = 4\n')
    command = [sys.executable, "-m", "newnormal", "reproduce", "ablation", "--data", str(data)]
    command += ["-o", "out", "--seeds", "1", "--variants", "frozen", "--models", "mlp,mine:Toy"]
    command += ["--extra", "rows.toml", "--set", "mlp.epochs=2"]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    found = {
        line["model"]: (line["status"], line["epochs"], line["batch"])
        for line in lines(tmp_path / "out" / "ablation.csv")
        if line["status"] != "absent"
    }
    assert found == {"MLP": ("ok", "2", "8"), "Toy": ("ok", "10", "8"), "Again": ("ok", "10", "4")}


def test_only_what_was_computed_is_shown(newnormal: Command, data: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    arguments = ("reproduce", "ablation", "--data", data, "-o", out, "--processes", 1)
    newnormal(*arguments, "--seeds", 1, "--variants", "frozen")
    done = newnormal(*arguments, "--seeds", "1,2", "--computed", status=0)
    assert done.stderr.startswith("wrote")
    found = [line for line in lines(out / "ablation.csv") if line["status"] != "absent"]
    assert [(line["status"], line["variant"], line["seed"]) for line in found] == [
        ("ok", "frozen", "1")
    ]


def test_data_that_is_not_there_is_no_success(
    newnormal: Command, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEWNORMAL_DATA", str(data))
    arguments = ("-o", tmp_path / "out", "--datasets", "CreditCard,SMD/1-4")
    done = newnormal("reproduce", "datasets", *arguments, status=1)
    assert lines(tmp_path / "out" / "datasets.csv")[0]["dataset"] == "SMD/1-4"
    assert "error: found no CreditCard: get " in done.stderr
    monkeypatch.setenv("NEWNORMAL_DATA", str(tmp_path / "out"))
    for name in ("main", "all", "shift"):
        done = newnormal("reproduce", name, "-o", tmp_path / "none", status=1)
        error = (
            f"error: expected data sets in {tmp_path / 'out'}, found none\nhint: `newnormal data l"
        )
        assert error in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--seeds", "one"), "error: --seeds: expected whole numbers, found one"),
        (("--models", "nothing"), "error: model: expected one of"),
        (("--datasets", "nothing"), "error: datasets: expected data sets of the paper or found"),
        (("--set", "mlp.width=3"), "error: mlp.width=3: expected an option of the detector"),
        (("--variants", "both"), "error: variants: expected variants of the ablation"),
        (
            ("--series", "x.csv"),
            "error: expected --series, --label and --history together, found one",
        ),
    ],
)
def test_a_mistake_is_one_line_that_says_what_was_expected(
    newnormal: Command, data: Path, tmp_path: Path, arguments: tuple[str, str], message: str
) -> None:
    for name in ("ablation", "all"):
        out = tmp_path / name
        done = newnormal("reproduce", name, "--data", data, "-o", out, *arguments, status=1)
        assert message in done.stderr
        assert "hint: " in done.stderr
        assert not out.exists(), "nothing was run"


@pytest.mark.parametrize("words", ["", "main --data DIR", "--help"])
def test_without_experiments_it_says_so(words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("newnormal.cli.app.find_spec", lambda _: None)
    app = typer.Typer()
    app.command()(lambda: None)
    add_reproduce(app)
    done = CliRunner().invoke(app, ["reproduce", *words.split()])
    assert isinstance(done.exception, MissingExtraError)
    assert str(done.exception) == (
        "newnormal-reproduce is needed for this and is not installed\n"
        'hint: pip install "newnormal[reproduce]"'
    )


def test_every_experiment_has_a_command() -> None:
    names = {
        command.name or str(command.callback and command.callback.__name__)
        for command in reproduce_app().registered_commands
    }
    assert names == {"all", "page", *(entry.name for entry in ENTRIES)}


def test_all_of_it_half_way_is_every_page_that_needs_no_computing(
    newnormal: Command, data: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    narrowed = ("--models", "mlp", "--datasets", "SMD/1-4", "--seeds", 1)
    arguments = ("--data", data, "-o", out, "--processes", 1, *narrowed)
    assert newnormal("reproduce", "main", *arguments).returncode == 0
    done = newnormal("reproduce", "all", "--computed", *arguments, status=0)
    pages = {path.name for path in out.glob("*.md") if "-detail" not in path.name}
    left_out = ("shift", "anoshift", "cost", "tsb-ad", "obvious", "truth")
    names = [entry.name for entry in ENTRIES if entry.name not in left_out]
    assert pages == {f"{name}.md" for name in names}
    wrote = [line.split()[1] for line in done.stderr.splitlines() if line.startswith("wrote")]
    assert [Path(each.rstrip(",")).stem for each in wrote] == [*names, "index"]
    assert "computed" not in done.stderr
    assert "| SMD/1-4 | MLP | frozen | 1 |" in (out / "main.md").read_text(encoding="utf-8")


def test_one_that_fails_does_not_stop_the_others_and_is_named_at_the_end(
    newnormal: Command, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run: list[str] = []

    def write(
        entry: ExperimentEntry, runner: Runner, output: Path, **request: object
    ) -> tuple[Path, ...]:
        run.append(entry.name)
        if entry.name in ("main", "shift"):
            raise OSError("the disk is full")
        assert request["seeds"] == [3]
        output.mkdir(exist_ok=True)
        return (output / entry.name,)

    monkeypatch.setattr("newnormal_reproduce.registry.write", write)
    done = newnormal("reproduce", "all", "--data", data, "-o", tmp_path / "out", "--seeds", 3)
    assert done.returncode == 1
    names = [entry.name for entry in ENTRIES]
    assert run == [name for name in names if name not in ("anoshift", "tsb-ad")]  # not found
    assert "main failed: OSError: the disk is full\nwrote" in done.stderr
    assert done.stderr.endswith("\nfailed: shift, main\n")


BROKEN = """
from newnormal.models.mlp import MLP

class Broken(MLP):
    def fit(self, *args, **kwargs):
        raise RuntimeError("no weights today")
"""


def test_a_model_that_fails_is_named_with_the_reason_and_the_exit_code_is_1(
    newnormal: Command, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_model.py").write_text(BROKEN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    arguments = ("reproduce", "ablation", "--data", data, "-o", "out", "--seeds", "1,2")
    narrowed = ("--variants", "frozen", "--processes", 1)
    done = newnormal(*arguments, *narrowed, "--models", "mlp,broken_model:Broken", status=1)
    assert done.stderr.endswith(
        "error: broken_model:Broken failed on SMD/1-4: RuntimeError: no weights today\n"
    )
    assert "wrote out/ablation.md" in done.stderr, "the others are there all the same"
    assert newnormal(*arguments, *narrowed).returncode == 0


def test_a_model_whose_cost_cannot_be_measured_is_named(newnormal: Command, tmp_path: Path) -> None:
    done = newnormal("reproduce", "cost", "--models", "pca", "-o", tmp_path, status=1)
    assert "error: pca failed: " in done.stderr


def test_every_table_names_its_model(newnormal: Command, data: Path, tmp_path: Path) -> None:
    arguments = ("reproduce", "ablation", "--data", data, "-o", tmp_path, "--processes", 1)
    newnormal(*arguments, "--models", "pca", "--variants", "frozen", "--seeds", "1,2", status=0)
    page = (tmp_path / "ablation.md").read_text(encoding="utf-8")
    heads = [line for line in page.splitlines() if line.startswith("| data set |")]
    assert len(heads) >= 3
    assert all(head.startswith("| data set | model |") for head in heads)
    assert "The MLP of the paper" not in page
    assert "| SMD/1-4 | pca | frozen |" in page
