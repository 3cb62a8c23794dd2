"""Descriptions, pointers and candidates of the right form that hold values of another kind: as if they were damaged."""

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import fields

import numpy as np
import pytest

from omnidraft.learning.adapters.store import FILE, AdapterStore, read_candidate
from omnidraft.learning.adapters.versions import ADAPTER, CURRENT, LONGEST, META, WEIGHTS, Meta, Pointer
from tests.adapters import arrays, lora

VALUES = (None, True, -1, 10**400, 1.5, float("nan"), float("inf"), "x", "\0", [1], [[]], {}, {"a": 1},
          {"a": {"b": ""}}, "v" + "9" * 5000, ["v" + "9" * 5000])  # fmt: skip
USES: tuple[Callable[[AdapterStore], object], ...] = (
    AdapterStore.versions, AdapterStore.current, lambda store: store.through, lambda store: store.starts_warm,
    AdapterStore.prune, lambda store: store.reject_update(3), lambda store: store.choose(None),
    lambda store: store.publish({ADAPTER: b"", WEIGHTS: b""}, Meta("d", "v")), lambda store: store.forget("chat"),
    lambda store: store.forget(None),
)  # fmt: skip


@pytest.fixture
def store(tmp_path) -> AdapterStore:
    made = AdapterStore(tmp_path / "store")
    for through in (1, 2):
        made.publish({ADAPTER: lora("x"), WEIGHTS: arrays(a=np.zeros(3))}, Meta("d", "v", through=through))
    return made


def described(store: AdapterStore, **values: object) -> AdapterStore:
    """The store as the next start reads it, these values in the description of its newest version."""
    file = store.versions()[-1].path / META
    file.write_text(json.dumps(json.loads(file.read_text()) | values))
    return AdapterStore(store.folder)


@pytest.mark.parametrize("turn", range(4))
def test_any_value_in_a_description_or_a_pointer_leaves_a_store_of_use(store, turn):
    """Four values for each field, others for the next one."""
    whole = {path: path.read_bytes() for path in store.folder.rglob("*") if path.is_file()}
    places = [(f"v000002/{META}", Meta), (CURRENT, Pointer)]
    for number, (place, name) in enumerate((place, each.name) for place, kind in places for each in fields(kind)):
        for path, content in whole.items():
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(content)
        file, value = store.folder / place, VALUES[(4 * turn + number) % len(VALUES)]
        file.write_text(json.dumps(json.loads(file.read_text()) | {name: value}))
        for use in USES:
            use(AdapterStore(store.folder))


@pytest.mark.parametrize("through", [None, "x", [], float("nan"), 1.5, 10**400])
def test_what_is_learned_through_is_a_number_or_the_version_before_serves(store, through):
    assert described(store, through=through).current().name == "v000001"


def test_a_description_names_no_file_elsewhere(store, tmp_path):
    (tmp_path / "elsewhere").write_bytes(b"")
    known = {"../../elsewhere": hashlib.sha256(b"").hexdigest()}
    assert described(store, sha256=known).current().name == "v000001"


def test_an_endless_description_is_not_read(store):
    os.truncate(store.versions()[-1].path / META, LONGEST + 1)
    assert AdapterStore(store.folder).current().name == "v000001"


ABOUT = {"base": "x", "behind": 1, "through": 1, "chats": []}
DAMAGED = [{**ABOUT, "behind": float("inf")}, {**ABOUT, "through": 10**400}, {**ABOUT, "through": "x"}, [], None]


@pytest.mark.parametrize("about", [*(np.frombuffer(json.dumps(one).encode(), np.uint8) for one in DAMAGED),
                                   np.array(10**12)])  # fmt: skip
def test_a_candidate_of_other_values_is_none(store, about):
    (store.folder / FILE).write_bytes(arrays(about=about, w=np.zeros((2, 2))))
    assert read_candidate(store.folder) is None


@pytest.mark.parametrize("length", [10**13, 10**30])
def test_a_candidate_that_says_it_is_larger_than_any_memory_is_none(store, length):
    content = arrays(w=np.zeros(1)).replace(b"(1,), }", f"({length},), }}".encode())
    (store.folder / FILE).write_bytes(content)
    assert read_candidate(store.folder) is None
