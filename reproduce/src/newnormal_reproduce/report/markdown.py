"""From the Markdown that experiments write to HTML: figures embedded, tables with marked cells."""

import base64
import html
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby, takewhile
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token

_MARKDOWN = MarkdownIt("commonmark", {"html": False}).enable("table")
_RENDERER = RendererHTML()
_SHARP = 120_000  # bytes up to which an SVG is used even if the PNG is smaller
_NUMBER = re.compile(r"^\W{0,4}[\d.,]+(e[+-]?\d+)?\s*%?(\W*±\W*[\d.,e+-]+\W*)?$|^-?$")
_TYPES = {".svg": "image/svg+xml", ".png": "image/png"}


def render(
    text: str, folder: Path, *, level: int = 2, link: Callable[[str], str] = lambda target: target
) -> str:
    """Return Markdown as HTML, with the figures of the folder embedded.

    `text`: Markdown, with tables; a paragraph that is an image is a figure with a caption.
    `folder`: the folder of the figures. `level`: the heading level of ``#``; ``##`` is one below
    it. `link`: from a link's target to the target in the page.

    Examples
    --------
    >>> print(render("Some *text*.", Path()))
    <p>Some <em>text</em>.</p>
    """
    tokens = _MARKDOWN.parse(text)
    for token in tokens:
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(level + int(token.tag[1]) - 1, 6)}"
        for child in token.children or ():
            if child.type == "link_open":
                child.attrSet("href", link(str(child.attrGet("href"))))
            elif child.type == "softbreak":
                child.type, child.content = "text", " "
    blocks = list(_with_figures(tokens, folder))
    return _RENDERER.render(blocks, _MARKDOWN.options, {}).rstrip("\n")


def data_uri(folder: Path, name: str) -> str | None:
    """Return a figure as a data URI: the SVG if it is small, else the smaller of SVG and PNG."""
    stem = folder / name
    files = [path for path in (stem.with_suffix(ending) for ending in _TYPES) if path.is_file()]
    if not files:
        return None
    sizes = {path: path.stat().st_size for path in files}
    best = files[0] if sizes[files[0]] <= _SHARP else min(files, key=sizes.__getitem__)
    content = base64.b64encode(best.read_bytes()).decode()
    return f"data:{_TYPES[best.suffix]};base64,{content}"


def _with_figures(tokens: Sequence[Token], folder: Path) -> Iterator[Token]:
    """Yield the tokens, with a block of HTML for each table and each figure."""
    rest = iter(tokens)
    for token in rest:
        if token.type == "table_open":
            rows: list[list[Token]] = []
            for inner in takewhile(lambda inner: inner.type != "table_close", rest):
                if inner.type == "tr_open":
                    rows.append([])
                elif inner.type == "inline":
                    rows[-1].append(inner)
            yield Token("html_block", "", 0, content=_table(*rows))
        elif token.type == "paragraph_open":
            inline, close = next(rest), next(rest)
            children = inline.children or []
            if [child.type for child in children] == ["image"]:
                yield Token("html_block", "", 0, content=_figure(children[0], folder))
            else:
                yield from (token, inline, close)
        else:
            yield token


def _table(header: Sequence[Token], *rows: Sequence[Token]) -> str:
    columns = list(zip(*rows, strict=True)) or [()] * len(header)
    looks = [_look(name, column) for name, column in zip(header, columns, strict=True)]
    head = "".join(
        f"<th{look}>{_inline(name)}</th>" for name, look in zip(header, looks, strict=True)
    )
    body = []
    for _, members in groupby(rows, key=lambda row: row[0].content):
        for nth, row in enumerate(members):
            oracle = any("(oracle)" in cell.content for cell in row)
            cells = [_first_cell(row[0], again=nth > 0), *map(_inline, row[1:])]
            columns_of_row = zip(cells, looks, strict=True)
            inside = "".join(f"<td{look}>{cell}</td>" for cell, look in columns_of_row)
            body.append(f"<tr{_class(group=nth == 0, oracle=oracle)}>{inside}</tr>")
    return (
        f'<div class="table" tabindex="0"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(body)}</tbody></table></div>\n"
    )


def _look(header: Token, column: Sequence[Token]) -> str:
    """Return the class of a column: numbers to the right, the paper's and oracles marked."""
    numeric = sum(bool(_NUMBER.match(cell.content.strip("*"))) for cell in column)
    name = header.content.lower()
    return _class(
        number=2 * numeric > len(column) and any(cell.content for cell in column),
        paper=name in ("paper", "authors"),
        difference=name == "difference",
        oracle="oracle" in name,
    )


def _first_cell(cell: Token, *, again: bool) -> str:
    inside = _inline(cell)
    if "<" not in inside:  # a long path may be broken after its parts
        inside = re.sub(r"([/_])(?=\w)", r"\1<wbr>", inside)
    return f'<span class="again">{inside}</span>' if again else inside


def _figure(image: Token, folder: Path) -> str:
    target = str(image.attrGet("src"))
    if (uri := data_uri(folder, target)) is None:
        return f'<p class="missing">The figure {html.escape(target)} is missing.</p>\n'
    plain = _RENDERER.renderInlineAsText(image.children, _MARKDOWN.options, {})
    return (
        f'<figure><img src="{uri}" alt="{html.escape(plain)}"><figcaption>{_inline(image)}'
        "</figcaption></figure>\n"
    )


def _inline(token: Token) -> str:
    return _RENDERER.renderInline(token.children or [], _MARKDOWN.options, {})


def _class(**kinds: bool) -> str:
    names = " ".join(name for name, holds in kinds.items() if holds)
    return f' class="{names}"' if names else ""
