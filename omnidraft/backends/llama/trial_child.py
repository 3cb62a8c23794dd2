"""The child that opens an unknown file first: does with it what the program would do, and says how that went.

Prints one line of JSON: "" if the file was opened, or refused in a sentence that the program would say too; else what
is wrong. Whatever ends this process otherwise would have ended the program.
"""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

from omnidraft.backends.pictures import Picture
from omnidraft.processes.children import asked
from omnidraft.vocab import Vocabulary
from omnidraft.vocab.llama_vocab import read_gguf_vocabulary

_CONTEXT, _SEEING = 512, 8192
_PASS = 32  # tokens: as many as take the kernels of wide passes
_BLANK = Picture("blank", 96, 64, b"\x80" * (96 * 64 * 3))
# Characters of all kinds, so that every byte that text may hold must be spelled somewhere.
_ALL = "".join(map(chr, (*range(0x800), *range(0x800, 0xD800, 61), *range(0xE000, 0x110000, 1021))))
_TEXTS = ("Hello there,  12345!\n", "déjà-vu 中文 😀\t\x00\x7f", " ", "<|im_end|></s>[INST]", "a" * 300)


def _open(path: Path, adapter: str | None) -> str:
    """What is wrong with the projector, if `adapter` is one: it is not tried again where nothing limits its memory."""
    from omnidraft.backends.gguf.file import read_info
    from omnidraft.backends.llama.model import LlamaDrafter
    from omnidraft.errors import ModelError
    from omnidraft.settings.config import ModelSettings

    info = read_info(path)
    if info.kind != "model":
        _spell(read_gguf_vocabulary(path))
        return ""
    projector = Path(adapter) if adapter is not None and read_info(adapter).kind == "projector" else None
    settings = ModelSettings(n_ctx=_SEEING if projector else _CONTEXT)
    with LlamaDrafter.open(path, settings, max_rows=8) as model:
        ids = _spell(model.vocabulary)
        if projector is not None:
            try:
                model.open_eyes(projector)
            except ModelError as error:
                return str(error).removeprefix(f"The projector {projector} ")
        if model.eyes is not None:
            model.extend(model.eyes.ids(_BLANK), 0)
        elif adapter is not None:
            model.set_adapter(adapter)
        model.extend(ids[: max(0, model.n_ctx - len(model.tokens) - 8)], min(len(ids), 4))
    return ""


def _spell(vocabulary: Vocabulary) -> list[int]:
    """Some ids, of texts of all kinds."""
    ids = [id for text in _TEXTS for id in vocabulary.encode(text, at_start=True)]
    for every in (lambda: vocabulary.encode(_ALL), lambda: vocabulary.encode_bytes(bytes(range(256)))):
        with suppress(ValueError):  # some vocabularies cannot spell every byte
            every()
    return ids[:_PASS]


def _try(path: Path, adapter: str | None) -> str:
    from omnidraft.errors import OmniDraftError

    try:
        return _open(path, adapter)
    except OmniDraftError:
        return ""  # the program will say the same
    except Exception as error:
        return f"is damaged or of a kind that is not understood ({type(error).__name__}), so it is not opened."


def main(request: dict[str, Any]) -> None:
    print(json.dumps(_try(Path(request["path"]), request["adapter"])), flush=True)


if __name__ == "__main__":
    main(asked())
