"""Downloads from the Hugging Face Hub, only when the user asks: fetch what hub_files.py lists, stop, continue.

A file appears in the models folder only when it is complete and its checksum is right; until then it is a `.part` that
the next attempt continues. A folder of weights is gathered in the cache folder and converted by a process of its own.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import threading
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from omnidraft.app.hub_files import HubError, RemoteFile, RemoteModel, request_of, unreachable
from omnidraft.errors import OmniDraftError
from omnidraft.format import short
from omnidraft.format import size as shown_size
from omnidraft.processes.children import LineChild
from omnidraft.storage.files import read_json
from omnidraft.storage.paths import DataHome
from omnidraft.storage.scratch import FileLock

CHUNK = 1 << 20
SPARE = 256 << 20  # bytes a download must leave free on the disk
CONVERTED = "q8_0"


class Download:
    """One model on its way. state: running, converting, cancelled, failed, done. What has come is kept for a resume."""

    def __init__(self, model: RemoteModel, home: DataHome) -> None:
        self.model = model
        self._home = home
        self._folder = home.cache / "downloads" / model.repo.replace("/", "--") if model.convert else home.models
        self.path = self._result()
        self.state = "running"
        self.error = ""
        self.done = sum(self._held(file) for file in model.fetched)
        self._cancel = threading.Event()
        self._thread = threading.Thread(target=self._run, name="download", daemon=True)

    @property
    def busy(self) -> bool:
        return self.state in ("running", "converting")

    def start(self) -> Download:
        self._thread.start()
        return self

    def cancel(self) -> None:
        self._cancel.set()

    def join(self, timeout: float | None = None) -> None:
        self._thread.join(timeout)

    def _result(self) -> Path:
        if self.model.convert:
            return self._home.models / f"{self.model.repo.rpartition('/')[2]}-{CONVERTED}.gguf"
        return self._at(self.model.files[0])

    def _at(self, file: RemoteFile) -> Path:
        """Files of a folder lie as they do there, for their names are known; GGUF files side by side, a
        projector under the name of its model."""
        if file is self.model.projector:
            return self.path.with_name(f"mmproj-{self.path.name}")
        return self._folder / (file.name if self.model.convert else PurePosixPath(file.name).name)

    def _part(self, file: RemoteFile) -> Path:
        return self._at(file).with_name(self._at(file).name + ".part")

    def _held(self, file: RemoteFile) -> int:
        """Bytes of it that are there."""
        for path in (self._at(file), self._part(file)):
            if path.is_file():
                return path.stat().st_size
        return 0

    def _run(self) -> None:
        lock = FileLock(self._home.cache / "downloads" / f"{self.path.name}.lock")
        try:
            if not lock.acquire():  # another program's, or of a file that has the same name
                raise HubError(f"{self.path.name} is already being downloaded.")
            self._check_room()
            for file in self.model.fetched:
                self._at(file).parent.mkdir(exist_ok=True)
                if not self._at(file).exists():
                    self._fetch(file)
                    if self._cancel.is_set():
                        break
                    self._check(file)
                    os.replace(self._part(file), self._at(file))
                if self.model.convert and file.name == "config.json":
                    self._check_kind(self._at(file))
            if self.model.convert and not self._cancel.is_set():
                self._convert()
            self.state = "cancelled" if self._cancel.is_set() else "done"
        except OmniDraftError as error:
            self.error, self.state = str(error), "failed"
        except Exception as error:
            self.error, self.state = str(unreachable(error, self.done)), "failed"
        finally:
            lock.release()

    def _check_room(self) -> None:
        others = () if self.model.convert else self.model.fetched[1:]  # of a folder only what was made of it stays
        if self.path.exists() and all(self._at(file).exists() for file in others):
            raise HubError(f"{self.path.name} is already there.")
        self._folder.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(self._folder).free
        needed = self.model.size - self.done + (self.model.size if self.model.convert else 0)
        if free < needed + SPARE:
            raise HubError(
                f"{self.path.name} needs {shown_size(needed)} more, but only {shown_size(free)} are free on the disk."
            )

    def _fetch(self, file: RemoteFile) -> None:
        """Append what is missing to the file's part."""
        from huggingface_hub.utils import get_session

        held = self._held(file)
        if file.size and held >= file.size:
            return
        url, headers = request_of(file, held)
        with get_session().stream("GET", url, headers=headers, follow_redirects=True) as response:
            response.raise_for_status()
            continues = held and response.status_code == 206
            if not continues:
                self.done -= held
            with self._part(file).open("ab" if continues else "wb") as out:
                for chunk in response.iter_bytes(CHUNK):
                    if self._cancel.is_set() or (file.size and out.tell() > file.size):
                        return
                    out.write(chunk)
                    self.done += len(chunk)

    def _check(self, file: RemoteFile) -> None:
        """Size and checksum; what is wrong is thrown away, for a resume would build on it."""
        part, held = self._part(file), self._held(file)
        if file.size and held < file.size:
            raise HubError(f"The connection ended after {shown_size(self.done)}; start it again to continue.")
        with part.open("rb") as data:
            right = file.sha256 is None or hashlib.file_digest(data, "sha256").hexdigest() == file.sha256
        if (file.size and held > file.size) or not right:
            part.unlink()
            self.done -= held
            name = self._at(file).name
            raise HubError(f"{name} arrived damaged (its size or checksum is wrong) and was removed; try again.")

    def _check_kind(self, config: Path) -> None:
        """Before the weights are fetched: only Llama's layout can be converted."""
        try:
            kind = read_json(config.read_text(encoding="utf-8")).get("model_type")
        except (OSError, ValueError, AttributeError):
            kind = None
        if kind != "llama":
            shutil.rmtree(self._folder, ignore_errors=True)
            raise HubError(
                f"{self.model.repo} is no Llama-like model, so it cannot be converted; look for a GGUF of it."
            )

    def _convert(self) -> None:
        """In a process of its own, which takes its memory with it when it ends."""
        self.state = "converting"
        child = LineChild(
            "omnidraft", "models", "import", str(self._folder), "--data-dir", str(self._home.root),
            "--name", self.model.repo.rpartition("/")[2], "--dtype", CONVERTED, heard=False,
        )  # fmt: skip
        while child.running and not self._cancel.wait(0.1):
            pass
        if self._cancel.is_set():
            child.kill()
        code, said = child.ended(), child.last_words()
        if self._cancel.is_set():
            return
        if code:
            raise HubError(said.splitlines()[-1][:500] if said else "The conversion ended without a reason.")
        shutil.rmtree(self._folder, ignore_errors=True)


class Downloads:
    """All downloads of the running app, the newest last."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.all: list[Download] = []

    def start(self, model: RemoteModel, home: DataHome) -> Download:
        """Begin or continue one; HubError if it is running already."""
        with self._lock:
            for other in self.all:
                if (other.model.repo, other.model.name) == (model.repo, model.name):
                    if other.busy:
                        raise HubError(f"{model.name} is already being downloaded.")
                    self.all.remove(other)
                    break
            self.all.append(Download(model, home).start())
            return self.all[-1]

    @property
    def running(self) -> bool:
        return any(download.busy for download in self.all)

    def close(self) -> None:
        for download in self.all:
            download.cancel()


# Models on the Hub by name, those downloaded most first; without those that cannot fit into memory however packed.
# Nothing is asked unless the user presses Search. What a file takes exactly, its header says: `hub_fit`.


LISTED = 30
SECONDS = 20  # that the Hub has to answer
LEAST_BITS = 2.0  # per parameter: stronger quantization leaves little sense


@dataclass(frozen=True, slots=True)
class Found:
    """A repository with GGUF files. parameters: 0 where the Hub does not say."""

    repo: str
    downloads: int
    parameters: int = 0
    architecture: str = ""

    def label(self) -> str:
        size = f"{short(self.parameters)} · " if self.parameters else ""
        return f"{self.repo} · {size}{self.downloads:,} downloads"

    def fits(self, free: int | None) -> bool:
        """Whether any file of it may fit into so many bytes."""
        return free is None or self.parameters * LEAST_BITS / 8 <= free


def search(words: str, free: int | None) -> tuple[list[Found], int]:
    """(public repositories that match, how many more were left out as too large). HubError in one sentence."""
    from huggingface_hub import constants
    from huggingface_hub.utils import build_hf_headers, get_session

    if not words.strip():
        raise HubError("Write a part of the model's name first.")
    query = {"search": words.strip()[:100], "filter": "gguf", "sort": "downloads", "limit": LISTED, "gated": False,
             "expand": ["downloads", "gguf"]}  # fmt: skip
    try:  # not by `HfApi.list_models`, which tries a Hub that is gone for half a minute
        answer = get_session().get(
            f"{constants.ENDPOINT}/api/models", params=query, headers=build_hf_headers(token=False), timeout=SECONDS
        )
        answer.raise_for_status()
        found = [_found(one) for one in answer.json()]
    except Exception as error:
        raise unreachable(error) from None
    fitting = [one for one in sorted(found, key=lambda one: -one.downloads) if one.fits(free)]
    return fitting, len(found) - len(fitting)


def _found(told: dict[str, Any]) -> Found:
    gguf = told.get("gguf") or {}
    return Found(
        told["id"], int(told.get("downloads") or 0), int(gguf.get("total") or 0), str(gguf.get("architecture") or "")
    )
