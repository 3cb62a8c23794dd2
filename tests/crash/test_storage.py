"""A disk that is full, cannot be written or is held by another program: a sentence each time, and nothing is lost."""

import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

import pytest

from omnidraft.app import conversing
from omnidraft.app.session import Session
from omnidraft.chats import export_json, import_json
from omnidraft.errors import OmniDraftError
from omnidraft.settings.config import AppSettings, changed
from omnidraft.settings.file import load_settings, save_settings
from omnidraft.storage import database
from omnidraft.storage.paths import find_data_home
from tests.crash.checks import check_private, check_profile
from tests.exports import elsewhere

FEW = {"model.threads": 1, "model.n_ctx": 256, "sampling.max_tokens": 8, "sampling.temperature": 0.0}
SMALL = "24m"
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="disks of their own and limits are other things there")


def mounted(folder: Path) -> bool:
    command = ["mount", "-t", "tmpfs", "-o", f"size={SMALL},mode=700", "tmpfs", str(folder)]
    with suppress(OSError):
        return os.geteuid() == 0 and subprocess.run(command, capture_output=True).returncode == 0
    return False


@pytest.fixture
def disk(tmp_path) -> Iterator[Path]:
    """A small disk of its own where that can be had; else a folder."""
    folder = tmp_path / "disk"
    folder.mkdir()
    own = mounted(folder)
    before = os.umask(0o077)
    try:
        yield folder
    finally:
        os.umask(before)
        if own:
            subprocess.run(["umount", "-l", str(folder)], check=True)


@contextmanager
def full(disk: Path) -> Iterator[None]:
    """No room for another byte, or where the disk is not ours no file may grow."""
    if disk.is_mount():
        ballast = disk / "ballast"
        with ballast.open("wb", 0) as file, suppress(OSError):
            while True:
                file.write(bytes(4096))
        try:
            yield
        finally:
            ballast.unlink()
        return
    import resource

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


class FailingDisk:
    """A file system of its own in a file, which Linux makes read-only, open files included, when its disk fails."""

    def __init__(self, folder: Path) -> None:
        self.image, self.folder = folder / "image", folder / "failing"
        self.folder.mkdir()
        with self.image.open("wb") as file:
            file.truncate(48 << 20)
        self._run("mkfs.ext4", "-q", "-F", str(self.image))
        self.mount()

    def mount(self) -> None:
        self._run("mount", "-o", "loop,errors=remount-ro", str(self.image), str(self.folder))

    def fail(self) -> None:
        device = self._run("findmnt", "-no", "SOURCE", str(self.folder)).strip()
        Path("/sys/fs/ext4", Path(device).name, "trigger_fs_error").write_text("failed")
        with pytest.raises(OSError, match="Read-only"):
            (self.folder / "x").touch()

    def mend(self) -> None:
        """As a restart does."""
        self._run("umount", str(self.folder))
        subprocess.run(["e2fsck", "-fy", str(self.image)], capture_output=True)
        self.mount()

    @staticmethod
    def _run(*command: str) -> str:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.fixture
def failing(tmp_path) -> Iterator[FailingDisk]:
    try:
        made = FailingDisk(tmp_path)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no file system of its own can be had here")
    yield made
    subprocess.run(["umount", "-l", str(made.folder)], check=True)


@contextmanager
def locked(session: Session) -> Iterator[None]:
    """Another program writes to every database and does not come to an end."""
    with ExitStack() as held:
        for file in sorted(session.assistant.profile.root.glob("*.sqlite")):
            other = held.enter_context(closing(sqlite3.connect(file, timeout=30)))
            other.execute("BEGIN IMMEDIATE")
        yield


@pytest.fixture
def opened(models, monkeypatch) -> Iterator[Callable[[Path], Session]]:
    """Sessions with their data on a disk."""
    monkeypatch.setattr(database, "BUSY_SECONDS", 0.3)
    made = []

    def open_on(disk: Path) -> Session:
        home = find_data_home(disk / "home")
        save_settings(home.profile().settings, changed(AppSettings(), **FEW))
        drafter = str(models / "tiny-drafter-f16.gguf")
        made.append(Session(home, "default", str(models / "tiny-target-a-f16.gguf"), drafter))
        return made[-1]

    yield open_on
    for session in made:
        session.close()


@pytest.fixture
def session(disk, opened) -> Session:
    return opened(disk)


def ask(session: Session, chat: str) -> str:
    job = conversing.ask(session, chat, "What is 2 + 3?")
    job.join()
    if job.error:
        raise OmniDraftError(job.error)
    return job.text


def acts(session: Session, chat: str) -> dict[str, Callable[[], object]]:
    store = session.store
    exported = elsewhere(export_json(store, [chat]))
    return {
        "ask": lambda: ask(session, chat),
        "change a setting": lambda: session.change("sampling.top_k", 17),
        "resize the cache": session.clear_cache,
        "rename": lambda: store.rename(chat, "another name"),
        "import": lambda: import_json(store, exported),
        "forget": lambda: session.assistant.forget(store, store.create().id),
        "other models": lambda: session.choose(session.target_path().with_name("tiny-target-a2-f16.gguf")),
    }


def tried(session: Session, chat: str) -> dict[str, str]:
    """What could not be done, with the sentence that was said; everything but a sentence is raised."""
    refused = {}
    for name, act in acts(session, chat).items():
        try:
            act()
        except OmniDraftError as error:
            said = str(error)
            assert "\n" not in said, name
            assert said.rstrip().endswith("."), said
            refused[name] = said
    return refused


def goes_on(session: Session, chat: str, before: list) -> None:
    """What was there is there, and everything can be done again."""
    assert session.store.path(chat)[: len(before)] == before
    assert tried(session, chat) == {}
    check_profile(session.assistant.profile)
    settings, warnings = load_settings(session.assistant.profile.settings)
    assert (settings.sampling.top_k, warnings) == (17, [])


def test_a_full_disk_is_a_sentence_and_loses_nothing(disk, session):
    chat = session.store.create().id
    assert ask(session, chat)
    before = session.store.path(chat)
    with full(disk):
        refused = tried(session, chat)
    assert {"change a setting"} <= set(refused)
    goes_on(session, chat, before)


def test_a_disk_that_became_read_only_is_a_sentence_and_loses_nothing(failing, opened):
    session = opened(failing.folder)
    chat = session.store.create().id
    assert ask(session, chat)
    before = session.store.path(chat)
    failing.fail()
    refused = tried(session, chat)
    assert {"ask", "change a setting", "rename", "import", "forget"} <= set(refused)
    assert session.store.path(chat) == before
    home = str(session.assistant.home.root)
    done = subprocess.run(
        [sys.executable, "-m", "omnidraft", "chat", "--data-dir", home, "--prompt", "Hello"],
        cwd=Path(__file__).resolve().parents[2], capture_output=True, text=True, timeout=200,
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr.startswith("omnidraft: The data folder")
    assert done.stderr.count("\n") == 1
    session.close()
    failing.mend()
    goes_on(opened(failing.folder), chat, before)


def test_databases_that_another_program_holds_are_a_sentence_and_lose_nothing(disk, session):
    chat = session.store.create().id
    assert ask(session, chat)
    before = session.store.path(chat)
    with locked(session):
        refused = tried(session, chat)
    assert {"ask", "rename", "import", "forget"} <= set(refused)
    goes_on(session, chat, before)
    check_private(session.assistant.home.root)
