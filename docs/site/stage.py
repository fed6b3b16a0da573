"""Write the pages of the site, from the pages as they are, into a folder; `make site` builds it.

::

    python -m docs.site.stage build/site

The pages are written for a reader of the repository: they link to files outside `docs`, and to
headings by GitHub's anchors. On the site

- the reference is written from the code (`docs/generate.py`);
- the README is the front page, and `docs/README.md` is the list of all pages;
- the other pages at the top of the repository are pages, too (`PAGES`);
- a link to a source file or a folder is its text, without a link;
- a picture is a link to itself: on a phone its text is too small;
- every heading has the anchor that GitHub gives it;
- the list of a page's own headings is left out: the site has one beside every page.

So mkdocs.yml needs no hooks, and another generator that reads it can take the place of MkDocs.
"""

from __future__ import annotations

import posixpath
import re
import shutil
import sys
from pathlib import Path

from docs.generate import REFERENCE, anchors, reference

ROOT = Path(__file__).parents[2]

# Pages whose place on the site is not their place under `docs`.
PAGES = {
    "README.md": "index.md",
    "docs/README.md": "contents.md",
    "ARCHITECTURE.md": "architecture.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
}
# Pages that have no others beside them in the navigation: their column of it would be empty.
_ALONE = ("index.md", "tutorial.md")
_WIDE = "---\nhide: [navigation]\n---\n\n"
# What is copied beside them: pictures, tables, and the files of the site itself.
_KINDS = (".png", ".csv", ".ipynb")
_OWN = ("docs/site/site.css", "docs/site/favicon.svg", "docs/site/worker.js")
_VENDOR = "src/newnormal/vendor/iframe-worker/iframe-worker.js"  # is at vendor/ on the site

_FENCE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
_LINK = re.compile(
    r"(?P<code>(?<!\[)`[^`\n]+`(?!\]))"
    r"|(?P<picture>!?)\[(?P<text>[^]]*)\]\((?P<target>[^)\s]+)\)"
)
_CONTENTS = re.compile(r"(?:^ *- \[[^]]+\]\(#[^)]+\)\n){3,}", re.MULTILINE)
_HEADING = re.compile(r"^(#+ +.+?) *$", re.MULTILINE)
# Lists below a list are indented by two columns here, and by four in Python-Markdown.
_NESTED = re.compile(r"^((?:  )+)(?=(?:[-*]|\d+\.) )", re.MULTILINE)


def main(arguments: list[str] | None = None) -> int:
    """Write the pages into the folder that is the only argument; return the exit code."""
    (folder,) = sys.argv[1:] if arguments is None else arguments
    stage(Path(folder))
    return 0


def stage(target: Path) -> None:
    """Write all pages, pictures and tables of the site into a folder, in place of what it held."""
    shutil.rmtree(target, ignore_errors=True)
    docs = ROOT / "docs"
    written = {path for path in docs.rglob("*.md") if path.parent != REFERENCE}
    written |= {ROOT / name for name in PAGES}
    pages = {path: path.read_text(encoding="utf-8") for path in sorted(written)} | reference()
    for path, text in pages.items():
        name = path.relative_to(ROOT).as_posix()
        page = target / PAGES.get(name, name.removeprefix("docs/"))
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(rewrite(name, text), encoding="utf-8")
    others = [path for path in docs.rglob("*") if path.suffix in _KINDS]
    copied = {path.relative_to(docs).as_posix(): path for path in others}
    copied |= {name.removeprefix("docs/"): ROOT / name for name in _OWN}
    copied[_VENDOR.removeprefix("src/newnormal/")] = ROOT / _VENDOR
    for name, path in copied.items():
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target / name)


def rewrite(name: str, markdown: str) -> str:
    """Return a page of the repository as one of the site."""
    place = PAGES.get(name, name.removeprefix("docs/"))
    markdown = _CONTENTS.sub("", markdown)
    ids = iter(anchors(markdown))

    def linked(match: re.Match[str]) -> str:
        target = match["target"]
        if not target or re.match(r"[a-z]+:|#", target):
            return match[0]
        new = link(name, place, target)
        if new and match["picture"]:
            return f"[![{match['text']}]({new})]({new})"
        return f"[{match['text']}]({new})" if new else match["text"]

    parts = _FENCE.split(markdown)  # prose, code, prose, ...
    for i, prose in enumerate(parts[::2]):
        headed = _HEADING.sub(lambda each: f"{each[1]} {{ #{next(ids)} }}", prose)
        parts[2 * i] = _NESTED.sub(lambda each: 2 * each[1], _LINK.sub(linked, headed))
    return (_WIDE if place in _ALONE else "") + "".join(parts)


def link(name: str, place: str, target: str) -> str | None:
    """Return a link of the page `name` of the repository as one of the site's page `place`.

    None if the site does not have its target.

    >>> link("docs/guides/data.md", "guides/data.md", "../README.md#files")
    '../contents.md#files'
    >>> link("README.md", "index.md", "docs/img/fleet.png")
    'img/fleet.png'
    >>> link("README.md", "index.md", "src/newnormal/types.py") is None
    True
    """
    path, mark, anchor = target.partition("#")
    there = posixpath.normpath(posixpath.join(posixpath.dirname(name), path))
    on_site = there in PAGES or there.startswith("docs/")
    if not on_site or (ROOT / there).is_dir():
        return None
    there = PAGES.get(there, there.removeprefix("docs/"))
    return posixpath.relpath(there, posixpath.dirname(place) or ".") + mark + anchor


if __name__ == "__main__":
    sys.exit(main())
