"""How many cases a fuzz test tries, what may come of one, and what to make them from.

`OMNIDRAFT_CASES=2000` tries that many of each, at random; without it a few, the same ones every time.
"""

import json
import math
import os
import random
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from hypothesis import HealthCheck, settings

from omnidraft.errors import OmniDraftError

CASES = int(os.environ.get("OMNIDRAFT_CASES", "0"))
SECONDS = 5.0  # of the processor


def fuzz(few: int = 40) -> Callable:
    return settings(
        max_examples=CASES or few,
        derandomize=not CASES,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )


@contextmanager
def refused_at_most() -> Iterator[None]:
    """What comes may be refused in one sentence, soon; whatever else is raised, or takes long, is a defect."""
    began = time.process_time()
    try:
        yield
    except OmniDraftError as error:
        said = str(error)
        assert said
        assert "Traceback" not in said
        assert len(said) < 2000
    assert time.process_time() - began < SECONDS


ODD: list[Any] = [
    None, True, False, 0, -1, 1, 2**31, 2**63, -(2**63), 2**64, 10**400, 0.5, -0.0, 1e308, math.inf, math.nan, "",
    " ", "a", "\x00", "\ud800", "é中😀", "../../etc/passwd", "x" * 70_000, [], [[]], {}, {"": ""}, [None] * 1000,
    {"type": "object"},
]  # fmt: skip


DEEP = {
    '"@list"': b"[" * 9000 + b"]" * 9000,
    '"@dict"': b'{"a":' * 9000 + b"1" + b"}" * 9000,
    '"@few"': b"[" * 60 + b"]" * 60,
}


def odd(by: random.Random) -> Any:
    if by.random() < 0.05:
        return by.choice(["@list", "@dict", "@few"])
    return by.choice(ODD)


def as_json(value: Any) -> bytes:
    """JSON text; what Python cannot nest itself is put in as text."""
    data = json.dumps(value).encode("utf-8", "replace")
    for mark, text in DEEP.items():
        data = data.replace(mark.encode(), text)
    return data


def changed(value: Any, by: random.Random) -> Any:
    """A copy of a JSON value with one thing in it replaced, left out, doubled or renamed."""
    if isinstance(value, dict) and value and by.random() < 0.9:
        key = by.choice(sorted(value, key=str))
        if by.random() < 0.1:
            return {k: v for k, v in value.items() if k != key}
        if by.random() < 0.1:
            return {**value, str(odd(by)): value[key]}
        return {**value, key: changed(value[key], by)}
    if isinstance(value, list) and value and by.random() < 0.9:
        at = by.randrange(len(value))
        if by.random() < 0.1:
            return value[:at] + value[at + 1 :]
        if by.random() < 0.1:
            return [*value, *value[at:]]
        return [*value[:at], changed(value[at], by), *value[at + 1 :]]
    return odd(by)


def several(value: Any, by: random.Random) -> Any:
    for _ in range(by.choice([1, 1, 2, 4])):
        value = changed(value, by)
    return value


def damaged(data: bytes, by: random.Random, within: int | None = None) -> bytes:
    """Bytes with some flipped, numbers in place of others, a piece cut out, or an end missing."""
    found, reach = bytearray(data), min(within or len(data), len(data))
    for _ in range(by.choice([1, 1, 3, 10])):
        at = by.randrange(max(1, reach))
        match by.randrange(5):
            case 0:
                found[at : at + 1] = bytes([by.randrange(256)])
            case 1:
                found[at : at + 8] = struct.pack("<Q", by.choice([0, 1, 2**31, 2**32 - 1, 2**63, 2**64 - 1]))
            case 2:
                found[at : at + 4] = struct.pack("<I", by.randrange(14))
            case 3:
                del found[at : at + by.randrange(1, 40)]
            case _:
                if by.random() < 0.3:
                    del found[at:]
    return bytes(found)
