"""Targets, drafters and adapters, damaged where no header tells: the program answers, or refuses in a sentence."""

import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.backends.conftest import write_adapter, write_gguf

__all__ = ["write_adapter", "write_gguf"]
ROOT = Path(__file__).resolve().parents[2]
CASES = 12
ANSWERS = """
import sys
from pathlib import Path
from omnidraft.app.assistant import Assistant
from omnidraft.decoding.request import AnswerRequest
from omnidraft.errors import OmniDraftError
from omnidraft.settings.config import SamplingSettings, changed
from omnidraft.storage.paths import find_data_home
home, target, drafter, adapter = sys.argv[1:]
assistant = Assistant(find_data_home(home))
assistant.settings = changed(assistant.settings, **{"model.threads": 1})
question = [{"role": "user", "content": "What is 2 + 3?"}]
try:
    assistant.load(Path(target), Path(drafter), adapter=Path(adapter))
    events = list(assistant.answer(AnswerRequest(question, SamplingSettings(max_tokens=16), assistant.settings.draft)))
    print("answered", len(events))
except OmniDraftError as error:
    print("refused", error)
assistant.close()
"""


def damage(data: bytes, how: int, by: random.Random) -> bytes:
    """Cut off, with other bytes near the beginning, with a hole in the middle, with numbers that are none."""
    made = bytearray(data)
    if how == 0:
        return bytes(made[: by.randrange(len(made))])
    if how == 1:
        for _ in range(by.randrange(1, 40)):
            made[by.randrange(4000)] = by.randrange(256)
    elif how == 2:
        at = by.randrange(len(made) - 2000)
        made[at : at + 2000] = by.randbytes(2000)
    else:
        for _ in range(200):
            at = by.randrange(len(made) // 2, len(made) - 2)
            made[at : at + 2] = by.choice([b"\x00\x7e", b"\x00\xfe", b"\x00\x7c"])
    return bytes(made)


def answered(home: Path, target: Path, drafter: Path, adapter: Path) -> str:
    command = [sys.executable, "-c", ANSWERS, *map(str, (home, target, drafter, adapter))]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, f"{command[3:]}: {done.returncode} {done.stderr[-2000:]}"
    assert done.stdout.startswith(("answered", "refused"))
    return done.stdout


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("part", ["target", "drafter", "adapter"])
def test_damaged_files_answer_or_are_refused(tmp_path, models, write_adapter, part):
    drafter, by = models / "tiny-drafter-f16.gguf", random.Random(5)
    whole = {"target": models / "tiny-target-a-f16.gguf", "drafter": drafter}
    whole["adapter"] = write_adapter("whole.gguf", drafter)
    assert answered(tmp_path / "home", **whole).startswith("answered")
    for number in range(CASES):
        path = tmp_path / f"damaged-{number}.gguf"
        path.write_bytes(damage(whole[part].read_bytes(), number % 4, by))
        print(answered(tmp_path / "home", **{**whole, part: path}).strip()[-100:])
