"""Execute the notebooks of this folder, and write their outputs into them.

::

    python docs/notebooks/execute.py

Needs nbclient and ipykernel, which the extra ``dev`` brings. The pages to zoom are left out of what
is written: they are large, and viewers of files do not show them.
"""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
_FRAME = re.compile(r"<iframe\b.*?</iframe>", re.DOTALL)
_SECONDS = 300  # a cell may take


def execute(path: Path) -> Any:
    """Return a notebook with the outputs that it has now; an error in a cell is raised."""
    nbclient, nbformat = (import_module(name) for name in ("nbclient", "nbformat"))
    notebook = nbformat.read(path, as_version=4)
    nbclient.NotebookClient(notebook, timeout=_SECONDS, kernel_name="python3").execute()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)  # when it ran
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            if "text/html" in data:
                data["text/html"] = _FRAME.sub("", data["text/html"])
    notebook.metadata.pop("language_info", None)
    return notebook


def main() -> None:
    """Execute all notebooks."""
    nbformat = import_module("nbformat")
    for path in sorted(FOLDER.glob("*.ipynb")):
        nbformat.write(execute(path), path)
        print(f"wrote {path}")


if __name__ == "__main__":
    main()
