"""What llama.cpp itself says a card would hold, for models without weights on workers' devices; one JSON line each.

A process of its own, which losing a worker ends: `python -m tests.backends.llama.card_accounts WORKERS FILES CONTEXTS`.
"""

import json
import sys

from omnidraft.backends.gguf.file import read_info
from omnidraft.backends.llama.devices import register_worker
from omnidraft.backends.llama.estimate import simulate
from omnidraft.settings.config import ModelSettings


def main(workers: list[str], files: list[str], contexts: list[int]) -> None:
    cards = [device for worker in workers for device in register_worker(worker)]
    for file in files:
        for n_ctx in contexts:
            settings = ModelSettings(n_ctx=n_ctx, n_gpu_layers=1000)
            cache, _, computing = simulate(read_info(file), settings, n_ctx, 64, 0, cards)
            print(json.dumps([file, n_ctx, cache, computing]), flush=True)


if __name__ == "__main__":
    main(*(json.loads(argument) for argument in sys.argv[1:]))
