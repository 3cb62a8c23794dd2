"""Generation by transformers itself, plain and assisted across tokenizers, to be compared with.

Assisted greedily it is universal assisted generation (UAG: text is decoded and tokenized again), assisted and drawn it
is speculation on the tokens both vocabularies share (TLI). Both are the library's own; nothing here drafts or verifies.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

from omnidraft.backends.hf.load import import_torch
from omnidraft.settings.config import SamplingSettings


class _Times:
    """What `generate` tells as it goes on: tokens with the seconds since it began."""

    def __init__(self) -> None:
        self.came: list[tuple[tuple[int, ...], float]] = []
        self._begun = perf_counter()
        self._prompt = True

    def put(self, value: Any) -> None:
        if self._prompt:  # is told first
            self._prompt = False
            return
        self.came.append((tuple(value.reshape(-1).tolist()), perf_counter() - self._begun))

    def end(self) -> None:
        pass


class AssistedModel:
    """A target's and a drafter's folder in float32 on the processor."""

    def __init__(self, target: Path, drafter: Path, threads: int) -> None:
        torch = import_torch()
        import transformers

        torch.set_num_threads(threads)
        transformers.utils.logging.set_verbosity_error()
        transformers.utils.logging.disable_progress_bar()
        self._target, self._tokenizer = _loaded(target, transformers, torch)
        self._drafter, self._drafter_tokenizer = _loaded(drafter, transformers, torch)

    def generate(
        self, prompt: Sequence[int], sampling: SamplingSettings, ends: Sequence[int], assisted: bool
    ) -> Iterator[tuple[tuple[int, ...], float]]:
        """(ids, seconds since the beginning) as they came; `ends`: ids that end an answer."""
        torch = import_torch()
        torch.manual_seed(sampling.seed or 0)
        options: dict[str, Any] = {"do_sample": sampling.temperature > 0}
        if options["do_sample"]:
            options |= {"temperature": sampling.temperature, "top_k": sampling.top_k, "top_p": sampling.top_p,
                        "min_p": sampling.min_p or None}  # fmt: skip
        if assisted:
            options |= {"assistant_model": self._drafter, "tokenizer": self._tokenizer,
                        "assistant_tokenizer": self._drafter_tokenizer}  # fmt: skip
        given = torch.tensor([list(prompt)])
        times = _Times()
        with torch.inference_mode(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self._target.generate(
                given, attention_mask=torch.ones_like(given), max_new_tokens=sampling.max_tokens, streamer=times,
                eos_token_id=list(ends), pad_token_id=ends[0], **options,
            )  # fmt: skip
        yield from times.came

    def close(self) -> None:
        del self._target, self._drafter


def _loaded(folder: Path, transformers: Any, torch: Any) -> tuple[Any, Any]:
    known = {"local_files_only": True, "trust_remote_code": False}
    model = transformers.AutoModelForCausalLM.from_pretrained(str(folder), dtype=torch.float32, **known).eval()
    return model, transformers.AutoTokenizer.from_pretrained(str(folder), **known)
