"""Loads a model as the app does and ends as it is told: `python -m tests.using HOME MODEL HOW`."""

import ctypes
import os
import signal
import sys
from pathlib import Path

from omnidraft.app.assistant import Assistant
from omnidraft.errors import OmniDraftError
from omnidraft.settings.config import ModelSettings
from omnidraft.storage.files import keep_private
from omnidraft.storage.paths import find_data_home


def main(home: str, model: str, how: str) -> None:
    keep_private()
    assistant = Assistant(find_data_home(home))
    try:
        assistant.load(Path(model), None, ModelSettings(threads=1, n_ctx=256))
    except OmniDraftError as error:
        print(error)
        return
    if how == "abort":
        os.abort()
    if how == "fault":
        ctypes.string_at(0)
    if how == "kill":
        os.kill(os.getpid(), getattr(signal, "SIGKILL", signal.SIGTERM))
    assistant.close()
    print("closed")


if __name__ == "__main__":
    main(*sys.argv[1:])
