"""Which programs a plan asks, and how each is loaded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from omnidraft.bench.peers.forms import forms
from omnidraft.bench.peers.learned import learn_from
from omnidraft.bench.peers.peer import Models, Opening, Peer
from omnidraft.bench.peers.plan import Plan
from omnidraft.errors import ModelError
from omnidraft.storage.paths import DataHome


def openings(
    home: DataHome, plan: Plan, folder: Path, told: Callable[[str], None]
) -> tuple[Models, Mapping[str, Opening]]:
    """The models in every form, the learned adapter included, and a function a program that loads it."""
    learned = None
    if plan.learn_prompts:
        prompts = [plan.train(task) for task in plan.tasks]
        learned = learn_from(
            plan.target,
            plan.drafter,
            prompts,
            folder,
            home.cache,
            plan.threads,
            plan.learn_tokens,
            told,
            plan.recorded,
        )
    models = forms(home, plan, learned, told)
    known: dict[str, tuple[str, Opening]] = {
        "llama-cpp-python": ("llama-cpp-python", lambda: _llama_python(models)),
        "server": ("llama.cpp server", lambda: _server(models, plan.server)),
        "transformers": ("transformers", lambda: _transformers(models)),
        "gguf": ("omnidraft", lambda: _ours(home, models, models.target, "omnidraft")),
        "folder": ("omnidraft, folder", lambda: _ours(home, models, models.folder, "omnidraft, folder")),
    }
    return models, dict(known[peer] for peer in plan.peers)


def _llama_python(models: Models) -> Peer:
    from omnidraft.bench.peers.llama_python import LlamaPython

    return LlamaPython(models)


def _server(models: Models, program: Path) -> Peer:
    from omnidraft.bench.peers.llama_server import LlamaServer

    if not program.is_file():
        raise ModelError(f"{program} is not there; bench peers --build-server makes it.")
    return LlamaServer(models, program)


def _transformers(models: Models) -> Peer:
    from omnidraft.bench.peers.folders import AssistedFolder  # brings torch

    return AssistedFolder(models)


def _ours(home: DataHome, models: Models, target: Path | None, name: str) -> Peer:
    from omnidraft.bench.peers.ours import Ours

    assert target is not None  # forms() makes it where the plan asks for it
    return Ours(home, models, target, name)
