"""What others wrote is in one folder, as they released it, with its licence."""

from hashlib import sha256
from pathlib import Path

VENDOR = Path(__file__).parents[2] / "src" / "newnormal" / "vendor"

# Half of the SHA-256 of the files in the npm packages, of the versions that the READMEs name.
RELEASED = {
    "iframe-worker/iframe-worker.js": "512d74bf24286113a2b20770062004dd",
    "uplot/uPlot.iife.min.js": "19c8d4c6ad88929a79f4ae49d6f71615",
    "uplot/uPlot.min.css": "df630c6a8d6f8eeaff264b50f73ce5b1",
    "iframe-worker/LICENSE": "dd69737a4768aab9f934a5aed9efab95",
    "uplot/LICENSE": "8f989229699b4fe2f1a0432d0e9edc33",
}


def test_files_of_others_are_as_they_were_released() -> None:
    there = {
        path.relative_to(VENDOR).as_posix(): path
        for path in VENDOR.rglob("*.*")
        if path.suffix in (".js", ".css")
    }
    there |= {f"{path.parent.name}/LICENSE": path for path in VENDOR.glob("*/LICENSE")}
    assert {
        name: sha256(path.read_bytes()).hexdigest()[:32] for name, path in there.items()
    } == RELEASED


def test_every_folder_has_a_licence_and_names_its_version() -> None:
    folders = [path for path in VENDOR.iterdir() if path.is_dir()]
    assert folders
    for folder in folders:
        assert (folder / "LICENSE").is_file(), folder.name
        assert "unchanged release files" in (folder / "README.md").read_text(encoding="utf-8")
