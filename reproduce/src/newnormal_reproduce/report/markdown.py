"""From the Markdown that experiments write to HTML: headings, lists, tables and figures."""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from pathlib import Path

_SHARP = 120_000  # bytes up to which an SVG is used even if the PNG is smaller
_NUMBER = re.compile(r"^\W{0,4}[\d.,]+(e[+-]?\d+)?\s*%?(\W*±\W*[\d.,e+-]+\W*)?$|^-?$")
_TYPES = {".svg": "image/svg+xml", ".png": "image/png"}


def render(
    text: str, folder: Path, *, level: int = 2, link: Callable[[str], str] = lambda target: target
) -> str:
    """Return Markdown as HTML, with the figures of the folder embedded.

    Parameters
    ----------
    text
        Markdown as `newnormal_reproduce` writes it; other Markdown may become plain text.
    folder
        The folder of the figures.
    level
        The heading level of ``#``; ``##`` is one below it.
    link
        From a link's target to the target in the page.

    Examples
    --------
    >>> print(render("Some *text*.", Path()))
    <p>Some <em>text</em>.</p>
    """
    parts = []
    for block in _blocks(text):
        first = block[0]
        if first.startswith("#"):
            marks = len(first) - len(first.lstrip("#"))
            depth = min(level + marks - 1, 6)
            parts.append(f"<h{depth}>{_inline(first[marks:].strip(), link)}</h{depth}>")
        elif first.startswith("|"):
            parts.append(_table(block, link))
        elif first.startswith("!["):
            parts.append(_figure(" ".join(block), folder, link))
        elif first.startswith("- "):
            items = "".join(f"<li>{_inline(item, link)}</li>" for item in _items(block))
            parts.append(f"<ul>{items}</ul>")
        elif first.startswith("```"):
            inside = html.escape("\n".join(block[1:-1]))
            parts.append(f"<pre><code>{inside}</code></pre>")
        else:
            parts.append(f"<p>{_inline(' '.join(block), link)}</p>")
    return "\n".join(parts)


def data_uri(folder: Path, name: str) -> str | None:
    """Return a figure as a data URI: the SVG if it is small, else the smaller of SVG and PNG."""
    stem = folder / name
    found = [path for path in (stem.with_suffix(ending) for ending in _TYPES) if path.is_file()]
    if not found:
        return None
    sizes = {path: path.stat().st_size for path in found}
    best = found[0] if sizes[found[0]] <= _SHARP else min(found, key=sizes.__getitem__)
    content = base64.b64encode(best.read_bytes()).decode()
    return f"data:{_TYPES[best.suffix]};base64,{content}"


def _blocks(text: str) -> Iterator[list[str]]:
    """Yield the blocks between blank lines; a heading, a figure and a list are blocks."""
    block: list[str] = []
    fenced = False
    for line in [*text.splitlines(), ""]:
        fence = line.startswith("```")
        if fenced:
            block.append(line)
            if fence:
                yield block
                block, fenced = [], False
            continue
        starts = fence or line.startswith(("#", "!["))
        kind_changes = bool(block) and (_kind(line) != _kind(block[0])) and _kind(line) != "text"
        if block and (starts or not line.strip() or kind_changes):
            yield block
            block = []
        if line.strip():
            block.append(line)
            fenced = fence
            if line.startswith("#"):
                yield block
                block = []


def _kind(line: str) -> str:
    return {"|": "table", "-": "list"}.get(line[:1], "text")


def _items(block: Sequence[str]) -> list[str]:
    items: list[str] = []
    for line in block:
        if line.startswith("- "):
            items.append(line[2:].strip())
        else:
            items[-1] += " " + line.strip()
    return items


def _table(block: Sequence[str], link: Callable[[str], str]) -> str:
    header, _, *rows = [_cells(line) for line in block]
    columns = list(zip(*rows, strict=False)) or [()] * len(header)
    looks = [_look(name, column) for name, column in zip(header, columns, strict=True)]
    head = "".join(
        f"<th{look}>{_inline(name, link)}</th>" for name, look in zip(header, looks, strict=True)
    )
    body = []
    for _, members in groupby(rows, key=lambda row: row[0]):
        for nth, row in enumerate(members):
            kinds = ["group"] * (nth == 0) + ["oracle"] * any("(oracle)" in cell for cell in row)
            cells = "".join(
                f"<td{look}>{_cell(cell, at, nth > 0, link)}</td>"
                for at, (cell, look) in enumerate(zip(row, looks, strict=True))
            )
            body.append(f"<tr{_class(kinds)}>{cells}</tr>")
    return (
        f'<div class="table" tabindex="0"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(body)}</tbody></table></div>"
    )


def _look(name: str, column: Sequence[str]) -> str:
    """Return the class of a column: numbers to the right, the paper's and oracles marked."""
    numeric = sum(bool(_NUMBER.match(cell.strip("*"))) for cell in column)
    kinds = ["number"] * (2 * numeric > len(column) and any(column))
    lowered = name.lower()
    kinds += ["paper"] * (lowered in ("paper", "authors"))
    kinds += ["difference"] * (lowered == "difference")
    kinds += ["oracle"] * ("oracle" in lowered)
    return _class(kinds)


def _cell(cell: str, column: int, again: bool, link: Callable[[str], str]) -> str:
    inside = _inline(cell, link)
    if column > 0:
        return inside
    if "<" not in inside:  # a long path may be broken after its parts
        inside = re.sub(r"([/_])(?=\w)", r"\1<wbr>", inside)
    return f'<span class="again">{inside}</span>' if again else inside


def _cells(line: str) -> list[str]:
    parts = re.split(r"(?<!\\)\|", line.strip())[1:-1]
    return [part.strip().replace("\\|", "|") for part in parts]


def _figure(text: str, folder: Path, link: Callable[[str], str]) -> str:
    match = re.match(r"!\[(.*)\]\(([^)]+)\)", text)
    if match is None:
        return f"<p>{_inline(text, link)}</p>"
    caption, target = match.groups()
    shown = data_uri(folder, target)
    plain = html.escape(re.sub(r"[*`\\]", "", caption))
    if shown is None:
        return f'<p class="missing">The figure {html.escape(target)} is missing.</p>'
    return (
        f'<figure><img src="{shown}" alt="{plain}"><figcaption>{_inline(caption, link)}'
        "</figcaption></figure>"
    )


def _inline(text: str, link: Callable[[str], str]) -> str:
    """Return text with code, bold, emphasis and links."""
    kept: list[str] = []

    def keep(content: str) -> str:
        kept.append(content)
        return f"\0{len(kept) - 1}\0"

    text = re.sub(r"`([^`]+)`", lambda m: keep(f"<code>{html.escape(m[1])}</code>"), text)
    text = re.sub(r"\\([*_|\\`])", lambda m: keep(html.escape(m[1])), text)
    text = html.escape(text, quote=False)
    text = re.sub(
        r"\[([^\]]+)\]\(([^)]+)\)",
        lambda m: f"{keep(f'<a href={chr(34)}{html.escape(link(m[2]))}{chr(34)}>')}{m[1]}</a>",
        text,
    )
    text = re.sub(r"\*\*(.+?)\*\*", r"<strong>\1</strong>", text)
    text = re.sub(r"(?<!\w)\*(?!\s)(.+?)(?<!\s)\*(?!\w)", r"<em>\1</em>", text)
    return re.sub(r"\0(\d+)\0", lambda m: kept[int(m[1])], text)


def _class(kinds: Sequence[str]) -> str:
    return f' class="{" ".join(kinds)}"' if kinds else ""
