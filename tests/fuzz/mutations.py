"""Spoilt state files: case `index` of a `seed` is always the same file."""

import copy
import json
import struct
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

import newnormal
from newnormal import M2N2, Detector
from newnormal.base import BaseDetector
from tests.fuzz.envelope import canonical, digest, file_bytes, framed, pack, parts_of

GOLDEN = Path(__file__).parents[1] / "golden"
GAP = "@ the gap @"

WHOLE = [0, -1, 1, 2, 3, 7, 100, 1_000_000, 2**31 - 1, 2**31, 2**53, 2**62, 2**63 - 1, 2**63]
NUMBERS = [*WHOLE, -2, -(2**31), -(2**63), 2**64, 10**30, 10**400, 0.5, -0.0, 1e-320, 1e-9]
NUMBERS += [1e15, 1e300, -1e300, float("nan"), float("inf"), float("-inf")]
TEXTS = ["", "nan", "inf", "-inf", "1e999", "never", "mlp", "pca", "fixed", "quantile", "os:system"]
TEXTS += [
    *("\x00", "\ud800", "9" * 5000, "a" * 100_000, "NaT", "1d", "-1d", "99999999999d", "Detector"),
]
ODD: list[Any] = [None, True, False, [], {}, [[]], [0], {"a": 1}, "", "x", 0, -1, 0.5, 2**63]


def samples(channels: int, count: int, seed: int = 0) -> NDArray[np.float64]:
    """Return samples with a few values missing."""
    rng = np.random.default_rng([seed, channels])
    values = rng.normal(0, 3.0, (count, channels)) + 5.0
    values[rng.random(values.shape) < 0.05] = np.nan
    return values


def _saved(detector: BaseDetector) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "plant.nn"
        detector.save(path)
        return path.read_bytes()


@cache
def sources() -> dict[str, bytes]:
    """Return whole state files by name: golden ones, and those of this version.

    Quiet, in alarm, with a pending change and its shadow, after an acceptance and after a
    rejection, with a limit on alarms and without; silent; just fitted; with times and without.
    """
    found = {}
    for path in sorted([*GOLDEN.glob("*.nn"), *(GOLDEN / "runs").glob("*.nn")]):
        found[path.stem] = path.read_bytes()
        detector = newnormal.load(path)
        detector.run(samples(len(detector.channels_), 7), flush=False)
        found[f"{path.stem}, this version"] = _saved(detector)
    history = samples(2, 400, seed=5)
    for name, made in {
        "fitted": Detector(epochs=1, alarms_per_day=5.0, accept_after=40),
        "fitted M2N2": M2N2(window=4, stride=2, latent=2, epochs=1, lr=0.05),
    }.items():
        detector = made.fit(history)
        found[name] = _saved(detector)
        detector.run(samples(2, 30, seed=6) + 30.0, flush=False)
        found[f"{name}, run"] = _saved(detector)
    return found


# ------------------------------------------------------------------ without a right digest


def _bits(random: Random, content: bytes) -> tuple[bytes, str]:
    spoilt = bytearray(content)
    (header,) = struct.unpack("<Q", content[:8])
    end = random.choice([8, min(400, len(content)), 8 + header, len(content)])
    places = [random.randrange(end) for _ in range(random.choice([1, 1, 1, 2, 8]))]
    for place in places:
        spoilt[place] ^= 1 << random.randrange(8)
    return bytes(spoilt), f"bits of bytes {places}"


def _cut(random: Random, content: bytes) -> tuple[bytes, str]:
    at, length = random.randrange(len(content)), random.randrange(1, 5000)
    how = random.choice(["head", "tail", "hole", "zeros", "twice", "longer"])
    made = {
        "head": content[:at],
        "tail": content[at:],
        "hole": content[:at] + content[at + length :],
        "zeros": content[:at] + bytes(length) + content[at + length :],
        "twice": content[: at + length] + content[at:],
        "longer": content + random.randbytes(length),
    }
    return made[how], f"{how} at {at}, {length} bytes"


def _header(random: Random, content: bytes) -> tuple[bytes, str]:
    (length,) = struct.unpack("<Q", content[:8])
    if random.random() < 0.25:
        wrong = random.choice(
            [0, 1, 7, length - 1, length + 1, 2**31, 2**63, 2**64 - 1, 99_999_999]
        )
        return struct.pack("<Q", wrong) + content[8:], f"a header of {wrong} bytes"
    header, body = json.loads(content[8 : 8 + length]), content[8 + length :]
    name = random.choice(sorted(header))
    key = random.choice(["dtype", "shape", "data_offsets", "newnormal", "more"])
    value: Any = random.choice(
        [
            *("F64", "F32", "BF16", "F8_E4M3", "BOOL", "U64", "nonsense", None, 3),
            *([], [-1], [2**63], [2**31, 2**33], [0], [0, 8], [8, 0], [0, 2**62], [[1]], {}),
        ]
    )
    what = random.choice(["set", "set", "set", "remove", "replace", "add"])
    if what == "set":
        header[name][key] = value
    elif what == "remove":
        del header[name]
    elif what == "replace":
        header[name] = value
    else:
        header[random.choice(["weights ", "", "\x00", "a" * 10_000])] = header[name]
    return framed(json.dumps(header), body), f"header: {what} {name!r} {key} {value!r}"


def odd_json(random: Random) -> tuple[str, str]:
    """Return JSON that is very deep, very long or ambiguous, and what it is."""
    depth = random.choice([10, 100, 900, 1100, 5_000, 100_000, 1_000_000])
    kinds = {
        "lists": "[" * depth + "]" * depth,
        "objects": '{"a":' * depth + "1" + "}" * depth,
        "open": "[" * depth,
        "long": "[" + "0," * depth + "0]",
        "text": '"' + "a" * depth + '"',
        "digits": "9" * depth,
        "keys": "{" + ",".join(f'"{n:07d}":0' for n in range(min(depth, 100_000))) + "}",
        "NaN": "NaN",
        "infinite": "1e999",
        "names twice": '{"a":' + str(depth) + ',"a":[]}',
    }
    kind = random.choice(sorted(kinds))
    return kinds[kind], f"{kind} of {depth}"


def _nested(random: Random, content: bytes) -> tuple[bytes, str]:
    """JSON that is very deep or very long: in the header, in the envelope, in the facts."""
    text, kind = odd_json(random)
    where = random.choice(["header", "envelope", "version", "state", "fact", "fact", "fact"])
    parts = parts_of(content)
    facts = canonical(parts.facts)
    sha256 = digest(parts.version, facts, parts.tensors)
    if where == "header":
        made = framed(f'{{"__metadata__":{{"newnormal":{text}}}}}', b"")
    elif where == "envelope":
        made = file_bytes(text, parts.tensors)
    elif where == "version":
        envelope = f'{{"sha256":"{sha256}","state":{facts},"version":{text}}}'
        made = file_bytes(envelope, parts.tensors)
    elif where == "state":
        sha256 = digest(parts.version, text, parts.tensors)
        envelope = f'{{"sha256":"{sha256}","state":{text},"version":{parts.version}}}'
        made = file_bytes(envelope, parts.tensors)
    else:
        parts = copy.deepcopy(parts)
        path = set_fact(random, parts.facts, lambda _: GAP)
        where = f"facts{path}"
        made = pack(parts, (GAP, text))
    return made, f"{where} is {kind}"


# ------------------------------------------------------------------ with a right digest


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(value, dict):
        for key in value:
            yield (*path, key)
            yield from _places(value[key], (*path, key))
    elif isinstance(value, list):
        for at in range(len(value)):
            yield (*path, at)
            yield from _places(value[at], (*path, at))


def _at(facts: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        facts = facts[key]
    return facts


def _place(random: Random, facts: Any) -> tuple[Any, ...]:
    """Return a place: of any depth, or, half of the time, of a part that is not long."""
    top = random.choice([None, *facts]) if isinstance(facts, dict) and facts else None
    places = [path for path in _places(facts) if top is None or path[0] == top]
    return random.choice(places or [()])


def set_fact(random: Random, facts: Any, change: Callable[[Any], Any]) -> tuple[Any, ...]:
    path = _place(random, facts)
    if path:
        _at(facts, path[:-1])[path[-1]] = change(_at(facts, path))
    return path


def _other(random: Random, value: Any) -> Any:
    """Return a value to put in the place of one of this type."""
    if random.random() < 0.2:
        return random.choice(ODD)
    if isinstance(value, bool):
        return random.choice([not value, None, 0, 2, "yes"])
    if isinstance(value, int | float):
        return random.choice([*NUMBERS, value + 1, value - 1, -value, str(value), [value]])
    if isinstance(value, str):
        return random.choice([*TEXTS, value.upper(), value + "x", value[:-1]])
    if isinstance(value, list):
        return random.choice(
            [
                [],
                value[:-1],
                value[1:],
                value + value[-1:],
                value * 2,
                value[:1] * 1000,
                value[::-1],
            ]
        )
    if isinstance(value, dict):
        return random.choice([{}, {**value, "more": 1}, dict(list(value.items())[1:]), [value]])
    return random.choice(ODD + NUMBERS + TEXTS)


def _fact(random: Random, content: bytes) -> tuple[bytes, str]:
    parts = copy.deepcopy(parts_of(content))
    told = change_facts(random, parts.facts)
    return pack(parts), told


def change_facts(random: Random, facts: Any) -> str:
    path = _place(random, facts)
    if not path:
        return "facts as they were"
    holder = _at(facts, path[:-1])
    if random.random() < 0.1:
        if isinstance(holder, dict):
            del holder[path[-1]]
        else:
            holder.pop(path[-1])
        return f"facts without {path}"
    value = _other(random, holder[path[-1]])
    holder[path[-1]] = value
    return f"facts{path} = {_short(value)}"


def _tensor(random: Random, content: bytes) -> tuple[bytes, str]:
    parts = copy.deepcopy(parts_of(content))
    told = _change_tensors(random, parts.tensors)
    return pack(parts), told


def _change_tensors(random: Random, tensors: dict[str, NDArray[Any]]) -> str:
    name = random.choice(sorted(tensors))
    array = tensors[name]
    how = random.choice(
        ["value", "value", "value", "all", "dtype", "shape", "noise", "remove", "add", "swap"]
    )
    told = how
    if how in ("value", "all", "noise"):
        told = change_numbers(random, array, how)
    elif how == "dtype":
        dtype = random.choice(["<f8", "<f4", "<i8", "<i4", "|u1", "|b1", "<u8", "<f2"])
        with np.errstate(all="ignore"):
            tensors[name] = np.nan_to_num(array.astype(np.float64)).astype(dtype)
        told = f"as {dtype}"
    elif how == "shape":
        tensors[name] = np.ascontiguousarray(random.choice(_shapes(array)))
        told = f"of shape {tensors[name].shape}"
    elif how == "remove":
        del tensors[name]
    elif how == "add":
        tensors[random.choice([name + "x", "more", "keeper.shadow.weights", "rest"])] = array
    elif how == "swap":
        other = random.choice(sorted(tensors))
        tensors[name], tensors[other] = tensors[other], tensors[name]
        told = f"swapped with {other}"
    return f"tensor {name} {told}"


def change_numbers(random: Random, array: NDArray[Any], how: str) -> str:
    """Change a value of an array, all values, or its bytes, and tell how."""
    kind, flat = array.dtype.kind, array.reshape(-1)
    if how == "noise":
        noise = np.frombuffer(random.randbytes(array.nbytes), np.uint8)
        flat[...] = (noise % 2 if kind == "b" else noise).view(array.dtype)
        return how
    if not array.size:
        return "as it was"
    small = [np.nan, np.inf, -np.inf, 0.0, -0.0, -1.0, 1.0, 1e-310, 1e30, 1e300, 1e308, -1e308]
    whole = [0, -1, 1, 2, 255, 1_000_000, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63), 2**62]
    value = random.choice(small if kind == "f" else [True, False] if kind == "b" else whole)
    at = random.randrange(array.size) if how == "value" else slice(None)
    with np.errstate(all="ignore"):
        flat[at] = np.array(value).astype(array.dtype)
    return f"[{at}] = {value!r}"


def _shapes(array: NDArray[Any]) -> list[NDArray[Any]]:
    """Return much the same array in other shapes."""
    flat = array.reshape(-1)
    if array.ndim == 0 or len(array) == 0:
        return [flat, array[None]]
    return [
        *(array[:-1], array[1:], array[:0], array[None], array.T, flat, flat[:1].reshape(())),
        *(np.concatenate([array, array]), np.repeat(array, 9, 0), np.zeros((0, 3), array.dtype)),
    ]


def _version(random: Random, content: bytes) -> tuple[bytes, str]:
    version: Any = random.choice(
        [0, 1, 2, 3, 4, 5, 6, 7, -1, 2**63, True, "3", 3.0, None, [], 10**30]
    )
    parts = replace(parts_of(content), version=version)
    return pack(parts), f"version {version!r}"


def _several(random: Random, content: bytes) -> tuple[bytes, str]:
    parts = copy.deepcopy(parts_of(content))
    told = []
    for _ in range(random.randrange(2, 5)):
        if random.random() < 0.6 and parts.facts:
            told.append(change_facts(random, parts.facts))
        elif parts.tensors:
            told.append(_change_tensors(random, parts.tensors))
    return pack(parts), "; ".join(told)


def _short(value: Any) -> str:
    text = repr(value) if not isinstance(value, int) or abs(value) < 2**70 else "a huge number"
    return text if len(text) < 80 else text[:77] + "..."


KINDS: dict[str, Callable[[Random, bytes], tuple[bytes, str]]] = {
    "bits": _bits,
    "cut": _cut,
    "header": _header,
    "nested": _nested,
    "fact": _fact,
    "tensor": _tensor,
    "version": _version,
    "several": _several,
}
# Most of what can go wrong is content with a right digest.
_OFTEN = ["bits", "cut", "header", "nested", "version", *["fact"] * 5, *["tensor"] * 3, "several"]


def spoilt(seed: int, index: int) -> tuple[bytes, str]:
    """Return the content of a case and what was done to it."""
    random = Random(f"{seed} {index}")
    name = random.choice(sorted(sources()))
    kind = random.choice(_OFTEN)
    content, told = KINDS[kind](random, sources()[name])
    return content, f"{name}: {kind}: {told}"
