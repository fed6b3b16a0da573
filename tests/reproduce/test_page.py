"""The one page: all that was run is in it, nothing is asked of the network, nothing is lost."""

import base64
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from newnormal.errors import InputError
from newnormal_reproduce.registry import ENTRIES
from newnormal_reproduce.report.markdown import render
from newnormal_reproduce.report.site import build

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
RESULTS = """\
# The ablation

Made by `newnormal reproduce ablation --data DIR`, seeds 2021, 2022. See [the data](datasets.md)
and [all of it](ablation-detail.md) and [ablation.csv](ablation.csv).

![Bars & <lines>.](bars.png)

| data set | rule | ours | paper | difference | best F1 (oracle) |
| --- | --- | --- | --- | --- | --- |
| SMD/1-4 | Q97 | 0.463 ± 0.006 | 0.463 ± 0.006 | +0.000 | 0.5 |
| SMD/1-4 | Q\\* (oracle) | 0.3 | 0.1 | **+0.200** | 0.5 |

1 of the 2 figures for which the paper prints a deviation are within.

## Not run

| data set | why |
| --- | --- |
| SWaT | get it \\| ask |
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "ablation.md").write_text(RESULTS, encoding="utf-8")
    (tmp_path / "ablation-detail.md").write_text("# Detail\n\nMore.\n", encoding="utf-8")
    (tmp_path / "bars.png").write_bytes(PIXEL)
    return tmp_path


class Outline(HTMLParser):
    """Tags that are open, ids, and whatever could be fetched."""

    VOID = ("meta", "img", "br", "wbr")

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.targets: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in self.VOID:
            self.open.append(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(value or "")
            if name in ("href", "src"):
                self.targets.append(value or "")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_is_well_formed_asks_for_nothing_and_its_links_have_targets(folder: Path) -> None:
    page = build(folder).read_text(encoding="utf-8")
    outline = Outline(page)
    assert outline.open == []
    assert all(
        target.startswith(("#", "data:")) or target == "ablation.csv" for target in outline.targets
    )
    assert "<script" not in page
    assert "@import" not in page
    assert "url(" not in page
    outline = Outline(build(folder).read_text(encoding="utf-8"))
    assert {target[1:] for target in outline.targets if target.startswith("#")} <= set(outline.ids)


def test_every_section_is_there_and_the_overview_says_what_is_missing_and_how_to_run_it(
    folder: Path,
) -> None:
    page = build(folder).read_text(encoding="utf-8")
    for entry in ENTRIES:
        assert f'<section id="{entry.name}">' in page
        if entry.name != "ablation":
            assert f"<code>{entry.command}</code>" in page
    assert "run: 2 seeds, 1 of 2 figures agree, 1 not run" in page


def test_oracles_and_differences_are_marked(folder: Path) -> None:
    page = build(folder).read_text(encoding="utf-8")
    assert '<th class="number oracle">best F1 (oracle)</th>' in page
    assert re.search(r'<tr class="oracle"><td><span class="again">SMD/<wbr>1-4</span>', page)
    assert '<td class="number difference"><strong>+0.200</strong></td>' in page
    assert '<td class="number paper">0.463 ± 0.006</td>' in page


def test_pictures_with_captions_are_inside_and_details_folded(folder: Path) -> None:
    page = build(folder).read_text(encoding="utf-8")
    assert base64.b64encode(PIXEL).decode() in page
    assert "<figcaption>Bars &amp; &lt;lines&gt;.</figcaption>" in page
    assert '<details id="ablation-detail"><summary>In detail</summary>\n<h3>Detail</h3>' in page


def test_a_missing_picture_is_said_to_be_missing(tmp_path: Path) -> None:
    assert "nothing.png is missing" in render("![A.](nothing.png)", tmp_path)


def test_the_same_results_give_the_same_page(folder: Path) -> None:
    assert build(folder).read_bytes() == build(folder).read_bytes()


def test_an_absent_folder_is_refused_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="expected a folder with results") as caught:
        build(tmp_path / "none")
    assert "newnormal reproduce" in str(caught.value)


@pytest.mark.parametrize(
    ("markdown", "expected"),
    [
        (
            "a `b*c*` **d** *e* 2 * 3 * 4",
            "<p>a <code>b*c*</code> <strong>d</strong> <em>e</em> 2 * 3 * 4</p>",
        ),
        ("Q\\* and <b>", "<p>Q* and &lt;b&gt;</p>"),
        ("- one\n  more\n- two", "<ul>\n<li>one more</li>\n<li>two</li>\n</ul>"),
        ("text\n- item", "<p>text</p>\n<ul>\n<li>item</li>\n</ul>"),
        ("## T\ntext", "<h3>T</h3>\n<p>text</p>"),
        ("```\na | b\n\n# c\n```", "<pre><code>a | b\n\n# c\n</code></pre>"),
        ("[x](y_z_.csv)", '<p><a href="y_z_.csv">x</a></p>'),
    ],
)
def test_markdown_becomes_html(markdown: str, expected: str) -> None:
    assert render(markdown, Path()) == expected


def test_a_table_with_no_rows_keeps_its_header() -> None:
    assert "<th>a</th>" in render("| a | b |\n| --- | --- |", Path())
