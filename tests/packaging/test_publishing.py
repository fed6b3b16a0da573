"""What a public repository needs: citation, templates, workflows, container, interpreters."""

import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

import newnormal
import newnormal_reproduce

ROOT = Path(__file__).parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
VERSIONS = ["3.11", "3.12", "3.13", "3.14"]


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def parsed(name: str) -> dict[Any, Any]:
    found = yaml.safe_load(read(name))
    assert isinstance(found, dict), name
    return found


def test_the_citation_names_this_version_and_the_paper() -> None:
    cited = parsed("CITATION.cff")
    assert cited["cff-version"] == "1.2.0"
    assert cited["version"] == newnormal.__version__
    assert cited["license"] == PROJECT["project"]["license"]
    assert cited["title"] == PROJECT["project"]["name"]
    assert cited["keywords"] == PROJECT["project"]["keywords"]
    # What the schema requires of the software, and of a reference.
    assert cited["message"] and all("name" in each for each in cited["authors"])
    (paper,) = cited["references"]
    assert paper["type"] == "conference-paper"
    assert paper["title"].startswith("When Model Meets New Normals: Test-Time Adaptation")
    assert [each["family-names"] for each in paper["authors"]] == ["Kim", "Park", "Choo"]
    assert paper["conference"]["name"]


def test_the_changelog_has_this_version_and_what_comes_next() -> None:
    titles = re.findall(r"^## (.+)$", read("CHANGELOG.md"), re.MULTILINE)
    assert titles[0] == "Unreleased"
    assert newnormal.__version__ in titles


def test_every_supported_interpreter_is_named_everywhere() -> None:
    prefix = "Programming Language :: Python :: 3."
    classifiers = [each for each in PROJECT["project"]["classifiers"] if each.startswith(prefix)]
    assert classifiers == [f"{prefix}{each.partition('.')[2]}" for each in VERSIONS]
    assert f"INTERPRETERS=({' '.join(VERSIONS)})" in read(".ci/run")
    assert PROJECT["project"]["requires-python"] == f">={VERSIONS[0]}"


def test_the_experiments_have_the_same_version_and_license() -> None:
    assert newnormal_reproduce.__version__ == newnormal.__version__
    assert read("reproduce/LICENSE") == read("LICENSE")
    experiments = tomllib.loads(read("reproduce/pyproject.toml"))["project"]
    assert PROJECT["project"]["optional-dependencies"]["reproduce"] == [experiments["name"]]
    for name in ("license", "requires-python"):
        assert experiments[name] == PROJECT["project"][name]


def test_no_extra_but_those_of_developers_and_adapters_is_left_out_of_all() -> None:
    extras = PROJECT["project"]["optional-dependencies"]
    (everything,) = extras["all"]
    named = set(re.findall(r"\w+", everything)) - {"newnormal"}
    left_out = {"all", "dev", "site", "aeon", "sktime"}  # the last two hold Numba and pandas back
    assert named == set(extras) - left_out


@pytest.mark.parametrize("name", ["bug", "question"])
def test_issue_templates_are_forms_with_a_required_field(name: str) -> None:
    form = parsed(f".github/ISSUE_TEMPLATE/{name}.yml")
    assert form["name"] and form["description"]
    fields = [each for each in form["body"] if each["type"] != "markdown"]
    assert any(each.get("validations", {}).get("required") for each in fields)
    assert len({each["id"] for each in fields}) == len(fields)
    assert all(each["attributes"]["label"] for each in fields)


def test_a_bug_report_asks_for_version_and_inspect() -> None:
    text = read(".github/ISSUE_TEMPLATE/bug.yml")
    assert "newnormal --version" in text
    assert "newnormal inspect" in text


def commands(workflow: dict[Any, Any]) -> list[str]:
    steps = [step for job in workflow["jobs"].values() for step in job["steps"]]
    return [step["run"] for step in steps if "run" in step]


def test_the_workflow_tests_every_interpreter_on_three_systems() -> None:
    workflow = parsed(".github/workflows/test.yml")
    matrix = workflow["jobs"]["test"]["strategy"]["matrix"]
    assert matrix["python"] == VERSIONS
    assert matrix["system"] == ["ubuntu-latest", "macos-latest", "windows-latest"]
    # Windows has no make.
    steps = [each["run"] for each in workflow["jobs"]["test"]["steps"] if "run" in each]
    assert not [each for each in steps if each.startswith("make")]


@pytest.mark.parametrize("name", ["test", "release"])
def test_what_a_workflow_runs_is_there(name: str) -> None:
    workflow = parsed(f".github/workflows/{name}.yml")
    targets = re.findall(r"^([a-z-]+):", read("Makefile"), re.MULTILINE)
    extras = PROJECT["project"]["optional-dependencies"]
    for command in commands(workflow):
        for target in re.findall(r"\bmake (\S+)", command):
            assert target in targets
        for names in re.findall(r"\.\[([\w,]+)\]", command):
            assert set(names.split(",")) <= set(extras)
    assert all("timeout-minutes" in job for job in workflow["jobs"].values())
    assert workflow["permissions"] == {"contents": "read"}


def test_a_release_is_published_without_a_token() -> None:
    publish = parsed(".github/workflows/release.yml")["jobs"]["publish"]
    assert publish["permissions"] == {"id-token": "write"}
    assert "secrets." not in read(".github/workflows/release.yml")


def test_the_container_installs_by_the_script_alone_and_runs_as_nobody_special() -> None:
    lines = re.sub(r"\\\n\s*", "", read("Dockerfile")).splitlines()
    runs = [line for line in lines if line.startswith("RUN")]
    assert any("packaging/install.sh" in line for line in runs)
    assert not [line for line in runs if "pip install" in line or "apt-get" in line]
    assert "USER newnormal" in lines
    assert "VOLUME /data" in lines
    assert all("-slim" in line for line in lines if line.startswith("FROM"))
    # What the script needs is copied, and .ci/run takes the list from the same place.
    copied = re.findall(r"^!(.+)$", read(".dockerignore"), re.MULTILINE)
    assert {"src", "packaging", "pyproject.toml", "constraints.txt", "README.md"} <= set(copied)
    assert all((ROOT / name).exists() for name in copied)
    assert "packaging/install.sh" in read(".ci/run")


@pytest.mark.skipif(shutil.which("sh") is None, reason="needs sh")
def test_the_install_script_says_how_it_is_used_and_refuses_a_full_folder(tmp_path: Path) -> None:
    script = str(ROOT / "packaging" / "install.sh")
    bare = subprocess.run(["sh", script], capture_output=True, text=True, check=False)
    assert bare.returncode == 2
    assert "SOURCE TARGET" in bare.stderr
    (tmp_path / "file").touch()
    full = subprocess.run(
        ["sh", script, str(ROOT), str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert full.returncode == 1
    assert "expected an empty folder" in full.stderr


def test_ci_runs_every_part_and_the_quick_tests_are_there() -> None:
    text = read(".ci/run")
    parts = re.findall(r'^  "(\w+):', text, re.MULTILINE)
    assert len(parts) > 8
    assert all(re.search(rf"^{part}\(\) \{{", text, re.MULTILINE) for part in parts)
    quick = re.findall(r"^  (tests/\S+\.py)$", text, re.MULTILINE)
    assert len(quick) > 15
    assert all((ROOT / name).is_file() for name in quick)


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_ci_takes_no_interpreter_that_does_not_run(tmp_path: Path) -> None:
    shim = tmp_path / "python3.99"
    shim.write_text("#!/bin/sh\nexit 127\n")
    shim.chmod(0o755)
    function = re.search(r"^interpreter\(\) \{.*?^\}", read(".ci/run"), re.MULTILINE | re.DOTALL)
    assert function is not None
    done = subprocess.run(
        ["bash", "-euc", f"{function[0]}\ninterpreter 3.99\necho none"],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "none\n"
