"""Layers on graphics cards: what fits is used, more never, and what is told before is what llama.cpp holds then."""

import json
import os
import subprocess
import sys
from functools import cache
from itertools import product

import pytest

from omnidraft.backends.gguf.file import read_info
from omnidraft.backends.llama import estimate
from omnidraft.backends.llama.devices import GPU, Device
from omnidraft.backends.llama.estimate import card_bytes, fill, place
from omnidraft.backends.llama.model import LlamaTarget
from omnidraft.backends.llama.sizes import kv_cache_bytes
from omnidraft.settings.config import ModelSettings
from omnidraft.storage.trial import WITHIN
from tests.hollow import SHAPES, tensor_sizes, write_hollow
from tests.lent import needs_rpc, workers

GB = 1_000_000_000
DEVICES = ((4 * GB,), (8 * GB,), (12 * GB,), (24 * GB,), (24 * GB, 24 * GB), (8 * GB, 12 * GB))
CONTEXTS = (4096, 32_768)


def card(free: int) -> Device:
    return Device(0, "Card", "a card", GPU, free, free)


@pytest.mark.parametrize(("layers", "free", "whole", "filled"), [
    ([10] * 8, [90, 100], False, [0, 8]),  # what fits on one card is not divided
    ([10] * 8, [70], False, [5]), ([30, 30, 10, 10], [45], False, [2]), ([10] * 8, [25, 45], False, [2, 2]),
    ([10] * 8, [29], False, [0]), ([10] * 8, [-5, 10], False, [0, 0]),  # no room for the output and a layer
    ([10] * 8, [90, 99], True, [0, 0]), ([10] * 8, [90, 100], True, [0, 8]),  # a drafter: on one card or on none
])  # fmt: skip
def test_the_last_layers_go_to_the_cards_and_the_output_with_them(layers, free, whole, filled):
    assert fill(layers, 20, free, whole=whole) == filled


def test_without_a_card_nothing_is_placed(models, monkeypatch):
    monkeypatch.setattr(estimate, "local_cards", list)
    info = read_info(models / "tiny-target-a-f16.gguf")
    assert place(info, ModelSettings(), 1024, 64, 0, whole=False) == (None, None)
    with LlamaTarget.open(info.path, ModelSettings(n_ctx=256)) as target:
        assert target.notices == []


def test_a_model_on_a_card_in_part_is_said(tmp_path, monkeypatch):
    info = read_info(write_hollow(tmp_path / "8b.gguf", SHAPES["8B"], "Q4_K_M"))
    monkeypatch.setattr(estimate, "local_cards", lambda: [card(4 * GB)])
    placement, said = place(info, ModelSettings(), 4096, 64, 0, whole=False)
    assert placement is not None
    assert 0 < placement.layers < 32
    assert said.startswith(f"{placement.layers} of 32 layers")
    assert "4.0 GB of a card" in said
    monkeypatch.setattr(estimate, "local_cards", lambda: [card(24 * GB)])
    placement, said = place(info, ModelSettings(), 4096, 64, 0, whole=True)
    assert (placement.layers, said) == (32, None)


@needs_rpc
@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_as_much_as_fits_and_never_more_than_llama_cpp_counts(tmp_path):
    """Cards are workers here, of which llama.cpp tells what it would compute in without reserving it."""
    files = [
        str(write_hollow(tmp_path / f"{name}-{kind}.gguf", shape, kind))
        for (name, shape), kind in product(SHAPES.items(), ("Q4_K_M", "Q8_0", "F16"))
    ]
    with workers(2) as running:
        named = [str(worker.address) for worker in running]
        accounts = {n: _accounts(named[:n], files) for n in (1, 2)}
    lines = 0
    for free in DEVICES:
        for file, n_ctx, cached, computing in accounts[len(free)]:
            told = check(file, n_ctx, free, cached, computing)
            lines += 1
            print(os.path.basename(file), n_ctx, [count / GB for count in free], told)
    assert lines == len(DEVICES) * len(files) * len(CONTEXTS)


def _accounts(named: list[str], files: list[str]) -> list[tuple[str, int, int, int]]:
    command = [sys.executable, "-m", "tests.backends.llama.card_accounts"]
    arguments = [json.dumps(given) for given in (named, files, CONTEXTS)]
    ended = subprocess.run(
        [*command, *arguments], env={**os.environ, WITHIN: "1"}, capture_output=True, text=True, check=True
    )
    return [tuple(json.loads(line)) for line in ended.stdout.splitlines()]


@cache
def needs(file: str, n_ctx: int) -> tuple[list[int], int]:
    info = read_info(file)
    return card_bytes(info, kv_cache_bytes(info, n_ctx, "f16"))


def check(file: str, n_ctx: int, free: tuple[int, ...], cached: int, computing: int) -> str:
    """Nothing over, and at most 8% left where a layer more would have fitted. cached: bytes of the whole cache."""
    layers, output = needs(file, n_ctx)
    kind, shape = file.rpartition("-")[2].removesuffix(".gguf"), SHAPES[os.path.basename(file).partition("-")[0]]
    held = sum(size for name, size in tensor_sizes(shape, kind) if name.startswith("blk."))
    assert abs(held + cached - sum(layers)) < 1e6
    counts = fill(layers, output, [int(0.95 * each) - computing for each in sorted(free)])
    at = len(layers)
    for i, room in reversed(list(enumerate(sorted(free)))):
        filled = sum(layers[at - counts[i] : at]) + computing + (output if i == len(free) - 1 else 0)
        at -= counts[i]
        if counts[i]:
            assert filled <= room
        if at:
            assert filled + max(layers) > 0.92 * room
    return f"{sum(counts)} of {len(layers)}"
