"""What a test of graphics cards does, in a process whose llama.cpp has the Vulkan backend; prints one JSON object.

`python -m tests.backends.llama.vulkan_cases HOME`. The card is Mesa's driver that computes on the processor: figures of
speed from it mean nothing.
"""

import json
import sys
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

from omnidraft.app.assistant import Assistant
from omnidraft.backends.llama import estimate
from omnidraft.backends.llama.devices import Device, local_cards
from omnidraft.backends.llama.estimate import estimate_on_cards
from omnidraft.backends.llama.model import LlamaDrafter
from omnidraft.decoding.events import Finished
from omnidraft.decoding.request import AnswerRequest
from omnidraft.learning.adapters import serving
from omnidraft.settings.config import AUTO_LAYERS, DraftSettings, ModelSettings, SamplingSettings
from omnidraft.storage.paths import BUNDLED_MODELS, find_data_home

TARGET, OTHER = BUNDLED_MODELS / "tiny-target-a-f16.gguf", BUNDLED_MODELS / "tiny-target-b-f16.gguf"
DRAFTER = BUNDLED_MODELS / "tiny-drafter-f16.gguf"
QUESTIONS = ("What is 12 + 30?", "Write a Python function that adds two numbers.", "What is OmniDraft?")
DRAFTED = DraftSettings(mode="fixed", length=4)


def main(home: Path) -> None:
    found = local_cards()
    told: dict = {"cards": [card.description for card in found], "texts": {}, "drafter_on_card": {}}
    assistant = Assistant(find_data_home(home))
    for layers in (0, 4, 1000, AUTO_LAYERS):
        settings = ModelSettings(n_ctx=512, n_gpu_layers=layers)
        for here in (True, False):
            with patch.object(serving, "step_seconds", prefers(here)):
                told["texts"][f"{layers} {here}"] = compared(assistant, TARGET, settings)
            told["drafter_on_card"][f"{layers} {here}"] = assistant.loaded.drafter.on_card
    told["switched"] = [compared(assistant, target, ModelSettings(n_ctx=512)) for target in (TARGET, OTHER, TARGET)]
    told["little"] = _little(assistant, found)
    assistant.close()
    told["closed"] = [card.free == before.free for card, before in zip(local_cards(), found, strict=True)]
    print(json.dumps(told))


def prefers(here: bool):
    """Steps are quicker on the processor, or on the card."""
    return lambda drafter: float(drafter.on_card == here)


def compared(assistant: Assistant, target: Path, settings: ModelSettings) -> list[list[str]]:
    """Of each question, at T = 0 and at T = 1: the text without a drafter, and with one."""
    said = []
    for drafter in (None, DRAFTER):
        assistant.load(target, drafter, settings)
        said.append([text(assistant, question, t) for question in QUESTIONS for t in (0.0, 1.0)])
    return [list(texts) for texts in zip(*said, strict=True)]


def text(assistant: Assistant, question: str, temperature: float) -> str:
    sampling = SamplingSettings(temperature=temperature, max_tokens=40, seed=7)
    asked = AnswerRequest([{"role": "user", "content": question}], sampling, DRAFTED)
    events = list(assistant.answer(asked))
    assert isinstance(events[-1], Finished)
    return "".join(getattr(event, "text", "") for event in events)


def _little(assistant: Assistant, found: list[Device]) -> dict:
    """A card with room for half of the target only."""
    settings = ModelSettings(n_ctx=512)
    info = assistant.target.info
    cache, computing = estimate_on_cards(info, settings, 512, 64, 0)
    layers, output = estimate.card_bytes(info, cache)
    half = int((computing + output + sum(layers) / 2) / estimate.SPARE)
    few = [replace(card, free=half) for card in found]
    with patch.object(estimate, "local_cards", lambda: few):
        notices, texts = assistant.load(TARGET, None, settings), compared(assistant, TARGET, settings)
        with LlamaDrafter.open(DRAFTER, replace(settings, n_gpu_layers=0)) as beside:
            on_card = beside.on_card
    return {"notices": notices, "texts": texts, "beside": on_card}


if __name__ == "__main__":
    main(Path(sys.argv[1]))
