"""What targets are asked, and what they answer: many prompts at once, with how likely other words were.

A line of the file is one answer: what the prompt has, "answer", "ended", and "ids", "top" and "logp" (`PACKED`, in
base 64): the target's tokens and, at each, its likeliest tokens with their logarithms.
"""

import base64
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import llama_cpp as llama
import numpy as np
from jinja2.sandbox import ImmutableSandboxedEnvironment

from omnidraft.backends.llama import runtime
from omnidraft.backends.llama.kernels import library
from omnidraft.vocab.llama_vocab import read_gguf_vocabulary

# How often a kind is asked; everyday requests are the rest.
_SHARES = {"math": 0.2, "code": 0.25, "dialogue": 0.15, "qa": 0.15, "roleplay": 0.05}
_EVERYDAY = json.loads(Path(__file__).with_name("everyday.json").read_text(encoding="utf-8"))
_FORMS = [(form, parts.split()) for parts, forms in _EVERYDAY["forms"].items() for form in forms]
_PARTS = {part: words.split("|") for part, words in _EVERYDAY["parts"].items()}

Conversation = list[dict[str, str]]
PACKED = {"ids": np.uint32, "top": np.uint32, "logp": np.float16}


def read_training(folder: Path) -> dict[str, list[Conversation]]:
    """{kind: conversations} of the parts of the data that may be learned."""
    found: dict[str, list[Conversation]] = {}
    for path in sorted([*folder.glob("pretrain/*.jsonl"), *folder.glob("stream/*.jsonl")]):
        for line in path.open(encoding="utf-8"):
            record = json.loads(line)
            if record.get("split", "train") == "train":
                found.setdefault(record["task"], []).append(record["messages"])
    return found


def prompts(data: dict[str, list[Conversation]], seed: int) -> Iterator[dict[str, Any]]:
    """Without end: {"task", "messages", "temperature"}; half of the answers shall be the likeliest ones."""
    dice = np.random.default_rng(seed)
    kinds = [kind for kind in _SHARES if kind in data]
    chances = [_SHARES[kind] for kind in kinds]
    while True:
        kind = str(dice.choice([*kinds, "everyday"], p=[*chances, 1 - sum(chances)]))
        if kind == "everyday":
            form, parts = _FORMS[dice.integers(len(_FORMS))]
            messages = [{"role": "user", "content": form.format(*(dice.choice(_PARTS[part]) for part in parts))}]
        else:
            messages = data[kind][dice.integers(len(data[kind]))]
            if kind in ("qa", "roleplay") and dice.random() < 0.3:
                request = str(dice.choice(_EVERYDAY["texts"])).format(messages[1]["content"])
                messages = [{"role": "user", "content": request}]
            elif len(messages) == 2 and dice.random() < 0.2:
                messages = [*messages, {"role": "user", "content": str(dice.choice(_EVERYDAY["follow"]))}]
            asked = [i for i, message in enumerate(messages) if message["role"] == "user"][:3]
            messages = messages[: dice.choice(asked) + 1]
        yield {"task": kind, "messages": messages, "temperature": float(dice.choice([0.0, 0.8]))}


_LIKELY = 32
_NEAR = 12.0  # logits below the best: what is further is neither drawn nor kept
_LENGTH = 512  # tokens of a prompt and its answer


@dataclass(slots=True)
class Answer:
    """One answer in the making: what was asked, what is yet to be read, what was written."""

    record: dict[str, Any]
    unread: list[int]
    read: int = 0
    ids: list[int] = field(default_factory=list)
    top: list[np.ndarray] = field(default_factory=list)
    logp: list[np.ndarray] = field(default_factory=list)


class Writer:
    """A target in llama.cpp that writes `parallel` answers at a time, of `tokens` tokens at most."""

    def __init__(self, path: Path, tokens: int, parallel: int = 32) -> None:
        self._tokens, self._vocabulary = tokens, read_gguf_vocabulary(path)
        threads = len(os.sched_getaffinity(0))
        library.build()
        runtime.begin_call()
        runtime.choose_layouts()
        model = llama.llama_model_load_from_file(str(path).encode(), llama.llama_model_default_params())
        params = llama.llama_context_default_params()
        params.n_ctx, params.n_seq_max, params.kv_unified = parallel * _LENGTH, parallel, False
        params.n_batch, params.n_threads, params.n_threads_batch = params.n_ctx, threads, threads
        params.flash_attn_type = 0  # our products read keys and values faster
        self._slots: dict[int, Answer] = {}
        self._free = list(range(parallel))
        self._context, self._batch = (
            llama.llama_init_from_model(model, params),
            llama.llama_batch_init(params.n_ctx, 0, 1),
        )
        self._tokenizer = llama.llama_model_get_vocab(model)
        template = llama.llama_model_chat_template(model, None).decode()
        self._template = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True).from_string(template)

    def write(self, prompts: Iterator[dict[str, Any]], out: Path, seed: int) -> None:
        """Append an answer to each of the prompts that are not too long. It may be stopped at any time."""
        dice, asked = np.random.default_rng(seed), filter(None, map(self._asked, prompts))
        with out.open("a", encoding="utf-8") as file:
            while True:
                while self._free and (answer := next(asked, None)):
                    self._slots[self._free.pop()] = answer
                if not self._slots:
                    return
                for slot, row in self._step():
                    if self._grow(self._slots[slot], row, dice):
                        file.write(json.dumps(self._record(self._slots.pop(slot))) + "\n")
                        file.flush()
                        llama.llama_memory_seq_rm(llama.llama_get_memory(self._context), slot, -1, -1)
                        self._free.append(slot)

    def _asked(self, record: dict[str, Any]) -> Answer | None:
        data = self._template.render(messages=record["messages"], add_generation_prompt=True).encode()
        ids = (llama.llama_token * (len(data) + 8))()
        count = llama.llama_tokenize(self._tokenizer, data, len(data), ids, len(ids), False, True)
        return Answer(record, ids[:count]) if count + self._tokens < _LENGTH else None

    def _step(self) -> Iterator[tuple[int, np.ndarray]]:
        """Read on; (slot, logits) behind every answer."""
        # in order: llama.cpp computes together only what follows one another
        batch, count, asked = self._batch, 0, sorted(self._slots)
        for slot in asked:
            answer = self._slots[slot]
            for token in answer.unread:
                batch.token[count], batch.pos[count], batch.logits[count] = token, answer.read, 0
                batch.n_seq_id[count], batch.seq_id[count][0] = 1, slot
                count, answer.read = count + 1, answer.read + 1
            batch.logits[count - 1] = 1
        batch.n_tokens = count
        if llama.llama_decode(self._context, batch):
            raise RuntimeError("llama.cpp could not read on")
        size = len(self._vocabulary.pieces)
        return zip(asked, np.ctypeslib.as_array(llama.llama_get_logits(self._context), (len(asked), size)), strict=True)

    def _grow(self, answer: Answer, row: np.ndarray, dice: np.random.Generator) -> bool:
        """Add the next token; whether the answer has ended."""
        near = np.flatnonzero(row > row.max() - _NEAR)  # a search of the whole row would take a fifth of the time
        best = near[np.argsort(-row[near])][:_LIKELY]
        chances = row[best] - np.log(np.exp(row[near] - row[best[0]]).sum()) - row[best[0]]
        behind = _LIKELY - len(best)
        answer.top.append(np.pad(best, (0, behind)))
        answer.logp.append(np.pad(chances, (0, behind), constant_values=-np.inf))
        weights = np.exp((chances - chances[0]) / (answer.record["temperature"] or 1e-6))
        answer.unread = [int(dice.choice(best, p=weights / weights.sum()))]
        answer.ids += answer.unread
        return answer.ids[-1] in self._vocabulary.eog or len(answer.ids) == self._tokens

    def _record(self, answer: Answer) -> dict[str, Any]:
        ended = answer.ids[-1] in self._vocabulary.eog
        text = self._vocabulary.decode(answer.ids[:-1] if ended else answer.ids).decode(errors="ignore")
        packed = {
            key: base64.b64encode(np.array(getattr(answer, key), kind).tobytes()).decode()
            for key, kind in PACKED.items()
        }
        return {**answer.record, "answer": text, "ended": ended, **packed}
