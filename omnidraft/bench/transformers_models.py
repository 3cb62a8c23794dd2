"""The same weights for transformers, and its own generation with them, to be compared with.

`export_folder` writes a Llama-like GGUF as a Hugging Face folder in float32, so that what differs between two runs is
the program. `Transformers` generates plainly and assisted across tokenizers: greedily that is universal assisted
generation (UAG: text is decoded and tokenized again), drawn it is speculation on the tokens both vocabularies share
(TLI). Both are the library's own; nothing here drafts or verifies, and nothing comes from the network.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

from omnidraft.backends.gguf.file import read_info
from omnidraft.backends.hf.load import first_line, import_torch
from omnidraft.bench.peers.peer import PLAIN, Answer, Burst, Models, Question, answer_of
from omnidraft.errors import ModelError, StorageError
from omnidraft.settings.config import SamplingSettings
from omnidraft.storage.files import reason
from omnidraft.storage.json_text import read_json
from omnidraft.vocab.llama_vocab import read_gguf_vocabulary

ASSISTED = "assisted"


def export_folder(source: Path, out: Path) -> Path:
    """Write the model, its tokenizer and its chat template to the folder `out`, which appears only when complete."""
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent))
    except OSError as error:
        raise StorageError(f"{out.parent} cannot be written: {reason(error)}.") from error
    try:
        _write(source, temporary)
        temporary.rename(out)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    return out


def _write(source: Path, out: Path) -> None:
    torch = import_torch()
    import transformers

    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    known = {"gguf_file": source.name, "local_files_only": True}
    try:
        model = transformers.AutoModelForCausalLM.from_pretrained(str(source.parent), dtype=torch.float32, **known)
        tokenizer = transformers.AutoTokenizer.from_pretrained(str(source.parent), **known)
    except (OSError, ValueError, KeyError, NotImplementedError) as error:
        raise ModelError(f"{source.name} cannot be read by transformers: {first_line(error)}.") from error
    model.config.__dict__.pop("quantization_config", None)  # "quantized with gguf" would refuse to be saved
    model.hf_quantizer, model.is_quantized = None, False
    model.save_pretrained(out)
    tokenizer.save_pretrained(out)
    _drop_strangers(out / "tokenizer.json", model.config.vocab_size)
    if template := read_info(source).chat_template:
        (out / "chat_template.jinja").write_text(template, encoding="utf-8")


def _drop_strangers(file: Path, rows: int) -> None:
    """Tokens that transformers adds behind the model's own have no logits: they would make another vocabulary."""
    content = read_json(file.read_text(encoding="utf-8"))
    content["added_tokens"] = [token for token in content["added_tokens"] if token["id"] < rows]
    file.write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")


class _Times:
    """What `generate` tells as it goes on."""

    def __init__(self) -> None:
        self.came: list[Burst] = []
        self._begun = perf_counter()
        self._prompt = True

    def put(self, value: Any) -> None:
        if self._prompt:  # is told first
            self._prompt = False
            return
        self.came.append(Burst(tuple(value.reshape(-1).tolist()), perf_counter() - self._begun))

    def end(self) -> None:
        pass


class Transformers:
    """A peer: a target's and a drafter's folder in float32 on the processor."""

    ways: tuple[str, ...] = (PLAIN, ASSISTED)
    exact = False

    def __init__(self, models: Models) -> None:
        if models.folder is None or models.drafter_folder is None:
            raise ModelError("There is no folder of this target to give to transformers.")
        torch = import_torch()
        import transformers

        torch.set_num_threads(models.threads)
        transformers.utils.logging.set_verbosity_error()
        transformers.utils.logging.disable_progress_bar()
        self.notes = ["assisted is UAG at temperature 0 and TLI above"]
        self._ends = sorted(read_gguf_vocabulary(models.target).eog)
        self._target, self._tokenizer = _loaded(models.folder, transformers, torch)
        self._drafter, self._drafter_tokenizer = _loaded(models.drafter_folder, transformers, torch)

    def answer(self, way: str, question: Question) -> Answer:
        return answer_of(self.bursts(way, question.prompt, question.sampling))

    def bursts(self, way: str, prompt: Sequence[int], sampling: SamplingSettings) -> list[Burst]:
        """An answer as it came."""
        torch = import_torch()
        torch.manual_seed(sampling.seed or 0)
        options: dict[str, Any] = {"do_sample": sampling.temperature > 0}
        if options["do_sample"]:
            options |= {"temperature": sampling.temperature, "top_k": sampling.top_k, "top_p": sampling.top_p,
                        "min_p": sampling.min_p or None}  # fmt: skip
        if way == ASSISTED:
            options |= {"assistant_model": self._drafter, "tokenizer": self._tokenizer,
                        "assistant_tokenizer": self._drafter_tokenizer}  # fmt: skip
        given = torch.tensor([list(prompt)])
        times = _Times()
        with torch.inference_mode(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self._target.generate(
                given, attention_mask=torch.ones_like(given), max_new_tokens=sampling.max_tokens, streamer=times,
                eos_token_id=self._ends, pad_token_id=self._ends[0], **options,
            )  # fmt: skip
        return times.came

    def close(self) -> None:
        del self._target, self._drafter


def _loaded(folder: Path, transformers: Any, torch: Any) -> tuple[Any, Any]:
    known = {"local_files_only": True, "trust_remote_code": False}
    model = transformers.AutoModelForCausalLM.from_pretrained(str(folder), dtype=torch.float32, **known).eval()
    return model, transformers.AutoTokenizer.from_pretrained(str(folder), **known)
