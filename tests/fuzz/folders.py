"""Spoilt folders of a fleet: case `index` of a `seed` is always the same."""

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

import newnormal
from newnormal import Fleet
from newnormal.core.arena import Layout
from newnormal.fleet.folder.manifest import read_manifest
from newnormal.types import Floats
from tests.fuzz.mutations import (
    GAP,
    GOLDEN,
    KINDS,
    change_facts,
    change_numbers,
    odd_json,
    samples,
    set_fact,
)

# Streams in alarm, in a change, silent, with what was accepted; each fleet has two shapes.
FLEETS = (
    ("accepted", "pending", "alarm", "m2n2-budget"),
    ("pattern", "silent", "m2n2-alarms"),
    ("rejected", "quantile", "m2n2-plain"),
)
FILES = (
    "manifest.json",
    "manifest.copy.json",
    "fits-*",
    "streams-*",
    "events-*",
    "live-*",
)
_TIME = np.datetime64("2026-01-03T00:00:00", "ns")  # after all of them
_PUT: list[Callable[[Path, Path], object]] = [os.symlink, shutil.copyfile]
_HOWS = ["value", "value", "value", "all", "noise"]


def tick(fleet: Fleet, number: int) -> tuple[dict[str, Floats], np.datetime64]:
    """Return a sample of each stream, and the time of all."""
    found = {
        name: samples(len(channels), 1, seed=100 * number + at)[0] + 40 * (number % 9 > 5)
        for at, (name, channels) in enumerate(fleet.channels_.items())
    }
    return found, _TIME + np.timedelta64(number, "m")


def write_fleet(folder: Path, names: tuple[str, ...]) -> None:
    """Write the folder of a fleet, with events."""
    fleet = Fleet(alarms_per_day=1.0)
    for name in names:
        fleet.add(name, newnormal.load(GOLDEN / "runs" / f"{name}.nn"))
    for number in range(12):
        fleet.step(*tick(fleet, number))
    for name in list(fleet.changes_ or fleet.alarms_)[:1]:
        fleet.accept(name)
    fleet.run({name: samples(len(own), 6) for name, own in fleet.channels_.items()})
    fleet.save(folder)


def _file(folder: Path, kind: str, rng: Random) -> Path:
    """Return a file of a kind; their sizes differ, and their names are others each time."""
    return rng.choice(sorted(folder.glob(kind), key=lambda path: path.stat().st_size))


# ---------------------------------------------------------------------- damage


def _bits(content: bytearray, rng: Random) -> None:
    end = rng.choice([min(60, len(content)), len(content), len(content)])
    for _ in range(rng.choice([1, 1, 1, 20])):
        content[rng.randrange(end)] ^= 1 << rng.randrange(8)


def _cut(content: bytearray, rng: Random) -> None:
    del content[rng.choice([0, 1, rng.randrange(len(content)), len(content) - 1]) :]


def _hole(content: bytearray, rng: Random) -> None:
    at = rng.randrange(len(content))
    del content[at : at + rng.choice([1, 16, 4096])]


def _more(content: bytearray, rng: Random) -> None:
    at = rng.choice([len(content), rng.randrange(len(content))])
    content[at:at] = rng.randbytes(rng.choice([1, 16, 4096]))


def _zeros(content: bytearray, rng: Random) -> None:
    at = rng.randrange(len(content))
    content[at : at + 4096] = bytes(len(content[at : at + 4096]))


def damage(folder: Path, rng: Random, at: int) -> str:
    """Damage one file, or put another in its place, or none."""
    path = _file(folder, FILES[at % len(FILES)], rng)
    other = _file(folder, rng.choice(FILES), rng)
    how = rng.choice([_bits, _bits, _cut, _hole, _more, _zeros, None])
    if how is None:
        path.unlink()
        if other != path:
            rng.choice(_PUT)(other, path)
        return f"{path.name}: gone, or {other.name} by that name"
    content = bytearray(path.read_bytes())
    how(content, rng)
    path.write_bytes(content)
    return f"{path.name}: {how.__name__}"


# ---------------------------------------------------------------------- wrong, with digests


def _text(facts: Any, rng: Random) -> tuple[str, str]:
    """Change one value in a tree of JSON; return its text, and what was done."""
    if rng.random() < 0.1:
        text, told = odd_json(rng)
        path = set_fact(rng, facts, lambda _: GAP)
        return json.dumps(facts).replace(json.dumps(GAP), text), f"{path} is {told}"
    told = change_facts(rng, facts)
    return json.dumps(facts), told


def _write_manifest(folder: Path, text: str) -> None:
    """Write a manifest with the digest that belongs to it, where it is JSON."""
    try:
        facts = json.loads(text)
        if isinstance(facts, dict):
            facts.pop("sha256", None)
            plain = json.dumps(facts, sort_keys=True, separators=(",", ":"))
            facts["sha256"] = hashlib.sha256(plain.encode()).hexdigest()
            text = json.dumps(facts)
    except (ValueError, RecursionError):
        pass
    for name in ("manifest.json", "manifest.copy.json"):
        (folder / name).write_text(text)


def _manifest(folder: Path) -> dict[str, Any]:
    facts: dict[str, Any] = json.loads((folder / "manifest.json").read_bytes())
    return facts


def _wrong_manifest(folder: Path, rng: Random) -> str:
    text, told = _text(_manifest(folder), rng)
    _write_manifest(folder, text)
    return told


def _wrong_listing(folder: Path, rng: Random) -> str:
    manifest = read_manifest(folder)
    path = folder / str(rng.choice([manifest.streams, manifest.events, manifest.events]))
    text, told = _text(json.loads(path.read_bytes()[67:]), rng)
    path.write_text(f'"{hashlib.sha256(text.encode()).hexdigest()}"\n{text}\n')
    return f"{path.name}: {told}"


def _with_shard(
    folder: Path, rng: Random, change: Callable[[bytearray, Any, Layout], tuple[str, str]]
) -> str:
    """Change the blocks or the facts of a shard, and make all digests fit."""
    manifest, facts = read_manifest(folder), _manifest(folder)
    at = rng.randrange(len(manifest.shards))
    shard = manifest.shards[at]
    layout = manifest.layouts[shard.layout]
    content = (folder / shard.name).read_bytes()
    blocks = bytearray(content[: shard.facts_at])
    text, told = change(blocks, json.loads(content[shard.facts_at :]), layout)
    rows = [
        blake2b(blocks[k * layout.nbytes :][: layout.nbytes], digest_size=8).hexdigest()
        for k in range(shard.rows)
    ]
    text = text.replace("DIGESTS", "".join(rows))
    blocks += text.encode()
    tail = bytes(blocks[shard.rows * layout.nbytes :])
    (folder / shard.name).write_bytes(blocks)
    digest = blake2b(tail, digest_size=32).hexdigest()
    facts = _manifest(folder)
    facts["shards"][at] |= {"size": len(blocks), "digest": digest}
    _write_manifest(folder, json.dumps(facts))
    return told


def _wrong_facts(folder: Path, rng: Random) -> str:
    return _with_shard(folder, rng, lambda blocks, facts, layout: _text(facts, rng))


def _wrong_arrays(folder: Path, rng: Random) -> str:
    """Change arrays of a stream, or of what it has only sometimes."""

    def change(blocks: bytearray, facts: Any, layout: Layout) -> tuple[str, str]:
        rows = len(facts["id"])
        parts = [(name, facts["layouts"][own], at) for _, name, own, at in facts["rare"]]
        told = []
        for _ in range(rng.choice([1, 1, 1, 3])):
            start, fields, part = rng.randrange(rows) * layout.nbytes, layout.to_json(), "stream"
            if parts and rng.random() < 0.4:
                part, own, at = rng.choice(parts)
                start, fields = rows * layout.nbytes + at, own["fields"]
            name, dtype, shape, offset = rng.choice(fields)
            array: NDArray[Any] = np.ndarray(shape, dtype, blocks, start + offset)
            array = array.view(np.int64) if array.dtype.kind == "M" else array
            told.append(f"{part} {name} {change_numbers(rng, array, rng.choice(_HOWS))}")
        return json.dumps({**facts, "digests": "DIGESTS"}), "; ".join(told)

    return _with_shard(folder, rng, change)


def _wrong_fit(folder: Path, rng: Random) -> str:
    """Change what fitting left of a stream: a state file among others."""

    def change(blocks: bytearray, facts: Any, layout: Layout) -> tuple[str, str]:
        manifest = _manifest(folder)
        path = folder / manifest["fits"]
        content, place = path.read_bytes(), rng.choice(facts["fit"])
        offset, length = place
        kind = rng.choice(["fact", "tensor", "tensor", "several"])
        spoilt, told = KINDS[kind](rng, content[offset : offset + length])
        path.write_bytes(content + spoilt)
        new = [len(content), len(spoilt)]
        facts["fit"] = [new if each == place else each for each in facts["fit"]]
        manifest["fits_size"] = len(content) + len(spoilt)
        _write_manifest(folder, json.dumps(manifest))
        return json.dumps(facts), f"a fit: {told}"

    return _with_shard(folder, rng, change)


_RESIGNED = (
    *[_wrong_arrays] * 6,
    *(_wrong_facts, _wrong_facts, _wrong_manifest, _wrong_manifest),
    *(_wrong_fit, _wrong_fit, _wrong_listing),
)


def resign(folder: Path, rng: Random, at: int) -> str:
    """Change something in a folder, and make all digests fit."""
    kind = _RESIGNED[at % len(_RESIGNED)]
    return f"{kind.__name__}: {kind(folder, rng)}"
