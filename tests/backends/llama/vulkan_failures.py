"""What a test of cards that fail does, under a library that makes them fail (failing_card.c); prints a JSON object.

`python -m tests.backends.llama.vulkan_failures HOME full|gone|after`.
"""

import json
import os
import shutil
import sys
from pathlib import Path
from unittest.mock import patch

from omnidraft.app.assistant import Assistant
from omnidraft.backends.llama.devices import local_cards
from omnidraft.decoding.request import AnswerRequest
from omnidraft.errors import ModelError
from omnidraft.learning.adapters import serving
from omnidraft.settings.config import AUTO_LAYERS, ModelSettings, SamplingSettings
from omnidraft.storage.paths import find_data_home
from tests.backends.llama.vulkan_cases import DRAFTED, DRAFTER, OTHER, QUESTIONS, TARGET, compared, prefers, text

OWN = "target.gguf"  # a file that is not trusted as the bundled ones are
LONG = "Please " * 40 + QUESTIONS[0]  # llama.cpp would give prompts of 32 tokens and more to a card it knows
HERE, ALL, FITTING = (ModelSettings(n_ctx=512, n_gpu_layers=layers) for layers in (0, 1000, AUTO_LAYERS))


def full(assistant: Assistant, _home: Path) -> dict:
    """A card with less room than the target needs: all of it, whether it fits or not, and then what fits."""
    told: dict = {"free": _free()}
    assistant.load(OTHER, DRAFTER, HERE)
    before = text(assistant, LONG, 0.0)
    told["free_beside_the_processor"] = _free()
    try:
        assistant.load(TARGET, DRAFTER, ALL)
    except ModelError as error:
        told["refused"] = str(error)
    told["free_behind_the_refusal"] = _free()
    told["goes_on"] = text(assistant, LONG, 0.0) == before
    told["notices"] = assistant.load(TARGET, None, FITTING)
    told["free_beside_the_target"] = _free()
    with patch.object(serving, "step_seconds", prefers(here=True)):
        told["texts"] = compared(assistant, TARGET, FITTING)
    assistant.unload()
    return {**told, "free_at_the_end": _free()}


def _free() -> int:
    return local_cards()[0].free


def gone(assistant: Assistant, home: Path) -> dict:
    """The card vanishes behind an answer's first words."""
    shutil.copy(TARGET, home / OWN)
    assistant.load(home / OWN, None, ALL)
    for _ in assistant.answer(_asked()):
        Path(os.environ["CARD_GONE"]).touch()
    return {}


def after(assistant: Assistant, home: Path) -> dict:
    """The next program, on the processor."""
    assistant.load(home / OWN, None, HERE)
    return {"text": text(assistant, QUESTIONS[0], 0.0)}


def _asked() -> AnswerRequest:
    sampling = SamplingSettings(temperature=0.0, max_tokens=40, seed=7)
    return AnswerRequest([{"role": "user", "content": QUESTIONS[1]}], sampling, DRAFTED)


if __name__ == "__main__":
    _home = Path(sys.argv[1])
    _assistant = Assistant(find_data_home(_home))
    _told = {"full": full, "gone": gone, "after": after}[sys.argv[2]](_assistant, _home)
    _assistant.close()
    print(json.dumps(_told))
