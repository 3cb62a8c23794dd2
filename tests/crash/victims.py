"""Real use that a test kills: `python -m tests.crash.victims HOME`, one line `MODE SEED PORT` per victim on stdin.

Libraries are loaded once; each victim is a fork that knows of the ones before only what is on disk. What it has shown
as done it says on stdout, one JSON line in one write, before it goes on: these lines outlive a kill.
"""

import io
import json
import os
import random
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import app as web
from omnidraft import __main__ as terminal
from omnidraft.app import conversing
from omnidraft.app.session import Session
from omnidraft.chats import TextFile, export_json, import_json
from omnidraft.cli import chat as terminal_chat  # noqa: F401 - loaded before the forks
from omnidraft.errors import OmniDraftError
from omnidraft.learning.adapters.store import Candidate, drop_candidate, keep_candidate
from omnidraft.learning.adapters.versions import ADAPTER, WEIGHTS, Meta, write_adapter
from omnidraft.profiles.folders import remove_leftovers
from omnidraft.settings.config import changed, value_of
from omnidraft.settings.file import load_settings, save_settings
from omnidraft.storage.files import keep_private, pack_arrays
from omnidraft.storage.paths import find_data_home
from tests.crash.checks import VOCABULARY, learned_in
from tests.exports import elsewhere
from ui import server  # noqa: F401 - loaded before the forks

QUESTIONS = ("What is 23 + 45?", "Write a function that adds two numbers.", "What day comes after Monday?", "Hello!")
TARGETS = ("tiny-target-a-f16.gguf", "tiny-target-b-f16.gguf", "tiny-target-a2-f16.gguf")
MODELS = Path(__file__).resolve().parents[2] / "models"
FEW = {"model.threads": 1, "model.n_ctx": 512, "sampling.max_tokens": 48, "learning.interval": 8}


def say(**what: object) -> None:
    os.write(1, json.dumps(what).encode() + b"\n")


class Page:
    """What a person does on the pages, through what their events call."""

    def __init__(self, home: Path, seed: int) -> None:
        self.home = find_data_home(home)
        remove_leftovers(self.home)
        self.session = Session(self.home, "default", None, str(MODELS / "tiny-drafter-f16.gguf"))
        waits = self.session.assistant.learner.waits
        waits.start = waits.resume = 0.05
        self.session.assistant.learner.machine = str
        self.random = random.Random(seed)

    def work(self) -> None:
        self.session.prepare()
        say(ready=True)
        acts = [self.again, self.stop_and_resume, self.change, self.resize, self.swap, self.bring_chats,
                self.forget, self.train, self.versions] + [self.ask] * 6  # fmt: skip
        while True:
            act = self.random.choice(acts)
            try:
                act()
            except OmniDraftError as error:
                say(refused=str(error), act=act.__name__)

    def _chat(self) -> str:
        chats = self.session.store.conversations()
        if len(chats) > 3 or (chats and self.random.random() < 0.5):
            return self.random.choice(chats).id
        return self.session.store.create(title="about numbers").id

    def _shown(self, job) -> None:
        job.join()
        say(shown=job.message, chat=job.chat, text=job.text, error=job.error)

    def ask(self) -> None:
        files = [TextFile("notes.txt", "seven is less than nine")] if self.random.random() < 0.2 else []
        self._shown(conversing.ask(self.session, self._chat(), self.random.choice(QUESTIONS), files))

    def again(self) -> None:
        self._shown(conversing.regenerate(self.session, self._chat()))

    def stop_and_resume(self) -> None:
        job = conversing.ask(self.session, self._chat(), self.random.choice(QUESTIONS))
        time.sleep(self.random.uniform(0, 0.05))
        job.stop()
        self._shown(job)
        say(replacing=job.message)
        self._shown(conversing.resume(self.session, job.chat))

    def change(self) -> None:
        name, value = self.random.choice(
            [("sampling.top_k", self.random.randint(1, 99)), ("draft.length", self.random.randint(1, 8)),
             ("learning.interval", self.random.randint(1, 64))]
        )  # fmt: skip
        say(setting=name, was=value_of(self.session.settings, name), to=value)
        self.session.change(name, value)
        say(set=name, to=value)

    def resize(self) -> None:
        self.session.change("cache.capacity", self.random.choice([50, 500, 20_000]))

    def swap(self) -> None:
        self.session.choose(MODELS / self.random.choice(TARGETS))

    def bring_chats(self) -> None:
        for chat in import_json(self.session.store, elsewhere(export_json(self.session.store, [self._chat()])))[0]:
            say(imported=chat.id, messages=len(self.session.store.path(chat.id)))

    def forget(self) -> None:
        if len(self.session.store.conversations()) > 2:
            chat = self._chat()
            say(forgetting=chat)
            self.session.assistant.forget(self.session.store, chat)
            say(forgotten=chat)

    def train(self) -> None:
        self.session.assistant.learner.train_now()
        time.sleep(self.random.uniform(0, 0.3))

    def versions(self) -> None:
        known = [None, *(info.version.name for info in self.session.assistant.learned.versions())]
        self.session.assistant.learner.choose(self.random.choice(known))


def page(home: Path, seed: int, port: int) -> None:
    Page(home, seed).work()


def publish(home: Path, seed: int, port: int) -> None:
    """What learning does with versions, again and again: keeps a candidate, publishes, merges, sweeps, goes back. Large
    files take long enough to be killed in."""
    dice = np.random.default_rng(seed)
    adapters = learned_in(find_data_home(home))
    choice = adapters.choose(MODELS / "tiny-drafter-f16.gguf", VOCABULARY)
    say(ready=True)
    while True:
        weights = {f"blk.0.attn_q.lora_{half}": dice.normal(0, 0.02, shape).astype(np.float32)
                   for half, shape in (("a", (1024, 192)), ("b", (192, 1024)))}  # fmt: skip
        store, files = choice.learned_in, _files(weights)
        say(publishing=True)
        keep_candidate(store.folder, Candidate(weights, "", 1, 0, ()))
        version = store.publish(files, Meta("", VOCABULARY, rank=1024))
        say(published=version.name)
        drop_candidate(store.folder)
        choice = adapters.choose(choice.drafter, VOCABULARY)
        adapters.drop_merged(keep=choice.file)
        store.prune()
        if dice.random() < 0.2:
            store.choose(dice.choice([one.name for one in store.versions()]))


def _files(weights: dict[str, np.ndarray]) -> dict[str, bytes]:
    with tempfile.TemporaryDirectory() as folder:
        write_adapter(Path(folder, ADAPTER), weights, MODELS / "tiny-drafter-f16.gguf", 1024)
        return {ADAPTER: Path(folder, ADAPTER).read_bytes(), WEIGHTS: pack_arrays(weights)}


def serve(home: Path, seed: int, port: int) -> None:
    say(ready=True)
    web.main(["--port", str(port), "--data-dir", str(home)])


def chat(home: Path, seed: int, port: int) -> None:
    """The terminal with questions piped in; every answer teaches the n-gram cache and the replay."""
    lines = [random.Random(seed + n).choice(QUESTIONS) for n in range(200)]
    sys.stdin = io.StringIO("\n".join(lines))
    say(ready=True)
    code = terminal.main(["chat", "--data-dir", str(home), "--profile", "terminal", "--threads", "1", "--ctx", "512"])
    say(ended=code)


def prepare(home: Path) -> None:
    """Settings that suit a busy machine, and nothing else."""
    for profile in ("default", "terminal"):
        file = find_data_home(home).profile(profile).settings
        settings, _ = load_settings(file)
        save_settings(file, changed(settings, **FEW))


def main(home: Path) -> None:
    keep_private()
    prepare(home)
    print("prepared", flush=True)
    for line in sys.stdin:
        mode, seed, port = line.split()
        if (pid := os.fork()) == 0:
            null = os.open(os.devnull, os.O_RDONLY)
            os.dup2(null, 0)
            sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - only what `say` says shall be heard
            try:
                {"page": page, "serve": serve, "chat": chat, "publish": publish}[mode](home, int(seed), int(port))
            except BaseException as error:
                say(broken=f"{type(error).__name__}: {error}")
            os._exit(0)
        say(victim=pid)
        os.waitpid(pid, 0)
        say(over=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
