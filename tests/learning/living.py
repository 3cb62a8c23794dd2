"""An assistant that learns from a few short answers of the bundled models."""

from pathlib import Path

from omnidraft.app.assistant import Assistant
from omnidraft.decoding.events import Finished
from omnidraft.decoding.request import AnswerRequest
from omnidraft.lab.prompts import load_prompts
from omnidraft.settings.config import DraftSettings, ModelSettings, SamplingSettings, changed
from omnidraft.storage.paths import DataHome

GREEDY = SamplingSettings(temperature=0, max_tokens=48)
HASTY = "tests.learning.hasty_trainer"  # in place of `process.MODULE`
FIXED = DraftSettings(mode="fixed", length=4)
ONE = ModelSettings(threads=1, n_ctx=512)
PROMPTS = load_prompts("math")


def open_assistant(home: DataHome, models: Path, **settings: object) -> Assistant:
    """A loaded assistant that updates after every 8 answers, as fast as it may."""
    assistant = Assistant(home, learn=True)
    assistant.learner.waits.start = assistant.learner.waits.resume = 0.2
    assistant.learner.machine = str
    wanted = {"interval": 8, "cpu_percent": 50, **settings}
    assistant.settings = changed(assistant.settings, **{f"learning.{name}": value for name, value in wanted.items()})
    assistant.load(models / "tiny-target-a-f16.gguf", models / "tiny-drafter-f16.gguf", ONE)
    return assistant


def ask(assistant: Assistant, numbers: range, chat: str = "chat-{}", text: str = "") -> list[Finished]:
    """Answers to the prompts of these numbers, each in a conversation of its own."""
    finished = []
    for number in numbers:
        messages = [{"role": "user", "content": text}] if text else PROMPTS[number].messages
        *_, last = assistant.answer(
            AnswerRequest(messages, GREEDY, FIXED, source=chat.format(number), capture=assistant.capture)
        )
        finished.append(last)
    return finished
