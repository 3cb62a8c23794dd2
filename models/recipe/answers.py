"""Has a target answer prompts, many at once, and keeps what it wrote and how likely its other words were.

A line of the file is one answer: {"messages", "task", "answer", "temperature"} and, where `likely` was asked for, "ids",
"top" and "logp": the target's tokens and, before each and before the end, its likeliest tokens with their logarithms.
"""

from __future__ import annotations

import base64
import ctypes
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jinja2
import llama_cpp as llama
import numpy as np

LIKELY = 32
_BATCH = 1024


@dataclass(slots=True)
class Answer:
    """One answer in the making: its record, what is yet to be read, what was written."""

    record: dict[str, Any]
    unread: list[int]
    temperature: float
    read: int = 0
    ids: list[int] = field(default_factory=list)
    top: list[np.ndarray] = field(default_factory=list)
    logp: list[np.ndarray] = field(default_factory=list)


class Writer:
    """A target in llama.cpp with room for `parallel` answers of `length` tokens, their prompts included."""

    def __init__(self, path: Path, parallel: int = 32, length: int = 512, threads: int = 1) -> None:
        self.parallel, self.length = parallel, length
        self.model = llama.llama_model_load_from_file(str(path).encode(), llama.llama_model_default_params())
        params = llama.llama_context_default_params()
        params.n_ctx, params.n_seq_max, params.kv_unified = parallel * length, parallel, False
        params.n_batch, params.n_ubatch = _BATCH, 512
        params.n_threads = params.n_threads_batch = threads
        self.context = llama.llama_init_from_model(self.model, params)
        self.vocabulary = llama.llama_model_get_vocab(self.model)
        self.size = llama.llama_vocab_n_tokens(self.vocabulary)
        self._batch = llama.llama_batch_init(_BATCH, 0, 1)
        template = llama.llama_model_chat_template(self.model, None).decode()
        self.template = jinja2.Environment(trim_blocks=True, lstrip_blocks=True).from_string(template)

    def prompt_ids(self, messages: list[dict[str, str]]) -> list[int]:
        data = self.template.render(messages=messages, add_generation_prompt=True).encode()
        found = (llama.llama_token * (len(data) + 8))()
        count = llama.llama_tokenize(self.vocabulary, data, len(data), found, len(found), False, True)
        return list(found[:count])

    def ends(self, token: int) -> bool:
        return llama.llama_vocab_is_eog(self.vocabulary, token)

    def text(self, ids: list[int]) -> str:
        found, place = b"", ctypes.create_string_buffer(256)
        for token in ids:
            size = llama.llama_token_to_piece(self.vocabulary, token, place, 256, 0, False)
            found += place.raw[:size]
        return found.decode(errors="ignore")

    def step(self, slots: list[Answer | None]) -> Iterator[tuple[int, np.ndarray]]:
        """Read on; (slot, logits) of every answer that is read to its end."""
        count, asked = 0, []
        for slot, answer in enumerate(slots):
            if answer is None or count + len(answer.unread) > _BATCH:
                continue
            for token in answer.unread:
                self._batch.token[count], self._batch.pos[count] = token, answer.read
                self._batch.n_seq_id[count], self._batch.seq_id[count][0] = 1, slot
                self._batch.logits[count] = 0
                count, answer.read = count + 1, answer.read + 1
            self._batch.logits[count - 1] = 1
            answer.unread = []
            asked.append(slot)
        self._batch.n_tokens = count
        if llama.llama_decode(self.context, self._batch):
            raise RuntimeError("llama.cpp could not read on")
        rows = np.ctypeslib.as_array(llama.llama_get_logits(self.context), shape=(len(asked), self.size))
        yield from zip(asked, rows, strict=True)

    def forget(self, slot: int) -> None:
        llama.llama_memory_seq_rm(llama.llama_get_memory(self.context), slot, -1, -1)


def write(
    writer: Writer, prompts: Iterator[dict[str, Any]], out: Path, tokens: int, likely: bool, seed: int = 0
) -> None:
    """Append the answers to `prompts` to `out`, each of `tokens` tokens at most. It may be stopped at any time."""
    dice = np.random.default_rng(seed)
    slots: list[Answer | None] = [None] * writer.parallel
    with out.open("a", encoding="utf-8") as file:
        while True:
            for slot, answer in enumerate(slots):
                if answer is None:
                    slots[slot] = _next(writer, prompts, tokens)
            if not any(slots):
                return
            for slot, row in writer.step(slots):
                answer = slots[slot]
                if _grow(writer, answer, row, tokens, likely, dice):
                    file.write(json.dumps(_record(writer, answer)) + "\n")
                    file.flush()
                    writer.forget(slot)
                    slots[slot] = None


def _next(writer: Writer, prompts: Iterator[dict[str, Any]], tokens: int) -> Answer | None:
    for record in prompts:
        ids = writer.prompt_ids(record["messages"])
        if len(ids) + tokens < writer.length:
            return Answer(record, ids, record["temperature"])
    return None


def _grow(writer: Writer, answer: Answer, row: np.ndarray, tokens: int, likely: bool, dice: Any) -> bool:
    """Add the next token; whether the answer has ended."""
    best = np.argpartition(row, -LIKELY)[-LIKELY:]
    best = best[np.argsort(-row[best])]
    peak = row[best[0]]
    if likely:
        answer.top.append(best)
        answer.logp.append(row[best] - peak - np.log(np.exp(row - peak).sum()))
    token = int(best[0])
    if answer.temperature:
        chances = np.exp((row[best] - peak) / answer.temperature)
        token = int(dice.choice(best, p=chances / chances.sum()))
    answer.ids.append(token)
    answer.unread = [token]
    return writer.ends(token) or len(answer.ids) == tokens


def _record(writer: Writer, answer: Answer) -> dict[str, Any]:
    ended = writer.ends(answer.ids[-1])
    found = {**answer.record, "answer": writer.text(answer.ids[:-1] if ended else answer.ids), "ended": ended}
    if answer.top:
        found["ids"] = packed(np.array(answer.ids, np.uint16))
        found["top"] = packed(np.array(answer.top, np.uint16))
        found["logp"] = packed(np.array(answer.logp, np.float16))
    return found


def packed(array: np.ndarray) -> str:
    return base64.b64encode(array.tobytes()).decode()
