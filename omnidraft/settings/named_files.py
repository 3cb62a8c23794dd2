"""Files that belong to a model, as people write them: "MODEL = FILE". Knows nothing of what is in them."""

from __future__ import annotations

from collections.abc import Sequence

from omnidraft.errors import SettingsError


def named_file(entries: Sequence[str], model: str) -> str | None:
    """The file named for the model file or folder `model`, the last of several; None without any."""
    return dict(map(_parted, entries)).get(model)


def with_named_file(entries: Sequence[str], model: str, file: str) -> tuple[str, ...]:
    """The entries with `file` named for `model`; "" names none."""
    others = [entry for entry in entries if _parted(entry)[0] != model]
    return (*others, f"{model} = {file}") if file else tuple(others)


def check_named_files(setting: str, entries: Sequence[str]) -> None:
    """SettingsError for an entry that is none."""
    for entry in entries:
        if not all(_parted(entry)):
            told = f"The setting {setting} has {entry[:80]!r}, but must have lines like model.gguf = FILE."
            raise SettingsError(told)


def _parted(entry: str) -> tuple[str, str]:
    name, _, file = entry.partition("=")
    return name.strip(), file.strip()
