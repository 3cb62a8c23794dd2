"""The same weights in every form the programs read, the drafter that learned among them, and how each is loaded."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path

from omnidraft.app.default_models import choose_target, need_drafter
from omnidraft.backends.gguf.expand.cache import expanded_model
from omnidraft.backends.gguf.expand.shapes import BLOCK, SHAPES
from omnidraft.backends.gguf.expand.source import LlamaFile
from omnidraft.bench import learn, regimes
from omnidraft.bench.pairs import said
from omnidraft.bench.peers.llama_server import LlamaServer
from omnidraft.bench.peers.ours import Alone, Ours
from omnidraft.bench.peers.peer import Models, Opening, Peer
from omnidraft.bench.plans import Learn, Peers
from omnidraft.bench.questions import Prompts
from omnidraft.bench.runner import Cells, Work
from omnidraft.errors import ModelError
from omnidraft.lab.prompts import Prompt
from omnidraft.processes.cores import physical_cores
from omnidraft.storage.files import write_atomically
from omnidraft.storage.paths import DataHome

N_CTX = 1024
LOSS = "projected"
PROGRAMS = {"server": "llama.cpp server", "transformers": "transformers", "alone": "omnidraft without a drafter",
            "gguf": "omnidraft", "folder": "omnidraft, folder"}  # fmt: skip


def models_of(plan: Peers, work: Work, prompts: Sequence[Prompts]) -> Models:
    """Built in the cache folder where they are missing; folders only if a program of the plan reads them."""
    work.told(f"models at {plan.regime}")
    home, given, bare = work.home, choose_target(plan.target, work.home), need_drafter(plan.drafter, work.home)
    target, drafter = regimes.models(home, plan.regime, given, bare, plan.drafter_shape)
    threads = plan.threads or physical_cores()
    found = Models(target, drafter, threads, N_CTX, _helper(home, plan))
    if {"transformers", "folder"} & set(plan.peers):
        folder = regimes.folder(home, plan.regime, given)
        beside = regimes.drafter_folder(home, plan.regime, bare, plan.drafter_shape)
        found = replace(found, folder=folder, drafter_folder=beside)
    return _taught(plan, work, found, (given, bare), prompts) if plan.learn_prompts else found


def _taught(
    plan: Peers, work: Work, models: Models, small: tuple[Path, Path], prompts: Sequence[Prompts]
) -> Models:  # fmt: skip
    """With the adapter that "learned" drafts with, trained on answers to prompts of all tasks in turn."""
    mixed = [prompt for row in zip_longest(*(part.train for part in prompts)) for prompt in row if prompt is not None]
    file = work.cells.place("mixed.jsonl")
    lines = [_line(prompt, "train") for prompt in mixed[:-1]] + [_line(mixed[-1], "test")]
    write_atomically(file, "".join(lines).encode())
    asked = Learn(
        str(small[1]), models.threads, (str(small[0]),), (str(file),), (LOSS,), seeds=1, train_prompts=len(mixed) - 1,
        train_tokens=plan.learn_tokens, test_prompts=1, test_tokens=16, temperature=("0",),
    )  # fmt: skip
    cells = Cells(work.cells.folder / "learned")
    ((stream, _, _), *_) = learn.results(asked, replace(work, cells=cells))
    adapter = learn.adapter_of(cells.folder, small[0], str(file), LOSS)
    if adapter is None:
        return models
    taught = regimes.taught(work.home, plan.regime, adapter, small[1], plan.drafter_shape)
    return replace(models, taught=taught, learned=list(said(learn.answers_of(cells.folder, stream))))


def _line(prompt: Prompt, split: str) -> str:
    return json.dumps({"id": prompt.id, "task": "mixed", "split": split, "messages": list(prompt.messages)}) + "\n"


def _helper(home: DataHome, plan: Peers) -> Path | None:
    """A drafter of the target's vocabulary at about the drafter's cost. llama.cpp compares sizes of vocabularies too,
    so it has as many rows as the target."""
    helper = None if plan.helper == "none" else choose_target(plan.helper, home)
    if helper is None or plan.regime == "bundled":
        return helper
    rows, own = SHAPES[plan.regime.partition("-")[0]].vocab, LlamaFile(helper).shape
    # Rows that no text has must be told apart by a part of the width that is theirs.
    like = regimes.shape_of_drafter(plan.regime, plan.drafter_shape)
    like = like or replace(own, name="own", width=own.width + BLOCK)
    layers = max(like.layers, own.layers)
    shape = replace(like, name=f"{like.name}-{layers}-{rows}", layers=layers, vocab=rows)
    return expanded_model(home.cache, helper, shape, regimes.DRAFTER_DTYPE)


def openings(plan: Peers, home: DataHome, models: Models) -> Mapping[str, Opening]:
    """A function a program that loads it."""
    program = Path(plan.server) if plan.server else home.cache / "peers" / "llama-server"
    known: dict[str, Opening] = {
        "server": lambda: _server(models, program),
        "transformers": lambda: _transformers(models),
        "alone": lambda: Alone(home, models),
        "gguf": lambda: Ours(home, models, models.target),
        "folder": lambda: Ours(home, models, models.folder or models.target),
    }
    return {PROGRAMS[peer]: known[peer] for peer in plan.peers}


def _server(models: Models, program: Path) -> Peer:
    if not program.is_file():
        raise ModelError(f"llama.cpp's server is not at {program}; docs/evidence.md says how to build it.")
    return LlamaServer(models, program)


def _transformers(models: Models) -> Peer:
    from omnidraft.bench.transformers_models import Transformers  # brings torch

    return Transformers(models)
