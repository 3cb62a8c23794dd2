"""What a repository of the Hugging Face Hub holds of use here.

The endpoint is huggingface_hub's (HF_ENDPOINT). No token is sent, and nothing is asked unless the user presses a
button.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from omnidraft.errors import OmniDraftError

log = logging.getLogger("omnidraft.ui")

MAX_CONVERTED = 4 << 30  # bytes of weights that are worth converting here
_PART = re.compile(r"-(\d{5})-of-(\d{5})\.gguf$", re.IGNORECASE)
_BESIDE = (
    "config.json", "generation_config.json", "tokenizer.json", "tokenizer.model", "tokenizer_config.json",
    "special_tokens_map.json", "added_tokens.json", "chat_template.jinja", "additional_chat_templates/tool_use.jinja",
)  # fmt: skip


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
    """What one download brings: a GGUF file, all parts of a split one, or a folder that becomes one (`convert`);
    and the projector through which it sees pictures, where the repository has one."""

    repo: str
    name: str
    files: tuple[RemoteFile, ...]
    convert: bool = False
    licence: str = ""
    projector: RemoteFile | None = None

    @property
    def fetched(self) -> tuple[RemoteFile, ...]:
        return self.files if self.projector is None else (*self.files, self.projector)

    @property
    def size(self) -> int:
        return sum(file.size for file in self.fetched)

    @property
    def weights(self) -> int:
        """Bytes of the model alone."""
        return sum(file.size for file in self.files)

    @classmethod
    def of(cls, file: RemoteFile) -> RemoteModel:
        return cls(file.repo, file.name, (file,))


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
    found = _gguf(files, licence) or _folder(repo, files, licence)
    return sorted(found, key=lambda model: model.size)


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
    projectors = [file for file in files if is_projector(file) and file.name.lower().endswith(".gguf")]
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


def _folder(repo: str, files: list[RemoteFile], licence: str) -> list[RemoteModel]:
    """The repository's own folder of weights, if it is small enough to be converted; HubError if it is not."""
    by_name = {file.name: file for file in files}
    weights = [file for file in files if _is_weights(file.name, ".safetensors")]
    weights = weights or [file for file in files if _is_weights(file.name, ".bin")]
    size = sum(file.size for file in weights)
    if "config.json" not in by_name or not weights or size > MAX_CONVERTED:
        raise HubError(f"{repo} holds no GGUF files; look for a repository with GGUF in its name.")
    index = [file for file in files if "/" not in file.name and file.name.endswith(".index.json")]
    parts = [by_name[name] for name in _BESIDE if name in by_name]
    name = f"{repo.rpartition('/')[2]}, converted to GGUF"
    return [RemoteModel(repo, name, (*parts, *(index if len(weights) > 1 else ()), *weights), True, licence)]


def is_projector(file: RemoteFile) -> bool:
    return "mmproj" in file.name.rpartition("/")[2].lower()


def _is_weights(name: str, ending: str) -> bool:
    return "/" not in name and name.endswith(ending) and name.startswith(("model", "pytorch_model"))


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


def request_of(file: RemoteFile, done: int) -> tuple[str, dict[str, Any]]:
    """(address, headers) that ask for `file` from byte `done` on."""
    from huggingface_hub import hf_hub_url
    from huggingface_hub.utils import build_hf_headers

    headers: dict[str, Any] = {**build_hf_headers(token=False), "Accept-Encoding": "identity"}
    if done:
        headers["Range"] = f"bytes={done}-"
    return hf_hub_url(file.repo, file.name), headers


def chunks(file: RemoteFile) -> Iterator[bytes]:
    """A file from its beginning, as it comes. HubError where it does not."""
    from huggingface_hub.utils import get_session

    url, headers = request_of(file, 0)
    try:
        with get_session().stream("GET", url, headers=headers, follow_redirects=True) as response:
            response.raise_for_status()
            yield from response.iter_bytes(1 << 18)
    except Exception as error:
        raise unreachable(error) from None
