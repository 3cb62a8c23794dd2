"""What unloaded models leave behind."""

import subprocess
import sys
from pathlib import Path

import pytest

from omnidraft.prompting.grammar_state import whole_vocabulary
from omnidraft.settings.config import DraftSettings, SamplingSettings
from omnidraft.storage.paths import BUNDLED_MODELS
from tests.answering import answered, loaded
from tests.real import SMOL, real_model


@pytest.mark.skipif(sys.platform != "linux", reason="reads what Linux says of a process's memory")
def test_unloaded_models_leave_little_memory(tmp_path):
    """In a process of its own: others' blocks would be told from these by nobody."""
    command = [sys.executable, "-m", "tests.app.test_unloading", str(real_model(SMOL)), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    before, full, after = map(int, done.stdout.split())
    assert full > before + 200
    assert after < before + 60, (before, full, after)


def test_what_was_made_of_a_vocabulary_goes_with_its_model(tmp_path, models):
    with loaded(tmp_path, models / "tiny-target-a-f16.gguf", None) as assistant:
        vocabulary = assistant.target.vocabulary
        made = whole_vocabulary(vocabulary)
        assert whole_vocabulary(vocabulary) is made
        assistant.unload()
        assert whole_vocabulary(vocabulary) is not made


def _megabytes() -> int:
    """Of this process alone."""
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("Pss_Anon:")).split()[1]) // 1024


def _main(target: Path, home: Path) -> None:
    found = [_megabytes()]
    with loaded(home, target, BUNDLED_MODELS / "smol-drafter-q5_0.gguf") as assistant:
        answered(assistant, "What is gravity?", SamplingSettings(max_tokens=16), DraftSettings())
        found.append(_megabytes())
        assistant.unload()
        found.append(_megabytes())
    print(*found)


if __name__ == "__main__":
    _main(Path(sys.argv[1]), Path(sys.argv[2]))
