"""One self-contained HTML page of all that has been run, in the order of the paper.

It is made from the Markdown and the pictures that the experiments wrote into a folder, so it can
say nothing else; what has not been run is a section that says how to.
"""

from __future__ import annotations

import html
import re
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import newnormal
from newnormal.errors import InputError
from newnormal.experiments.markdown import render

__all__ = ["SECTIONS", "Section", "build"]


@dataclass(frozen=True)
class Section:
    """A part of the page.

    Attributes
    ----------
    name
        The experiment, and its file without ``.md``.
    title
        The heading.
    labels
        The paper's LaTeX labels; none for what is ours.
    about
        What it shows, for where it has not been run.
    """

    name: str
    title: str
    labels: tuple[str, ...]
    about: str

    @property
    def command(self) -> str:
        """The command that runs it."""
        data = "" if self.name == "cost" else " --data DIR"
        return f"newnormal reproduce {self.name}{data}"


SECTIONS = (
    Section(
        "datasets",
        "The data",
        ("table:Data_Description",),
        "Sizes, features and share of anomalies of each data set.",
    ),
    Section(
        "shift",
        "How far normal moves",
        ("fig:Main_Figure (a)", "fig:main_kld", "fig:A_vis"),
        "The divergence of test from train, and pictures of both.",
    ),
    Section(
        "main",
        "The main table",
        (
            "table:Main_Exp",
            "table:Main_Exp_Full",
            "table:Appendix:DetailExpMain",
            "fig:Main_Figure (b)",
        ),
        "Five models as fitted, and the MLP with detrending and adaptation.",
    ),
    Section(
        "curves",
        "All thresholds at once",
        ("fig:main_roc", "fig:ab_f1trace"),
        "ROC and precision-recall curves, and F1 against the threshold.",
    ),
    Section(
        "anoshift",
        "Ten years of network traffic",
        ("table:anoshift", "fig:anoshift"),
        "AnoShift: NEAR and FAR, and year by year.",
    ),
    Section(
        "ablation",
        "The ablation",
        ("table:Ablation", "table:Ablation_Full", "table:Appendix:DetailExpAb"),
        "The MLP frozen, detrended, adapted, and both.",
    ),
    Section(
        "traces",
        "What it looks like over time",
        ("fig:Main_Figure (c)", "fig:main_ion", "fig:ab_qual", "fig:A_anosc"),
        "Scores, thresholds and alarms of each model, and what was expected.",
    ),
    Section(
        "cost",
        "What it costs",
        ("table:Appendix:CC",),
        "Time, multiply-adds and memory for one window.",
    ),
    Section(
        "everyone",
        "Every model, detrended and adapted",
        (),
        "What the paper says is possible and does not show: both parts on all five models.",
    ),
    Section(
        "peers",
        "Beside the classics",
        (),
        "PCA, isolation forest, LOF, one-class SVM and ECOD on the same streams.",
    ),
    Section(
        "drift",
        "No knobs",
        (),
        "The detector that chooses for itself beside fixed settings, and when normal changes.",
    ),
)

_BEYOND = re.compile(r"(\d+) of the (\d+) figures for which")
_SEEDS = re.compile(r"seeds? ([\d, ]+\d)")
_UNEQUAL = re.compile(r"\((\d+(?: to \d+)?) of \d+(?:, \d+)*\)")


def build(folder: Path, name: str = "index.html") -> Path:
    """Write the page of what is in a folder into that folder, and return its path."""
    if not folder.is_dir():
        raise InputError(
            f"expected a folder with results, found none at {folder}",
            hint="run an experiment first, such as `newnormal reproduce cost -o " + f"{folder}`",
        )
    texts = {section.name: _read(folder / f"{section.name}.md") for section in SECTIONS}
    details = {section.name: _read(folder / f"{section.name}-detail.md") for section in SECTIONS}
    body = "\n".join(
        _section(section, texts[section.name], details[section.name], folder)
        for section in SECTIONS
    )
    path = folder / name
    page = _PAGE.format(
        style=files("newnormal.experiments").joinpath("data", "site.css").read_text("utf-8"),
        overview=_overview(texts),
        version=newnormal.__version__,
        body=body,
    )
    path.write_text(page, encoding="utf-8", newline="\n")
    return path


_PAGE = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>When Model Meets New Normals, reproduced</title>
<style>
{style}</style>
</head>
<body>
<header>
<p class="kicker">newnormal {version}</p>
<h1>When Model Meets New Normals, reproduced</h1>
<p class="lede">Every table and figure of Kim et al. (AAAI 2024), computed again by an independent
implementation, with the printed number and the difference beside ours.</p>
</header>
<main>
<section id="overview">
<h2>What has been run</h2>
{overview}
<p>All of it: <code>newnormal reproduce all --data DIR</code></p>
<h3>How to read it</h3>
<ul class="legend">
<li><span class="paper">Grey figures</span> are the paper's, as printed; a dash where it
prints none.</li>
<li>A figure is the mean ± standard deviation over as many seeds as its line says; of one seed, the
figure alone.</li>
<li><strong class="beyond">Bold differences</strong> exceed twice both standard deviations together
and the last printed digit; a figure of one seed is not judged.</li>
<li><span class="oracle">Tinted rows and columns</span> use an oracle: a threshold chosen with the
test labels. No detector in use has one; F1 under such a threshold has a table of its own.</li>
<li>DT is detrending, TTA test-time adaptation. F1-PA is F1 after point adjustment, which counts an
event as found in full when one of its samples is.</li>
</ul>
</section>
{body}
</main>
<footer><p>Made by <code>newnormal reproduce page</code> from the results in its folder; it asks for
nothing from the network.</p></footer>
</body>
</html>
"""


def _read(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.is_file() else None


def _overview(texts: dict[str, str | None]) -> str:
    rows = []
    for section in SECTIONS:
        text = texts[section.name]
        state = _state(text) if text is not None else "not run yet"
        kind = "" if text is not None else ' class="absent"'
        labels = ", ".join(section.labels) or "ours"
        rows.append(
            f'<tr{kind}><td><a href="#{section.name}">{section.title}</a></td>'
            f"<td>{html.escape(labels)}</td><td>{state}</td></tr>"
        )
    return (
        '<div class="table"><table class="overview"><thead><tr><th>part</th><th>in the paper</th>'
        f"<th>state</th></tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )


def _state(text: str) -> str:
    """Return what a page says of itself: its seeds, and how many figures agree."""
    said = []
    unequal, seeds = _UNEQUAL.search(text), _SEEDS.search(text)
    if unequal is not None or seeds is not None:
        count = unequal[1] if unequal else str(len(seeds[1].split(",")) if seeds else 0)
        said.append(f"{count} seed{'s'[: count != '1']}")
    within = _BEYOND.search(text)
    if within is not None:
        said.append(f"{within[1]} of {within[2]} figures agree")
    absent = _absent(text)
    if absent:
        said.append(f"{absent} not run")
    return "run" + (f": {', '.join(said)}" if said else "")


def _absent(text: str) -> int:
    _, _, rest = _parted(text)
    return max(sum(line.startswith("| ") for line in rest.splitlines()) - 2, 0)


def _section(section: Section, text: str | None, detail: str | None, folder: Path) -> str:
    labels = "".join(f"<code>{html.escape(label)}</code> " for label in section.labels)
    parts = [
        f'<section id="{section.name}">',
        f'<p class="labels">{labels or "<span>ours</span>"}</p>',
    ]
    if text is None:
        parts += [
            f"<h2>{section.title}</h2>",
            f'<p class="missing">Not run yet. {html.escape(section.about)} To get it: '
            f"<code>{section.command}</code></p>",
        ]
    else:
        found, heading, missing = _parted(text)
        parts.append(render(found, folder, link=_link))
        if missing:
            parts += [
                f"<details><summary>{heading}: what, and how to get it</summary>",
                render(missing, folder, link=_link),
                "</details>",
            ]
    if detail is not None:
        parts += [
            f'<details id="{section.name}-detail"><summary>In detail</summary>',
            render(detail, folder, level=3, link=_link),
            "</details>",
        ]
    return "\n".join([*parts, "</section>"])


def _parted(text: str) -> tuple[str, str, str]:
    """Return a page's text, and what it says at its end of that which was not run."""
    parts = re.split(r"^## (Not run|Not found)$", text, maxsplit=1, flags=re.MULTILINE)
    return (parts[0], parts[1], parts[2]) if len(parts) == 3 else (text, "", "")


def _link(target: str) -> str:
    """Let a link to another experiment's page be one within this page."""
    name, ending, anchor = target.partition(".md")
    known = {section.name for section in SECTIONS}
    if ending and not anchor and name.removesuffix("-detail") in known:
        return f"#{name}"
    return target
