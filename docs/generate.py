"""Write docs/reference from the code and the README's table from the results.

The reference is not in the repository: `make docs` writes it there to read, `make site` into the
site. `python.md` comes from the public names, their signatures and docstrings; `cli.md` from the
command line's own objects; the README's table from docs/results/drift-alarms.csv, written by
`newnormal reproduce drift`.
"""

from __future__ import annotations

import csv
import importlib
import inspect
import re
import typing
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from statistics import mean
from types import FunctionType
from typing import Any

import typer

REFERENCE = Path(__file__).parent / "reference"
README = Path(__file__).parents[1] / "README.md"
_RESULTS = Path(__file__).parent / "results"
MODULES = (
    "newnormal",
    "newnormal.metrics",
    "newnormal.datasets",
    "newnormal.plots",
    "newnormal.models",
    "newnormal.io",
    "newnormal.testing",
)
_FIRST = ("Detector", "M2N2", "load")
_WIDTH = 88
_COLLECTIONS = ("SMD", "ASD", "JumpStarter", "MSL", "SMAP")  # of the means of the drift page

_NOTE = "<!-- Written by `make docs`; do not edit. -->\n"

_PYTHON_INTRO = """# Python reference

Every public name, with its docstring. `import newnormal` costs next to nothing: a name is imported
when it is first used. The examples are the docstrings' own and are run there by the tests; names
that they do not import belong to the same module, and `np` is NumPy.
"""

_CLI_INTRO = """# Command line reference

What each command takes, from the commands themselves. The [shell guide](../guides/shell.md) shows
them at work.
"""

_SERVICE_INTRO = """# Settings of the service

What `newnormal serve` can be told, from the code. A setting comes from an option (`--port 9000`, or
`--set limits.streams=100` for those without an option of their own), from its environment variable,
or from the file, in this order. [The guide](../guides/service.md) shows them at work, and
[the example](../../packaging/service.toml) is a file with all of them. After SIGHUP the service
takes over new values of settings that are marked live; others need a restart.
"""

_SERVICE_NAMED = (
    (
        "`[[stream]]`",
        "`NEWNORMAL_SERVE_STREAM`",
        '`match`, a pattern such as `"press-*"`, and any of the settings of `[streams]`, for the '
        "streams whose names match; later tables go before earlier ones",
    ),
    (
        "`[[token]]`",
        "`NEWNORMAL_SERVE_TOKENS`",
        "`name`, `role` (`read`, `write`, `operate`), and one of `token_file`, `token_env`, `hash`",
    ),
    (
        "`[sinks.NAME]`",
        "`NEWNORMAL_SERVE_SINKS`",
        '`kind`, such as `"webhook"`, and its options: where alerts go',
    ),
    (
        "`[sources.NAME]`",
        "`NEWNORMAL_SERVE_SOURCES`",
        "`kind` and its options: from where samples are fetched",
    ),
)

_SERVICE_SECRETS = """A secret is never written into the file: the option `secret` of a sink is
given as `secret_file`, the path of a file, or as `secret_env`, the name of a variable. Three more
variables: `NEWNORMAL_SERVE_CONFIG` is the path of the file, `NEWNORMAL_SERVE_TOKEN` a token that
may do everything, and `NEWNORMAL_SERVE_TOKEN_FILE` the path of a file with one.
"""

_STARS: dict[Any, str] = {
    inspect.Parameter.VAR_POSITIONAL: "*",
    inspect.Parameter.VAR_KEYWORD: "**",
}
_WORDS = {str: "TEXT", int: "N", float: "NUMBER", Path: "PATH"}


def main() -> None:
    """Write the reference, and the README with its table."""
    for path, text in {**reference(), README: readme()}.items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        print(f"wrote {path}")


@cache
def reference() -> dict[Path, str]:
    """Return the text of each page of the reference by its path."""
    return {
        REFERENCE / "python.md": _python_page(),
        REFERENCE / "cli.md": _cli_page(),
        REFERENCE / "service.md": _service_page(),
    }


def anchors(markdown: str) -> list[str]:
    r"""Return the anchors of a page's headings, as GitHub makes them.

    >>> anchors("# One `two`, three\n# One two three")
    ['one-two-three', 'one-two-three-1']
    """
    found: list[str] = []
    seen: Counter[str] = Counter()
    prose = re.sub(r"^(```+).*?^\1", "", markdown, flags=re.MULTILINE | re.DOTALL)
    for title in re.findall(r"^#+ +(.+?) *$", prose, flags=re.MULTILINE):
        linked = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", title)
        slug = re.sub(r"[^\w\- ]", "", linked.lower()).replace(" ", "-")
        found.append(f"{slug}-{seen[slug]}" if seen[slug] else slug)
        seen[slug] += 1
    return found


# ---------------------------------------------------------------------- Python


def _python_page() -> str:
    bodies: list[str] = []
    for module_name in MODULES:
        module = importlib.import_module(module_name)
        bodies += [f"## {module_name}", *_text(inspect.getdoc(module) or "")]
        for name in sorted(module.__all__, key=lambda each: _order(getattr(module, each), each)):
            bodies += _entry(f"{module_name}.{name}", getattr(module, name))
            if (module_name, name) == ("newnormal", _FIRST[-1]):
                bodies += _shared()
    body = "\n\n".join(bodies) + "\n"
    titles = re.findall(r"^(##+) `?([^`\n]+)`?$", body, flags=re.MULTILINE)
    links = [
        f"{'  ' * (len(level) - 2)}- [`{title}`](#{anchor})"
        for (level, title), anchor in zip(titles, anchors(body), strict=True)
        if len(level) < 4
    ]
    return "\n".join([_NOTE, _PYTHON_INTRO, *links, "", body])


def _order(value: Any, name: str) -> tuple[int, str]:
    """Return where a name goes: the detectors first, exceptions last."""
    if name in _FIRST:
        return _FIRST.index(name), name
    return len(_FIRST) + (isinstance(value, type) and issubclass(value, Exception)), name


def _shared() -> Iterator[str]:
    """Yield what both detectors inherit, once: methods, then attributes."""
    from newnormal.base import BaseDetector

    found: dict[str, Any] = {}
    for cls in BaseDetector.__mro__:
        found = {**found, **{k: v for k, v in _members(cls) if k not in found}}
    yield "### Methods and attributes of both detectors"
    yield "`Detector` and `M2N2` have these. Calls on one detector take turns."
    by_kind = sorted(found.items(), key=lambda each: isinstance(each[1], property))
    for name, value in by_kind:
        yield from _entry(name, value, "####")


def _entry(name: str, value: Any, level: str = "###") -> Iterator[str]:
    """Yield the Markdown blocks of one public name."""
    yield f"{level} `{name}`"
    if isinstance(value, property):
        yield from _text(inspect.getdoc(value) or "")
    elif isinstance(value, type):
        yield _fenced("py", _class_line(name, value))
        yield from _text(inspect.cleandoc(value.__doc__ or ""))
        for member, function in _members(value):
            yield from _entry(f"{value.__name__}.{member}", function, level + "#")
    elif callable(value) and not typing.get_origin(value):
        yield _fenced("py", _signature(name.rsplit(".", 1)[-1], value))
        yield from _text(inspect.getdoc(value) or "")
    elif isinstance(value, str):
        yield "The version, as text."
    else:
        yield _fenced("py", f"{name.rsplit('.', 1)[-1]} = {value}")


def _members(cls: type) -> Iterator[tuple[str, Any]]:
    """Yield the public methods and properties that a class itself documents."""
    for name, value in vars(cls).items():
        if name.startswith("_"):
            continue
        if isinstance(value, property):
            if value.__doc__:
                yield name, value
        elif isinstance(value, FunctionType | classmethod | staticmethod):
            yield name, getattr(cls, name)


def _class_line(name: str, cls: type) -> str:
    short = name.rsplit(".", 1)[-1]
    if issubclass(cls, Exception):
        return f"class {short}({', '.join(base.__name__ for base in cls.__bases__)})"
    if getattr(cls, "_is_protocol", False):
        return f"class {short}(Protocol)"
    return f"class {_signature(short, cls)}"


def _signature(name: str, value: Any) -> str:
    """Return `name(parameters) -> result`, a line each where they do not fit on one."""
    signature = inspect.signature(value)
    parameters: list[str] = []
    keywords_only = False
    for parameter in signature.parameters.values():
        if parameter.name == "self":
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not keywords_only:
            parameters.append("*")
            keywords_only = True
        stars = _STARS.get(parameter.kind, "")
        keywords_only = keywords_only or stars == "*"
        text = stars + parameter.name + _annotated(": ", parameter.annotation)
        if parameter.default is not parameter.empty:
            text += f" = {parameter.default!r}"
        parameters.append(text)
    result = "" if isinstance(value, type) else _annotated(" -> ", signature.return_annotation)
    line = f"{name}({', '.join(parameters)}){result}"
    if len(line) <= _WIDTH:
        return line
    return "\n".join([f"{name}(", *(f"    {each}," for each in parameters), f"){result}"])


def _annotated(before: str, annotation: Any) -> str:
    if annotation is inspect.Signature.empty:
        return ""
    if isinstance(annotation, typing.ForwardRef):
        annotation = annotation.__forward_arg__
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return before + text


def _text(docstring: str) -> Iterator[str]:
    """Yield the Markdown blocks of a NumPy docstring."""
    parts = re.split(r"^(\w+)\n-{3,}\n", docstring, flags=re.MULTILINE)
    yield from _paragraphs(parts[0])
    for title, content in zip(parts[1::2], parts[2::2], strict=True):
        yield f"**{title}**"
        if title in ("Parameters", "Attributes", "Raises", "Returns"):
            yield "\n".join(_items(content))
        else:
            yield from _paragraphs(content)


def _paragraphs(text: str) -> Iterator[str]:
    for paragraph in re.split(r"\n\s*\n", text.strip()):
        if paragraph.startswith(">>>"):
            yield _fenced("pycon", paragraph)
        elif paragraph:
            yield paragraph


def _items(content: str) -> Iterator[str]:
    """Yield `- **name**: what it is` for the entries of a docstring's section."""
    for item in re.split(r"^(?=\S)", content.strip(), flags=re.MULTILINE):
        if item:
            name, _, what = item.partition("\n")
            yield f"- **`{name.strip()}`**: {' '.join(what.split())}"


def _fenced(language: str, text: str) -> str:
    return f"```{language}\n{text}\n```"


# ---------------------------------------------------------------------- the command line


def _cli_page() -> str:
    from newnormal.cli.app import app

    root: Any = typer.main.get_command(app)
    blocks = [_CLI_INTRO, *_help(root.help), *_help(root.epilog), *_parameters(root)]
    blocks.append("Every command takes `-h` or `--help`, without what is under --help-all.")
    for words, command in _commands("newnormal", root):
        usage = [words, "[OPTIONS]", *(each.metavar for each in _arguments(command))]
        blocks += [f"## `{words}`", _fenced("text", " ".join(usage)), *_help(command.help)]
        blocks += _parameters(command)
    return "\n".join([_NOTE, "\n\n".join(block.strip() for block in blocks), ""])


def _commands(words: str, group: Any) -> Iterator[tuple[str, Any]]:
    """Yield every command below a group, with the words that call it."""
    for name, command in group.commands.items():
        if command.hidden:
            continue
        if hasattr(command, "commands"):
            if command.invoke_without_command:
                yield f"{words} {name}", command
            yield from _commands(f"{words} {name}", command)
        else:
            yield f"{words} {name}", command


def _help(text: str | None) -> Iterator[str]:
    """Yield a help text's paragraphs, those that are commands as code."""
    for paragraph in re.split(r"\n\s*\n", inspect.cleandoc(text or "")):
        flat = " ".join(paragraph.split())
        if re.search(r"(^|\| )newnormal \w", flat):
            yield _fenced("text", flat)
        elif flat:
            yield flat


def _arguments(command: Any) -> list[Any]:
    return [each for each in command.params if each.param_type_name == "argument"]


def _parameters(command: Any) -> Iterator[str]:
    hints = typing.get_type_hints(inspect.unwrap(command.callback)) if command.callback else {}
    arguments = _arguments(command)
    options = [each for each in command.params if each not in arguments and not each.hidden]
    if arguments:
        yield _table(
            ("argument", ""), ((f"`{each.metavar}`", str(each.help)) for each in arguments)
        )
    if options:
        yield _table(
            ("option", "default", ""),
            ((_spelled(each, hints), _default(each), str(each.help)) for each in options),
        )


def _spelled(option: Any, hints: dict[str, Any]) -> str:
    """Return how an option is written, with what it takes."""
    names = [f"`{name}`" for name in (*option.opts, *option.secondary_opts)]
    if not option.is_flag:
        names[0] = f"{names[0][:-1]} {option.metavar or _word(hints[option.name])}`"
    return ", ".join(names)


def _word(hint: Any) -> str:
    for kind in (hint, *typing.get_args(hint)):
        if typing.get_origin(kind) is typing.Literal:
            return "|".join(typing.get_args(kind))
    kind = next(each for each in typing.get_args(hint) or (hint,) if each is not type(None))
    return _WORDS[kind]


def _default(option: Any) -> str:
    if option.required:
        return "required"
    if isinstance(option.show_default, str):
        return option.show_default
    if option.is_flag and option.secondary_opts:
        return f"`{option.opts[0] if option.default else option.secondary_opts[0]}`"
    if option.is_flag or option.default is None:
        return ""
    return f"`{option.default}`"


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    escaped = ([cell.replace("|", r"\|") for cell in line] for line in lines)
    return "\n".join(f"| {' | '.join(line)} |" for line in escaped)


def _service_page() -> str:
    from newnormal.service.config_file import known_settings

    blocks, rows = [_SERVICE_INTRO], dict[str, list[tuple[str, ...]]]()
    for each in known_settings().values():
        table, _, name = each.name.rpartition(".")
        default = each.setting.shown()
        default = f"`{default}`" if default else ""
        if name == "workers":  # it differs between machines
            default = "the processors less one, at most 4"
        live = "live" if each.setting.live else ""
        row = (f"`{name}`", f"`{each.variable}`", default, live, each.setting.what)
        rows.setdefault(table, []).append(row)
    for table, lines in rows.items():
        blocks.append(f"## `[{table}]`" if table else "## At the top of the file")
        blocks.append(_table(("setting", "variable", "default", "", "what it is"), lines))
    blocks += [
        "## Tables with names",
        "In the environment, a variable has all of its tables as JSON.",
        _table(("table", "variable", "what it has"), _SERVICE_NAMED),
        _SERVICE_SECRETS,
    ]
    return "\n".join([_NOTE, "\n\n".join(block.strip() for block in blocks), ""])


def readme() -> str:
    """Return the README with its table made anew from the committed results."""
    start, end = "<!-- the table is written by `make docs` -->\n", "<!-- end of the table -->"
    before, _, rest = README.read_text(encoding="utf-8").partition(start)
    _, _, after = rest.partition(end)
    return f"{before}{start}{_results_table()}{end}{after}"


def _results_table() -> str:
    """Return what people have today and `Detector`, each a line: means over the collections."""
    alarms = [run for run in _lines_of("drift-alarms.csv") if run["measure"] == "alarms"]
    runs: dict[str, list[dict[str, str]]] = {}
    for run in alarms:
        if run["collection"] in _COLLECTIONS:
            runs.setdefault(run["row"], []).append(run)
    streams = {row: {run["dataset"] for run in own} for row, own in runs.items()}
    # A row that lacks a stream, such as one whose library was not installed, is no comparison.
    rows = [row for row in runs if streams[row] == streams["default"]]
    libraries = [row for row in rows if row.startswith(("River ", "PyOD "))]
    best = max(libraries, key=lambda row: _mean_of(_found, runs[row]), default="")
    names = {
        "fixed limit": ("a fixed limit", "which channel is beyond it"),
        "band by hour": ("a band by hour of day", "which channel is outside"),
        best: (f"{best}, the best of River and PyOD", "a score"),
        "default": (
            "**newnormal**, untuned",
            "which channels, since when, what was expected of each; "
            "and which changes wait to be accepted as normal",
        ),
    }
    head = f"on {len(streams['default'])} public streams | faults found | false alarms a day"
    lines = [
        f"| {head} | normal time in alarm | what it reports |",
        f"| ---{' | ---:' * 3} | --- |",
    ]
    for row, (name, reports) in names.items():
        if row in rows:
            found, false, in_alarm = (
                _mean_of(measure, runs[row]) for measure in (_found, _false_a_day, _in_alarm)
            )
            cells = (name, f"{found:.0%}", f"{false:.1f}", f"{in_alarm:.0%}", reports)
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _mean_of(measure: Callable[[list[dict[str, str]]], float], runs: list[dict[str, str]]) -> float:
    """Return the mean over the collections; every stream of one has the same number of seeds."""
    owners = {run["collection"] for run in runs}
    return mean(measure([run for run in runs if run["collection"] == owner]) for owner in owners)


def _lines_of(name: str) -> list[dict[str, str]]:
    with (_RESULTS / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _found(runs: list[dict[str, str]]) -> float:
    return _sum(runs, "found") / _sum(runs, "events")


def _false_a_day(runs: list[dict[str, str]]) -> float:
    return (_sum(runs, "openings") - _sum(runs, "true")) / _sum(runs, "days")


def _in_alarm(runs: list[dict[str, str]]) -> float:
    return _sum(runs, "in_alarm") / _sum(runs, "normal")


def _sum(runs: list[dict[str, str]], name: str) -> float:
    return sum(float(run[name]) for run in runs)


if __name__ == "__main__":
    main()
