"""Every example in README and docs runs, every link leads somewhere, the reference can be built.

How to write an example in README.md or docs/, by the language of its fence:

- ``python`` is run in this process; with prompts (>>>) its output is compared as doctest does;
- ``sh`` is run with ``bash -e``, and must succeed;
- ``console`` has commands after "$ " and, below each, all it prints to standard output and standard
  error, compared as doctest does: "..." stands for anything;
- anything else (``text``, ``py``, ``pycon``, ``toml``) is not run.

A page's examples are run from top to bottom, in a folder of its own and in one Python namespace.
The first Python example of docs/README.md has been run there before: it makes `data`, `history`,
`live` and `labels`, and writes history.csv, live.csv and labelled.csv. `stream` is `live` too.
The README and the tutorial start in an empty folder instead, as their readers do.
"""

import doctest
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import typer

from docs import generate
from newnormal.cli.app import app
from tests.processes import python

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
INDEX = ROOT / "docs" / "README.md"
TUTORIAL = ROOT / "docs" / "tutorial.md"
MARKDOWN = [
    *sorted(ROOT.glob("*.md")),
    *(
        path
        for part in ("docs", "src", "tests", "benchmarks")
        for path in sorted((ROOT / part).rglob("*.md"))
        if path.parent != generate.REFERENCE  # left there by `make docs`
    ),
]
PAGES = [README, *(page for page in MARKDOWN if page.is_relative_to(ROOT / "docs"))]
REFERENCE = [generate.REFERENCE / f"{name}.md" for name in ("python", "cli", "service")]

OPTIONAL = ("pandas", "polars", "sklearn", "scipy", "torch", "matplotlib", "pyod")

_FENCED = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(<?([^)\s>]+)>?[^)]*\)|<img[^>]* src=\"([^\"]+)\"")
_LENIENT = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
# Only the first command after an install says it.
_COMPILING = re.compile(r"^compiling for this machine.*\n", re.MULTILINE)


class Example(NamedTuple):
    """A fenced block."""

    language: str
    text: str
    line: int  # of the fence, from 1


def text_of(page: Path) -> str:
    return generate.reference()[page] if page in REFERENCE else page.read_text(encoding="utf-8")


def examples(page: Path) -> list[Example]:
    text = text_of(page)
    return [
        Example(match[1], match[2], text.count("\n", 0, match.start()) + 1)
        for match in _FENCED.finditer(text)
    ]


def named(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


# ---------------------------------------------------------------------- running


def run_python(page: Path, example: Example, names: dict[str, Any]) -> None:
    if ">>>" not in example.text:
        exec(compile("\n" * example.line + example.text, str(page), "exec"), names)
        return
    parsed = doctest.DocTestParser().get_doctest(
        example.text, {}, named(page), str(page), example.line
    )
    parsed.globs = names
    said: list[str] = []
    results = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(
        parsed, out=said.append, clear_globs=False
    )
    assert results.failed == 0, "".join(said)


def run_shell(page: Path, example: Example, script: str) -> str:
    """Run a script as a reader would, and return what it printed."""
    done = subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", script],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
        check=False,
        env={
            **os.environ,
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
            "COLUMNS": "100",
            "NO_COLOR": "1",
            "OPENBLAS_NUM_THREADS": "1",  # more would fight with the other tests for the cores
        },
    )
    where = f"{named(page)}, line {example.line}"
    assert done.returncode == 0, f"{where}: exit code {done.returncode}\n{script}\n{done.stdout}"
    return _COMPILING.sub("", done.stdout)


def run_console(page: Path, example: Example) -> None:
    for part in re.split(r"^\$ ", example.text, flags=re.MULTILINE)[1:]:
        command, _, wanted = part.partition("\n")
        found = run_shell(page, example, command)
        assert doctest.OutputChecker().check_output(wanted, found, _LENIENT), (
            f"{named(page)}, line {example.line}: $ {command}\nexpected:\n{wanted}\nfound:\n{found}"
        )


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_example_of_a_page_runs(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "__main__"}
    if page not in (README, TUTORIAL):
        first = next(each for each in examples(INDEX) if each.language == "python")
        run_python(INDEX, first, names)
        names["stream"] = names["live"]
    try:
        for example in examples(page):
            if example.language == "python":
                run_python(page, example, names)
            elif example.language == "sh":
                run_shell(page, example, example.text)
            elif example.language == "console":
                run_console(page, example)
    finally:
        for path in tmp_path.glob("*.pid"):  # of what an example has left running
            with suppress(OSError):
                os.kill(int(path.read_text()), signal.SIGKILL)


def test_the_first_example_of_the_readme_runs_as_pasted_with_the_core_alone(tmp_path: Path) -> None:
    first = next(each for each in examples(README) if each.language == "python")
    assert len(first.text.splitlines()) <= 4
    without = "import sys; sys.modules.update(dict.fromkeys({OPTIONAL}))\n"
    done = python("-c", without.format(OPTIONAL=OPTIONAL) + first.text, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(
        r"\d+ anomalous samples, \d+ alarms in 20,160 samples: .* a day lately; "
        r"limit on false ones: 1 .*\n",
        done.stdout,
    )


def test_no_fence_is_left_open() -> None:
    for page in [*PAGES, *REFERENCE]:
        fences = re.findall(r"^```", text_of(page), re.MULTILINE)
        assert len(fences) == 2 * len(examples(page)), named(page)


# ---------------------------------------------------------------------- links


def links(page: Path) -> Iterator[str]:
    prose = re.sub(r"`[^`\n]*`", "", _FENCED.sub("", text_of(page)))
    for match in _LINK.finditer(prose):
        yield match[1] or match[2]


@pytest.mark.parametrize("page", [*MARKDOWN, *REFERENCE], ids=named)
def test_every_link_and_picture_of_a_page_is_there(page: Path) -> None:
    for link in links(page):
        if re.match(r"https?:|mailto:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target in REFERENCE or target.exists(), (
            f"{named(page)} links to {link}, which is not there"
        )
        assert target.is_relative_to(ROOT), f"{named(page)} links to {link}, outside the project"
        if anchor:
            found = generate.anchors(text_of(target))
            assert anchor in found, f"{named(page)} links to {link}, which has no such heading"


def test_every_page_can_be_reached_from_the_index() -> None:
    reached, waiting = {INDEX}, [INDEX]
    while waiting:
        page = waiting.pop()
        for link in links(page):
            target = (page.parent / link.partition("#")[0]).resolve()
            if target in [*MARKDOWN, *REFERENCE] and target not in reached:
                reached.add(target)
                waiting.append(target)
    lost = [named(page) for page in [*PAGES, *REFERENCE] if page not in reached and page != README]
    assert not lost, f"no way leads from docs/README.md to {', '.join(lost)}"


def test_every_path_that_contributing_names_is_there() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    table = text.partition("## Where things go")[2].partition("\n## ")[0]
    paths = re.findall(r"`([\w/.]+(?:/|\.py|\.md))`", table)
    assert len(paths) > 30
    for path in paths:
        assert (ROOT / path).exists() or (ROOT / "src" / "newnormal" / path).exists(), path


# ---------------------------------------------------------------------- reference


def test_the_readmes_table_is_up_to_date() -> None:
    assert text_of(README) == generate.readme(), "run `make docs` and commit it"


def test_the_readmes_table_has_means_over_collections_and_the_best_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = ["dataset,collection,row,measure,events,openings,true,normal,days,in_alarm,found"]
    for row, streams in {
        "fixed limit": ((10, 8, 2), (1, 9, 0)),
        "band by hour": ((10, 8, 2),),  # without a stream that the others have
        "PyOD PCA": ((10, 3, 1), (1, 1, 1)),
        "River HST": ((10, 3, 1), (1, 1, 0)),
        "default": ((10, 5, 5), (1, 2, 1)),
    }.items():
        for name, (events, openings, found) in zip(("SMD/1", "ASD/2"), streams, strict=False):
            numbers = f"{events},{openings},{found},100,2,25,{found}"
            lines += [f"{name},{name[:3]},{row},alarms,{numbers}"]
            lines += [f"{name},{name[:3]},{row},fault,{numbers}"]  # another measure
            lines += [f"{name},{name[:3]},γ,alarms,{numbers}", f"x,NAB,{row},alarms,{numbers}"]
    (tmp_path / "drift-alarms.csv").write_text("\n".join(lines), encoding="utf-8")
    monkeypatch.setattr(generate, "_RESULTS", tmp_path)
    head, _, *rows = generate._results_table().splitlines()
    assert head.startswith("| on 2 public streams | faults found | false alarms a day |")
    cells = [[cell.strip() for cell in row.split("|")[1:5]] for row in rows]
    assert cells == [
        ["a fixed limit", "10%", "3.8", "25%"],  # (2/10 + 0/1) / 2; (6 + 9) / 2 days / 2
        ["PyOD PCA, the best of River and PyOD", "55%", "0.5", "25%"],
        ["**newnormal**, untuned", "75%", "0.2", "25%"],
    ]


def commands(words: str, group: Any) -> Iterator[tuple[str, Any]]:
    yield words, group
    for name, command in getattr(group, "commands", {}).items():
        yield from commands(f"{words} {name}", command)


def test_every_command_and_option_is_in_the_reference() -> None:
    head, *rest = re.split(r"^## ", text_of(generate.REFERENCE / "cli.md"), flags=re.MULTILINE)
    sections = {"newnormal": head, **{part.split("`")[1]: part for part in rest}}
    for words, command in commands("newnormal", typer.main.get_command(app)):
        if words != "newnormal" and hasattr(command, "commands"):
            continue  # a group has no section; its commands have
        for parameter in command.params:
            for spelled in (*parameter.opts, *parameter.secondary_opts):
                if spelled.startswith("-"):
                    assert re.search(rf"`{spelled}[ `]", sections[words]), f"{words} {spelled}"
            assert parameter.help, f"{words} {parameter.name} has no help"
            assert parameter.help.replace("|", r"\|") in sections[words]


@pytest.mark.parametrize("module", generate.MODULES)
def test_every_public_name_is_in_the_reference(module: str) -> None:
    text = text_of(generate.REFERENCE / "python.md")
    for name in import_module(module).__all__:
        assert f"\n### `{module}.{name}`\n" in text
