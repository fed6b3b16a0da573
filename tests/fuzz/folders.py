"""Spoilt folders of a fleet: case `index` of a `seed` is always the same."""

import json
import os
import zlib
from collections.abc import Callable
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from newnormal.fleet.folder import log
from newnormal.fleet.folder.manifest import _digest, read_manifest

_ODD: list[Any] = [None, True, [], {}, "", "x", -1, 0, 1, 7, 2**31, 2**62, 2**63, 0.5, "inf", [[]]]
_NUMBERS = [-1, -2, 5, 6, 60, 61, 100, 101, 2**31, 2**40, 2**62, 2**63 - 1, -(2**63)]


def twin(folder: Path, target: Path) -> None:
    """Make a folder of links to the files of another: what is spoilt is written anew."""
    target.mkdir()
    for path in folder.iterdir():
        os.link(path, target / path.name)


def _replace(path: Path, content: bytes) -> None:
    path.unlink()
    path.write_bytes(content)


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.name != "lock")


# ---------------------------------------------------------------------- damage


def flipped(folder: Path, rng: Random) -> None:
    path = rng.choice(_files(folder))
    content = bytearray(path.read_bytes())
    for _ in range(rng.choice([1, 1, 1, 20])):
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    _replace(path, bytes(content))


def truncated(folder: Path, rng: Random) -> None:
    path = rng.choice(_files(folder))
    content = path.read_bytes()
    _replace(path, content[: rng.choice([0, 1, len(content) // 2, len(content) - 1])])


def lengthened(folder: Path, rng: Random) -> None:
    path = rng.choice(_files(folder))
    _replace(path, path.read_bytes() + rng.randbytes(rng.choice([1, 16, 4096])))


def deleted(folder: Path, rng: Random) -> None:
    rng.choice(_files(folder)).unlink()


def swapped(folder: Path, rng: Random) -> None:
    one, other = rng.sample(_files(folder), 2)
    first, second = one.read_bytes(), other.read_bytes()
    _replace(one, second)
    _replace(other, first)


def zeroed(folder: Path, rng: Random) -> None:
    path = rng.choice(_files(folder))
    content = bytearray(path.read_bytes())
    at = rng.randrange(len(content))
    content[at : at + 4096] = bytes(len(content[at : at + 4096]))
    _replace(path, bytes(content))


# ---------------------------------------------------------------------- wrong, with digests


def _change(value: Any, rng: Random) -> Any:
    """Replace one value somewhere in a tree of JSON."""
    if isinstance(value, dict) and value and rng.random() < 0.9:
        name = rng.choice(sorted(value))
        if rng.random() < 0.1:
            return {key: each for key, each in value.items() if key != name}
        return {**value, name: _change(value[name], rng)}
    if isinstance(value, list) and value and rng.random() < 0.9:
        at = rng.randrange(len(value))
        return [*value[:at], _change(value[at], rng), *value[at + 1 :]]
    return rng.choice(_ODD)


def _write_manifest(folder: Path, facts: dict[str, Any]) -> None:
    facts.pop("sha256", None)
    facts["sha256"] = _digest(facts)
    for name in ("manifest.json", "manifest.copy.json"):
        _replace(folder / name, json.dumps(facts).encode())


def wrong_manifest(folder: Path, rng: Random) -> None:
    found = json.loads((folder / "manifest.json").read_bytes())
    name = rng.choice(sorted(found.keys() - {"sha256"}))
    _write_manifest(folder, {**found, name: _change(found[name], rng)})


def _with_shard(
    folder: Path, rng: Random, change: Callable[[bytearray, Any, Any, Any], Any]
) -> None:
    """Change the blocks or the facts of a shard, and make all digests fit."""
    manifest = read_manifest(folder)
    at = rng.randrange(len(manifest.shards))
    shard = manifest.shards[at]
    layout = manifest.layouts[shard.layout]
    content = bytearray((folder / shard.name).read_bytes())
    facts = json.loads(content[shard.facts_at :])
    facts = change(content, facts, layout, shard)
    text = json.dumps(facts).encode()
    tail = bytes(content[shard.rows * layout.nbytes : shard.facts_at]) + text
    digest = blake2b(tail, digest_size=32).hexdigest()
    blocks = bytes(content[: shard.rows * layout.nbytes])
    _replace(folder / shard.name, blocks + tail)
    shards = list(manifest.shards)
    shards[at] = replace(shard, size=len(blocks + tail), digest=digest)
    facts_now = json.loads((folder / "manifest.json").read_bytes())
    _write_manifest(folder, {**facts_now, "shards": [vars(each) for each in shards]})


def wrong_facts(folder: Path, rng: Random) -> None:
    _with_shard(folder, rng, lambda content, facts, layout, shard: _change(facts, rng))


def wrong_counters(folder: Path, rng: Random) -> None:
    def change(content: bytearray, facts: Any, layout: Any, shard: Any) -> Any:
        row = rng.randrange(shard.rows)
        start = row * layout.nbytes
        whole = [each for each in layout.fields if np.dtype(each.dtype).kind == "i"]
        field = rng.choice(whole)
        array = np.ndarray(field.shape, field.dtype, content, start + field.offset)
        array.reshape(-1)[rng.randrange(array.size)] = rng.choice(_NUMBERS)
        digest = blake2b(bytes(content[start : start + layout.nbytes]), digest_size=8).hexdigest()
        own = facts["digests"]
        facts["digests"] = own[: 16 * row] + digest + own[16 * (row + 1) :]
        return facts

    _with_shard(folder, rng, change)


def wrong_record(folder: Path, rng: Random) -> None:
    (path, *_) = sorted(folder.glob("log-*"))
    content = bytearray(path.read_bytes())
    (mark, _crc, end) = log._header(bytes(content), 0)  # type: ignore[misc]
    record = bytearray(content[log._HEAD.size : end])
    for _ in range(rng.choice([1, 4])):
        record[rng.randrange(min(len(record), 80))] = rng.randrange(256)
    head = log._head(mark, len(record), zlib.crc32(record))
    _replace(path, head + bytes(record) + bytes(content[end:]))


PLAIN = (flipped, truncated, lengthened, deleted, swapped, zeroed)
CHECKSUMMED = (wrong_manifest, wrong_facts, wrong_counters, wrong_record)


def spoil(folder: Path, kinds: Any, seed: int, index: int) -> str:
    """Spoil a folder; return how."""
    rng = Random(f"{seed} {index}")
    kind = kinds[index % len(kinds)]
    kind(folder, rng)
    return f"{kind.__name__} {index}"
