"""House rules that no linter knows: sizes, classes, private names, one decision, plain English."""

import ast
import io
import re
import tokenize
import tomllib
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import newnormal

ROOT = Path(__file__).parents[2]
SOURCE = Path(newnormal.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))
NAMES = [str(path.relative_to(SOURCE)) for path in FILES]


@cache
def text_of(name: str) -> str:
    return (SOURCE / name).read_text()


@cache
def tree_of(name: str) -> ast.Module:
    return ast.parse(text_of(name))


def package_of(name: str) -> str:
    """Return the package of a file; the modules at the top are one package, newnormal itself."""
    parts = Path(name).parts
    return parts[0] if len(parts) > 1 else ""


# ------------------------------------------------------------------ sizes


def test_no_module_has_more_than_900_lines_and_a_long_one_says_why() -> None:
    """The docstring of a module of over 450 lines has a line `One module because ...`."""
    lines = {name: len(text_of(name).splitlines()) for name in NAMES}
    too_long = {name: count for name, count in lines.items() if count > 900}
    too_long |= {name: lines[name] for name in ("core/loop.py",) if lines[name] > 150}
    assert too_long == {}
    long = [name for name, count in lines.items() if count > 450]
    reason = re.compile(r"^One module because \S+ \S+", re.MULTILINE)
    assert [
        name for name in long if not reason.search(ast.get_docstring(tree_of(name)) or "")
    ] == []


def lines_below(*folders: str) -> int:
    paths = (path for folder in folders for path in (ROOT / folder).rglob("*.py"))
    return sum(len(path.read_text().splitlines()) for path in paths)


def test_package_and_tests_keep_within_their_lines() -> None:
    assert lines_below("tests") <= 73_400
    assert lines_below("src/newnormal") <= 81_000
    assert lines_below("src/newnormal", "reproduce") <= 90_800


# ------------------------------------------------------------------ classes


def bases_of(node: ast.ClassDef) -> list[str]:
    """Return the names of a class's bases, without their modules and type arguments."""
    return [ast.unparse(base).partition("[")[0].rpartition(".")[2] for base in node.bases]


CLASSES = [
    (name, node)
    for name in NAMES
    for node in ast.walk(tree_of(name))
    if isinstance(node, ast.ClassDef)
]


def test_a_class_name_is_used_once_in_the_package() -> None:
    counts = Counter(node.name for _, node in CLASSES)
    assert [name for name, count in counts.items() if count > 1] == []


def test_a_class_is_in_one_file() -> None:
    """A base serves several classes, or is used by itself, or stands beside its one subclass."""
    files = {node.name: name for name, node in CLASSES}
    subclasses: dict[str, list[str]] = {}
    for _, node in CLASSES:
        for base in set(bases_of(node)) & files.keys() - {node.name}:
            subclasses.setdefault(base, []).append(node.name)
    used = {
        name
        for each in NAMES
        for name in names_used(tree_of(each))
        if name in subclasses and files[name] != each
    }
    split = {
        base: below[0]
        for base, below in subclasses.items()
        if len(below) == 1 and files[base] != files[below[0]] and base not in used
    }
    assert split == {}


def names_used(tree: ast.Module) -> Iterator[str]:
    """Give the names that a module uses other than as the base of a class, annotations too."""
    as_bases = {
        id(part)
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        for base in node.bases
        for part in ast.walk(base)
    }
    for node in ast.walk(tree):
        if id(node) not in as_bases:
            if isinstance(node, ast.Name):
                yield node.id
            elif isinstance(node, ast.Attribute):
                yield node.attr
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value.rpartition(":")[2]  # of "module:Class", imported late


def test_only_public_modules_have_all() -> None:
    public = {"client.py", "errors.py"}
    public |= {name for name in NAMES if name.endswith("__init__.py")}
    assigned = re.compile(r"^__all__\b", re.MULTILINE)
    assert {name for name in NAMES if assigned.search(text_of(name))} - public == set()


# ------------------------------------------------------------------ private names

_NAMED_TUPLES = {"_replace", "_asdict", "_make", "_fields"}  # public, whatever the underscore


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name not in _NAMED_TUPLES


@cache
def own_names(package: str) -> frozenset[str]:
    """Return the private names that the files of a package define, on classes and objects too."""
    found = set()
    for name in NAMES:
        if package_of(name) != package:
            continue
        for node in ast.walk(tree_of(name)):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                found.add(node.name)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                found.add(node.id)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                found.add(node.attr if ast.unparse(node.value) in ("self", "cls") else "")
    return frozenset(filter(is_private, found))


def imported(tree: ast.Module) -> dict[str, str]:
    """Return what each imported name is: the full name of a module, or of something in one."""
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                found[alias.asname or alias.name.partition(".")[0]] = alias.name
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                found[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return found


def module_package(full: str) -> str | None:
    """Return the package of newnormal that a full name is in; None for other libraries."""
    parts = full.split(".")
    if parts[0] != "newnormal":
        return None
    inside = len(parts) > 1 and (SOURCE / parts[1]).is_dir()
    return parts[1] if inside else ""


def foreign_names(name: str) -> Iterator[str]:
    package, known = package_of(name), imported(tree_of(name))
    for full in known.values():
        if any(map(is_private, full.split("."))) and module_package(full) not in (None, package):
            yield f"import of {full}"
    for node in ast.walk(tree_of(name)):
        if not isinstance(node, ast.Attribute) or not is_private(node.attr):
            continue
        base = node.value
        if ast.unparse(base) in ("self", "cls", "super()"):
            continue
        if isinstance(base, ast.Name) and base.id in known:
            owner = module_package(known[base.id])
            if owner is None or owner == package:  # another library's, or our own
                continue
        elif node.attr in own_names(package):
            continue
        yield f"line {node.lineno}: {ast.unparse(node)}"


def test_nobody_outside_a_package_uses_its_private_names() -> None:
    assert [f"{name}: {each}" for name in NAMES for each in foreign_names(name)] == []


# ------------------------------------------------------------------ one decision

_DECIDING = ("alarms", "acceptance", "models", "runtime", "core", "kernels", "thresholds", "")
_ORDERS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)


def operands(node: ast.Compare) -> Iterator[str]:
    for each in (node.left, *node.comparators):
        if isinstance(each, ast.Name):
            yield each.id
        elif isinstance(each, ast.Attribute):
            yield each.attr
        elif isinstance(each, ast.Subscript):
            yield ast.unparse(each.value).rpartition(".")[2]


def test_only_the_decision_compares_with_a_threshold() -> None:
    found = {
        f"{name}, line {node.lineno}: {ast.unparse(node)}"
        for name in NAMES
        if package_of(name) in _DECIDING
        for node in ast.walk(tree_of(name))
        if isinstance(node, ast.Compare) and any(isinstance(op, _ORDERS) for op in node.ops)
        if any("threshold" in each for each in operands(node))
    }
    assert len(found) == 2, found
    assert all(each.startswith("kernels/decision.py, ") for each in found), found


# ------------------------------------------------------------------ no printing, no drawing

_DRAWING = ("rich", "tqdm", "progressbar", "alive_progress")


def drawing(name: str) -> Iterator[str]:
    for full in imported(tree_of(name)).values():
        if full.partition(".")[0] in _DRAWING:
            yield f"import of {full}"
    for node in ast.walk(tree_of(name)):
        if isinstance(node, ast.Call):
            found = ast.unparse(node.func) in ("print", "input")
        elif isinstance(node, ast.Attribute):
            found = ast.unparse(node) in ("sys.stdout", "sys.stderr")
            found = found and isinstance(node.ctx, ast.Load)  # to set it writes nothing
        else:
            continue
        if found:
            yield f"line {node.lineno}: {ast.unparse(node)}"


def test_library_code_neither_prints_nor_draws() -> None:
    # What a sink writes to standard output is data.
    library = [name for name in NAMES if not name.startswith(("cli/", "io/sinks/"))]
    assert [f"{name}: {each}" for name in library for each in drawing(name)] == []


# ------------------------------------------------------------------ plain English

_THINGS = r"(detector|model|window|vote|member|expert|score|sample|peak|moment|run|alarm|row)"

# Metaphors and turns of phrase that a stranger stumbles over, each with what to write instead.
OLD_ENGLISH = {
    r"\blet (the|a|an|it|its|this|that|each|every|what) ": "the verb itself",
    r"\bwhoever\b": "the user, or the passive",
    r"\bwhat (came|comes) of\b": "the result",
    r"\bfor ever\b": "without end, or never",
    r"\bas you can bear\b": "a number",
    r"\b(un)?heard\b|\bhears?\b": "has weight, counts, is scored",
    r"\bbelie(ves?|ved|fs?)\b": "estimates, assumes",
    r"\bdesk\b": "log",
    r"\bchambers?\b": "committee",
    r"\bcharters?\b": "parameters",
    r"\bat home\b": "inside",
    r"\b(its|their|next|one's) turn\b": "review",
    r"\bspokes(man|men|person)\b": "reported expert",
    r"\bkeepers?\b": "acceptance",
    r"\brehears": "test",
    r"\bleftovers?\b": "residual",
    r"\ba say\b|\bhas its say\b": "a weight, a decision",
    rf"\b{_THINGS}s?`? (say|tell)s?\b": "has, gives, decides, reports: a thing does not speak",
    rf"\b{_THINGS}s?`? (said|told)\b": "found, gave, decided, reported",
    r"\b(is|are|was|were|be|been) (said|told)\b(?! (from|apart)\b)": "is reported, is taken to be",
    r"\bperson's word\b|\bgives? (its|his|their|your) word\b": "feedback",
    r"\bnot (un|in)\w+ (un|without)": "the positive",
}


def prose(name: str) -> Iterator[tuple[int, str]]:
    """Give the docstrings and comments of a file, with their lines."""
    for node in ast.walk(tree_of(name)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            docstring = ast.get_docstring(node)
            if docstring is not None:
                yield node.body[0].lineno, docstring
    for token in tokenize.generate_tokens(io.StringIO(text_of(name)).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def test_docstrings_and_comments_are_plain_english() -> None:
    found = [
        f"{name}, line {line}: {match.group()!r}; write: {instead}"
        for name in NAMES
        for line, text in prose(name)
        for phrase, instead in OLD_ENGLISH.items()
        for match in re.finditer(phrase, " ".join(text.split()), re.IGNORECASE)
    ]
    assert found == [], "\n".join(found)


def test_the_phrases_are_found_where_they_are() -> None:
    examples = [
        "Let the time that something new must last begin at this sample.",
        "Who finds less than a third is not heard.",
        "A fault is told whatever has been spent.",
        "have as many alarms as you can bear",
        "Look at what came of it.",
    ]
    for text in examples:
        assert any(re.search(phrase, text, re.IGNORECASE) for phrase in OLD_ENGLISH), text


# ------------------------------------------------------------------ layers, and what the docs name


def test_every_package_is_in_the_layers() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    contracts = settings["tool"]["importlinter"]["contracts"]
    (layers,) = [each for each in contracts if each["type"] == "layers"]
    assert layers["exhaustive"] is True
    assert layers["containers"] == ["newnormal"]
    assert "ignore_imports" not in layers
    named = {part.strip() for layer in layers["layers"] for part in layer.split(":")}
    own = {path.stem for path in SOURCE.glob("*.py") if path.stem != "__init__"}
    own |= {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    assert named == own


def test_contributing_names_files_that_exist() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    named = set(re.findall(r"`([\w.-]+/[\w./-]+\.(?:py|md|toml|txt|nn))`", text))
    missing = [each for each in named if not (ROOT / each).exists()]
    assert [each for each in missing if not (SOURCE / each).exists()] == []
