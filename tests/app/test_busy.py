"""Who must not wait is refused at once, also where another answer begins while he looks."""

from __future__ import annotations

import threading

import pytest

from omnidraft.app.assistant import Assistant, Busy
from omnidraft.storage.paths import find_data_home


def test_a_caller_that_must_not_wait_never_waits(tmp_path):
    assistant = Assistant(find_data_home(tmp_path), ephemeral=True)
    assistant._lock.acquire()  # somebody has it, and says what for a moment later
    begun = threading.Timer(0.1, lambda: setattr(assistant, "_answering", True))
    begun.start()
    with pytest.raises(Busy):
        assistant.embed(["a"], bool)
    begun.join()
    assistant._answering = False
    assistant._lock.release()
    assistant.close()
