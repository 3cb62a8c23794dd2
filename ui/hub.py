"""Downloads from the Hugging Face Hub, only when the user asks: list a repository's GGUF files, fetch one, resume.

The endpoint is huggingface_hub's (HF_ENDPOINT). No token is sent. A file appears in the models folder only when it is
complete and its checksum is right; until then it is a `.part` that the next attempt continues.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import threading
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from omnidraft.errors import OmniDraftError
from ui.format import size as shown_size

log = logging.getLogger("omnidraft.ui")

SUGGESTED = [
    ("Qwen/Qwen2.5-0.5B-Instruct-GGUF", "Qwen2.5 0.5B, quick on any machine"),
    ("HuggingFaceTB/SmolLM2-360M-Instruct-GGUF", "SmolLM2 360M, the smallest that makes sense"),
    ("bartowski/Llama-3.2-1B-Instruct-GGUF", "Llama 3.2 1B, a good all-rounder"),
    ("Qwen/Qwen2.5-1.5B-Instruct-GGUF", "Qwen2.5 1.5B, better answers, still light"),
    ("bartowski/gemma-2-2b-it-GGUF", "Gemma 2 2B"),
]
CHUNK = 1 << 20
SPARE = 256 << 20  # bytes a download must leave free on the disk


class HubError(OmniDraftError):
    """The Hub cannot be reached, or does not have what was asked for."""


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file of a repository. `sha256` is None for small files kept in git itself."""

    repo: str
    name: str
    size: int
    sha256: str | None


def list_files(repo: str) -> list[RemoteFile]:
    """The GGUF files of a public model repository, smallest first. HubError in one sentence."""
    from huggingface_hub import HfApi
    from huggingface_hub.errors import GatedRepoError, HFValidationError, RepositoryNotFoundError

    repo = repo.strip().removeprefix("https://huggingface.co/").strip("/")
    try:
        info = HfApi(token=False).model_info(repo, files_metadata=True, timeout=20)
    except HFValidationError:
        raise HubError(f"'{repo[:80]}' is not a repository id; it looks like owner/name.") from None
    except GatedRepoError:
        raise HubError(f"{repo} asks for a sign-in on its page first; choose a public copy of it.") from None
    except RepositoryNotFoundError:
        raise HubError(f"There is no public repository named {repo}.") from None
    except Exception as error:
        raise _unreachable(error) from None
    found = [
        RemoteFile(repo, s.rfilename, s.size or 0, s.lfs.sha256 if s.lfs else None)
        for s in info.siblings or []
        if s.rfilename.lower().endswith(".gguf")
    ]
    if not found:
        raise HubError(f"{repo} holds no GGUF files; look for a repository with GGUF in its name.")
    return sorted(found, key=lambda file: file.size)


class Download:
    """One file on its way. state: running, cancelled, failed, done. Cancelling keeps what has come for a resume."""

    def __init__(self, file: RemoteFile, folder: Path) -> None:
        self.file = file
        self.path = folder / PurePosixPath(file.name).name
        self.part = self.path.with_name(self.path.name + ".part")
        self.state = "running"
        self.error = ""
        self.done = self.part.stat().st_size if self.part.exists() else 0
        self._cancel = threading.Event()
        self._thread = threading.Thread(target=self._run, name="download", daemon=True)

    def start(self) -> Download:
        self._thread.start()
        return self

    def cancel(self) -> None:
        self._cancel.set()

    def join(self, timeout: float | None = None) -> None:
        self._thread.join(timeout)

    def _run(self) -> None:
        try:
            self._check_room()
            self._fetch()
            if self._cancel.is_set():
                self.state = "cancelled"
                return
            self._check()
            os.replace(self.part, self.path)
            self.state = "done"
        except OmniDraftError as error:
            self.error, self.state = str(error), "failed"
        except Exception as error:
            self.error, self.state = str(_unreachable(error)), "failed"

    def _check_room(self) -> None:
        if self.path.exists():
            raise HubError(f"{self.path.name} is already there.")
        self.path.parent.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(self.path.parent).free
        needed = self.file.size - self.done
        if free < needed + SPARE:
            raise HubError(
                f"{self.path.name} needs {shown_size(needed)} more, but only {shown_size(free)} are free on the disk."
            )

    def _fetch(self) -> None:
        """Append what is missing to the part file."""
        from huggingface_hub import hf_hub_url
        from huggingface_hub.utils import build_hf_headers, get_session

        if self.file.size and self.done >= self.file.size:
            return
        url = hf_hub_url(self.file.repo, self.file.name)
        headers: dict[str, Any] = {**build_hf_headers(token=False), "Accept-Encoding": "identity"}
        if self.done:
            headers["Range"] = f"bytes={self.done}-"
        with get_session().stream("GET", url, headers=headers, follow_redirects=True) as response:
            response.raise_for_status()
            continues = self.done and response.status_code == 206
            if not continues:
                self.done = 0
            with self.part.open("ab" if continues else "wb") as out:
                for chunk in response.iter_bytes(CHUNK):
                    if self._cancel.is_set():
                        return
                    out.write(chunk)
                    self.done += len(chunk)

    def _check(self) -> None:
        """Size and checksum; what is wrong is thrown away, for a resume would build on it."""
        if self.file.size and self.done != self.file.size:
            raise HubError(f"The connection ended after {shown_size(self.done)}; start it again to continue.")
        if self.file.sha256 is None:
            return
        digest = hashlib.sha256()
        with self.part.open("rb") as part:
            while chunk := part.read(CHUNK):
                digest.update(chunk)
        if digest.hexdigest() != self.file.sha256:
            self.part.unlink()
            self.done = 0
            raise HubError(f"{self.path.name} arrived damaged (its checksum is wrong) and was removed; try again.")


class Downloads:
    """All downloads of the running app, the newest last."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.all: list[Download] = []

    def start(self, file: RemoteFile, folder: Path) -> Download:
        """Begin or continue one; HubError if it is running already."""
        with self._lock:
            for other in self.all:
                if other.file.name == file.name and other.file.repo == file.repo:
                    if other.state == "running":
                        raise HubError(f"{file.name} is already being downloaded.")
                    self.all.remove(other)
                    break
            self.all.append(Download(file, folder).start())
            return self.all[-1]

    @property
    def running(self) -> bool:
        return any(download.state == "running" for download in self.all)

    def close(self) -> None:
        for download in self.all:
            download.cancel()


def _unreachable(error: Exception) -> HubError:
    log.info("hub: %s: %s", type(error).__name__, error)
    status = getattr(getattr(error, "response", None), "status_code", None)
    if status is not None:
        return HubError(f"The Hub answered with an error ({status}); try again later.")
    if isinstance(error, OSError) and error.errno is not None and error.filename:
        return HubError(f"The file cannot be written: {error.strerror}.")
    return HubError("The Hub cannot be reached; check the network connection. What has come so far is kept.")
