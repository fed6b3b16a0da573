"""One self-contained HTML page of all results, in the order of the paper.

It is made from the Markdown and the figures that the experiments wrote into a folder. The section
of an experiment that has not been run shows its command.
"""

import html
import re
from importlib.resources import files
from pathlib import Path

import newnormal
from newnormal.errors import InputError
from newnormal_reproduce.registry import ENTRIES, ExperimentEntry
from newnormal_reproduce.report.markdown import render

_BEYOND = re.compile(r"(\d+) of the (\d+) figures for which")
_SEEDS = re.compile(r"seeds? ([\d, ]+\d)")
_UNEQUAL = re.compile(r"\((\d+(?: to \d+)?) of \d+(?:, \d+)*\)")


def build(folder: Path, name: str = "index.html") -> Path:
    """Write the page of a folder's results into that folder, and return its path."""
    if not folder.is_dir():
        raise InputError(
            f"expected a folder with results, found none at {folder}",
            hint="run an experiment first, such as `newnormal reproduce cost -o " + f"{folder}`",
        )
    texts = {entry.name: _read(folder / f"{entry.name}.md") for entry in ENTRIES}
    details = {entry.name: _read(folder / f"{entry.name}-detail.md") for entry in ENTRIES}
    body = "\n".join(
        _section(entry, texts[entry.name], details[entry.name], folder) for entry in ENTRIES
    )
    path = folder / name
    template, style = (
        files(__package__).joinpath(f"site.{ending}").read_text("utf-8")
        for ending in ("html", "css")
    )
    page = template.format(
        style=style, overview=_overview(texts), version=newnormal.__version__, body=body
    )
    path.write_text(page, encoding="utf-8", newline="\n")
    return path


def _read(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.is_file() else None


def _overview(texts: dict[str, str | None]) -> str:
    rows = []
    for entry in ENTRIES:
        text = texts[entry.name]
        state = _state(text) if text is not None else "not run yet"
        kind = "" if text is not None else ' class="absent"'
        labels = ", ".join(entry.labels) or "ours"
        rows.append(
            f'<tr{kind}><td><a href="#{entry.name}">{entry.title}</a></td>'
            f"<td>{html.escape(labels)}</td><td>{state}</td></tr>"
        )
    return (
        '<div class="table"><table class="overview"><thead><tr><th>part</th><th>in the paper</th>'
        f"<th>state</th></tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )


def _state(text: str) -> str:
    """Return the state of a page: its seeds, and how many figures agree."""
    parts = []
    unequal, seeds = _UNEQUAL.search(text), _SEEDS.search(text)
    if unequal is not None or seeds is not None:
        count = unequal[1] if unequal else str(len(seeds[1].split(",")) if seeds else 0)
        parts.append(f"{count} seed{'s'[: count != '1']}")
    if (within := _BEYOND.search(text)) is not None:
        parts.append(f"{within[1]} of {within[2]} figures agree")
    if absent := _absent(text):
        parts.append(f"{absent} not run")
    return "run" + (f": {', '.join(parts)}" if parts else "")


def _absent(text: str) -> int:
    _, _, rest = _parted(text)
    return max(sum(line.startswith("| ") for line in rest.splitlines()) - 2, 0)


def _section(entry: ExperimentEntry, text: str | None, detail: str | None, folder: Path) -> str:
    labels = "".join(f"<code>{html.escape(label)}</code> " for label in entry.labels)
    parts = [
        f'<section id="{entry.name}">',
        f'<p class="labels">{labels or "<span>ours</span>"}</p>',
    ]
    if text is None:
        parts += [
            f"<h2>{entry.title}</h2>",
            f'<p class="missing">Not run yet. {html.escape(entry.about)} To get it: '
            f"<code>{entry.command}</code></p>",
        ]
    else:
        results, heading, missing = _parted(text)
        parts.append(render(results, folder, link=_link))
        if missing:
            parts += [
                f"<details><summary>{heading}: what, and how to get it</summary>",
                render(missing, folder, link=_link),
                "</details>",
            ]
    if detail is not None:
        parts += [
            f'<details id="{entry.name}-detail"><summary>In detail</summary>',
            render(detail, folder, level=3, link=_link),
            "</details>",
        ]
    return "\n".join([*parts, "</section>"])


def _parted(text: str) -> tuple[str, str, str]:
    """Return a page's text, and the section at its end about what was not run."""
    parts = re.split(r"^## (Not run|Not found)$", text, maxsplit=1, flags=re.MULTILINE)
    return (parts[0], parts[1], parts[2]) if len(parts) == 3 else (text, "", "")


def _link(target: str) -> str:
    """Return a link within this page if the target is another experiment's page."""
    name, ending, anchor = target.partition(".md")
    names = {entry.name for entry in ENTRIES}
    if ending and not anchor and name.removesuffix("-detail") in names:
        return f"#{name}"
    return target
