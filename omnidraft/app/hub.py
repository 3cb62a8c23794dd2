"""The Hugging Face Hub, asked only when the user presses a button: what it has by name, what a repository holds of use
here, and downloads: fetch, stop, continue.

The endpoint is huggingface_hub's (HF_ENDPOINT); no token is sent. A file appears in the models folder only when it is
complete and its checksum is right; until then it is a `.part` that the next attempt continues.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import shutil
import threading
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from omnidraft.app.room import Room
from omnidraft.errors import OmniDraftError
from omnidraft.format import short
from omnidraft.format import size as shown_size
from omnidraft.storage.paths import DataHome
from omnidraft.storage.scratch import FileLock

log = logging.getLogger("omnidraft.ui")

CHUNK = 1 << 20
SPARE = 256 << 20  # bytes a download must leave free on the disk
_PART = re.compile(r"-(\d{5})-of-(\d{5})\.gguf$", re.IGNORECASE)
_USUAL = "q4_k_m"


class HubError(OmniDraftError):
    """The Hub cannot be reached, or does not have what was asked for."""


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file of a repository. `sha256` is None for small files kept in git itself."""

    repo: str
    name: str
    size: int
    sha256: str | None


@dataclass(frozen=True, slots=True)
class RemoteModel:
    """What one download brings: a GGUF file or all parts of a split one, and the projector through which it sees
    pictures, where the repository has one."""

    repo: str
    name: str
    files: tuple[RemoteFile, ...]
    licence: str = ""
    projector: RemoteFile | None = None

    @property
    def fetched(self) -> tuple[RemoteFile, ...]:
        return self.files if self.projector is None else (*self.files, self.projector)

    @property
    def size(self) -> int:
        return sum(file.size for file in self.fetched)


def list_models(repo: str) -> list[RemoteModel]:
    """What a public repository offers, smallest first. HubError in one sentence."""
    from huggingface_hub import HfApi
    from huggingface_hub.errors import GatedRepoError, HFValidationError, RepositoryNotFoundError

    repo = repo.strip().removeprefix("https://huggingface.co/").strip("/")
    if not repo:
        raise HubError("Name a repository first, like owner/name, or choose a suggestion.")
    try:
        info = HfApi(token=False).model_info(repo, files_metadata=True, timeout=20)
    except HFValidationError:
        raise HubError(f"'{repo[:80]}' is not a repository id; it looks like owner/name.") from None
    except GatedRepoError:
        raise HubError(f"{repo} asks for a sign-in on its page first; choose a public copy of it.") from None
    except RepositoryNotFoundError:
        raise HubError(f"There is no public repository named {repo}.") from None
    except Exception as error:
        raise unreachable(error) from None
    files = [RemoteFile(repo, s.rfilename, s.size or 0, s.lfs.sha256 if s.lfs else None) for s in info.siblings or []]
    licence = str(getattr(info.card_data, "license", None) or "")
    found = _gguf(files, licence)
    if not found:
        raise HubError(f"{repo} holds no GGUF files; look for a repository with GGUF in its name.")
    return sorted(found, key=lambda model: model.size)


def best(offered: list[RemoteModel], room: Room) -> RemoteModel | None:
    """The one to take: in the format that most take, else the largest, of those that fit."""
    fitting = [one for one in offered if room.holds(one.size)[0]]
    usual = [one for one in fitting if _USUAL in one.name.lower()]
    return max(usual or fitting, key=lambda one: one.size, default=None)


def named(offered: list[RemoteModel], repo: str, file: str) -> RemoteModel:
    """The file of this name, else the only one whose name has this word in it; the only one there is without a name."""
    wanted = file.lower()
    exact = [one for one in offered if wanted in (one.name.lower(), one.files[0].name.lower())]
    found = exact or [one for one in offered if wanted in one.name.lower()]
    if len(found) != 1:
        names = ", ".join(one.name for one in (found or offered)[:12])
        raise HubError(f"{repo} has {'several files' if found else 'no file'} called {file[:80]}; it offers {names}.")
    return found[0]


def _gguf(files: list[RemoteFile], licence: str) -> list[RemoteModel]:
    """One entry per GGUF file; the parts of a split one together, each with the projector if there is one."""
    found: dict[str, list[RemoteFile]] = {}
    projectors = [f for f in files if re.search(r"mmproj[^/]*\.gguf$", f.name, re.IGNORECASE)]
    # F16 is what most are made in; of the others the smallest says the same.
    projector = min(
        projectors, key=lambda file: (not re.search(r"\bf16\b", file.name.lower()), file.size), default=None
    )
    for file in files:
        if file.name.lower().endswith(".gguf") and file not in projectors:
            found.setdefault(_PART.sub(".gguf", file.name), []).append(file)
    return [
        RemoteModel(
            parts[0].repo,
            f"{name} in {len(parts)} parts" if len(parts) > 1 else parts[0].name,
            tuple(sorted(parts, key=lambda file: file.name)),
            licence=licence,
            projector=projector,
        )
        for name, parts in found.items()
    ]


def unreachable(error: Exception, done: int = 0) -> HubError:
    """What went wrong on the way, in a sentence. done: bytes of a file that had come by then."""
    log.info("hub: %s: %s", type(error).__name__, error)
    status = getattr(getattr(error, "response", None), "status_code", None)
    if status is not None:
        return HubError(f"The Hub answered with an error ({status}); try again later.")
    if isinstance(error, OSError) and error.errno is not None and error.filename:
        return HubError(f"The file cannot be written: {error.strerror}.")
    kept = " What has come so far is kept." if done else ""
    return HubError(f"The Hub cannot be reached; check the network connection.{kept}")


class Download:
    """One model on its way. state: running, cancelled, failed, done. What has come is kept for a resume."""

    def __init__(self, model: RemoteModel, home: DataHome) -> None:
        self.model = model
        self._home = home
        self.path = self._at(model.files[0])
        self.state = "running"
        self.error = ""
        self.done = sum(self._held(file) for file in model.fetched)
        self._cancel = threading.Event()
        self._thread = threading.Thread(target=self._run, name="download", daemon=True)

    @property
    def busy(self) -> bool:
        return self.state == "running"

    def start(self) -> Download:
        self._thread.start()
        return self

    def cancel(self) -> None:
        self._cancel.set()

    def join(self, timeout: float | None = None) -> None:
        self._thread.join(timeout)

    def _at(self, file: RemoteFile) -> Path:
        """GGUF files lie side by side, a projector under the name of its model."""
        name = PurePosixPath(file.name).name
        return self._home.models / (f"mmproj-{self.path.name}" if file is self.model.projector else name)

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
                if not self._at(file).exists():
                    self._fetch(file)
                    if self._cancel.is_set():
                        break
                    self._check(file)
                    os.replace(self._part(file), self._at(file))
            self.state = "cancelled" if self._cancel.is_set() else "done"
        except OmniDraftError as error:
            self.error, self.state = str(error), "failed"
        except Exception as error:
            self.error, self.state = str(unreachable(error, self.done)), "failed"
        finally:
            lock.release()

    def _check_room(self) -> None:
        if all(self._at(file).exists() for file in self.model.fetched):
            raise HubError(f"{self.path.name} is already there.")
        self._home.models.mkdir(parents=True, exist_ok=True)
        free, needed = shutil.disk_usage(self._home.models).free, self.model.size - self.done
        if free < needed + SPARE:
            raise HubError(
                f"{self.path.name} needs {shown_size(needed)} more, but only {shown_size(free)} are free on the disk."
            )

    def _fetch(self, file: RemoteFile) -> None:
        """Append what is missing to the file's part."""
        from huggingface_hub import hf_hub_url
        from huggingface_hub.utils import build_hf_headers, get_session

        held = self._held(file)
        if file.size and held >= file.size:
            return
        url = hf_hub_url(file.repo, file.name)
        headers = {**build_hf_headers(token=False), "Accept-Encoding": "identity"}
        if held:
            headers["Range"] = f"bytes={held}-"
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


LISTED = 30
SECONDS = 20  # that the Hub has to answer
LEAST_BITS = 2.0  # per parameter: stronger quantization leaves little sense


@dataclass(frozen=True, slots=True)
class Found:
    """A repository with GGUF files. parameters: 0 where the Hub does not say."""

    repo: str
    downloads: int
    parameters: int = 0

    def label(self) -> str:
        size = f"{short(self.parameters)} · " if self.parameters else ""
        return f"{self.repo} · {size}{self.downloads:,} downloads"

    @property
    def least(self) -> float:
        """Bytes of the smallest file there may be."""
        return self.parameters * LEAST_BITS / 8


def search(words: str, room: Room) -> tuple[list[Found], int]:
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
    fitting = [one for one in sorted(found, key=lambda one: -one.downloads) if room.holds(one.least)[0]]
    return fitting, len(found) - len(fitting)


def _found(told: dict[str, Any]) -> Found:
    return Found(told["id"], int(told.get("downloads") or 0), int((told.get("gguf") or {}).get("total") or 0))
