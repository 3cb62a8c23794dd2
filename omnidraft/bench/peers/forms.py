"""The same weights in every form the programs read: enlarged to a regime, as GGUF and as Hugging Face folders."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from omnidraft.backends.gguf.expand import SHAPES, expanded_model
from omnidraft.backends.gguf.expand.shapes import BLOCK
from omnidraft.backends.gguf.expand.source import LlamaFile
from omnidraft.bench import regimes
from omnidraft.bench.peers.learned import Learned
from omnidraft.bench.peers.peer import Models
from omnidraft.bench.peers.plan import Plan
from omnidraft.storage.paths import DataHome

N_CTX = 1024


def forms(home: DataHome, plan: Plan, learned: Learned | None, told: Callable[[str], None]) -> Models:
    """Built in the cache folder where they are missing; folders only if a peer of the plan reads them."""
    told(f"models at {plan.regime}")
    target, drafter = regimes.models(home, plan.regime, plan.target, plan.drafter, plan.drafter_shape)
    folder = drafter_folder = None
    if {"transformers", "folder"} & set(plan.peers):
        folder = regimes.folder(home, plan.regime, plan.target)
        drafter_folder = regimes.drafter_folder(home, plan.regime, plan.drafter, plan.drafter_shape)
    adapter, taught = learned.adapter if learned else None, None
    if adapter is not None:
        taught = regimes.taught(home, plan.regime, adapter, plan.drafter, plan.drafter_shape)
    return Models(
        target, drafter, plan.threads, N_CTX, _helper(home, plan), folder, drafter_folder, taught,
        learned.ids if learned else (),
    )  # fmt: skip


def _helper(home: DataHome, plan: Plan) -> Path | None:
    """A drafter of the target's vocabulary at about the drafter's cost. llama.cpp compares sizes of vocabularies too,
    so it has as many rows as the target."""
    if plan.helper is None or plan.regime == "bundled":
        return plan.helper
    rows, own = SHAPES[plan.regime.partition("-")[0]].vocab, LlamaFile(plan.helper).shape
    # Rows that no text has must be told apart by a part of the width that is theirs.
    like = regimes.shape_of_drafter(plan.regime, plan.drafter_shape)
    like = like or replace(own, name="own", width=own.width + BLOCK)
    layers = max(like.layers, own.layers)
    shape = replace(like, name=f"{like.name}-{layers}-{rows}", layers=layers, vocab=rows)
    return expanded_model(home.cache, plan.helper, shape, regimes.DRAFTER_DTYPE)
