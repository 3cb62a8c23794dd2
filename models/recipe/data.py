"""Conversations in, rows of token ids out: reading JSONL, the held-out split, rendering, encoding, packing.

A document is one conversation rendered with the model's own chat template, and which of its tokens are to be learned:
the answers, or everything. Knows tokenizers, not models.
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
from tokenizers import Tokenizer

from .specs import ModelSpec

Record = dict[str, Any]  # {"id": str, "task": str, "messages": [{"role": str, "content": str}, ...]}
HELD_OUT_PERCENT = 2
OPEN_ROWS = 16  # while packing: enough to waste little at the ends of rows


@dataclass(frozen=True)
class Document:
    ids: np.ndarray  # int32
    learned: np.ndarray  # bool: whether a token counts in the loss

    def __len__(self) -> int:
        return len(self.ids)


def read_records(folder: Path, tasks: Sequence[str]) -> list[Record]:
    """Every record of the wanted tasks in the folder's *.jsonl files, in file order."""
    records = []
    for path in sorted(folder.glob("*.jsonl")):
        with path.open(encoding="utf-8") as lines:
            records += [json.loads(line) for line in lines if line.strip()]
    wanted = [record for record in records if record["task"] in tasks]
    if not wanted:
        raise FileNotFoundError(f"{folder} holds no *.jsonl records of the tasks {', '.join(tasks)}")
    return wanted


def is_held_out(record: Record) -> bool:
    """True for a fixed 2% of documents, chosen by their id alone, so that every model and every run agree."""
    digest = hashlib.sha256(str(record["id"]).encode()).digest()
    return int.from_bytes(digest[:4], "big") % 100 < HELD_OUT_PERCENT


def contents(records: Sequence[Record]) -> list[str]:
    """The bare message texts, for training a tokenizer."""
    return [message["content"] for record in records for message in record["messages"]]


def encode_documents(spec: ModelSpec, tokenizer: Tokenizer, records: Sequence[Record]) -> list[Document]:
    """One document per record; left out are those whose text spells a control token."""
    template = jinja2.Environment().from_string(spec.template)
    plain = [
        record
        for record in records
        if not any(control in message["content"] for message in record["messages"] for control in spec.controls)
    ]
    rendered = [_render(template, spec, record["messages"]) for record in plain]
    encodings = tokenizer.encode_batch(rendered, add_special_tokens=False)
    return [
        Document(np.array(encoding.ids, np.int32), _learned(template, spec, record, encoding.offsets))
        for record, encoding in zip(plain, encodings, strict=True)
    ]


def _render(
    template: jinja2.Template, spec: ModelSpec, messages: list[dict[str, Any]], open_answer: bool = False
) -> str:
    return template.render(messages=messages, bos_token=spec.bos, add_generation_prompt=open_answer)


def _learned(template: jinja2.Template, spec: ModelSpec, record: Record, offsets: list[tuple[int, int]]) -> np.ndarray:
    """Which tokens begin inside an answer, its end of turn included."""
    if spec.learns == "all":
        return np.ones(len(offsets), bool)
    starts = np.array([start for start, _ in offsets])
    learned = np.zeros(len(offsets), bool)
    messages = record["messages"]
    for at, message in enumerate(messages):
        if message["role"] == "assistant":
            begin = len(_render(template, spec, messages[:at], open_answer=True))
            end = len(_render(template, spec, messages[: at + 1]).rstrip("\n"))
            learned |= (starts >= begin) & (starts < end)
    return learned


def packed_batches(
    documents: Sequence[Document], rows: int, length: int, seed: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Endless (rows, length + 1) batches of whole documents in random order: int64 ids, and which of them are learned.

    Column j predicts column j + 1. Every row begins where a document begins, as a conversation does when the model is
    used; what is longer than a row is cut into pieces, and the end of a row that nothing fits is filled with zeros.
    """
    rng = np.random.default_rng(seed)
    pieces = [piece for document in documents for piece in _cut(document, length + 1)]
    ready: list[list[Document]] = []
    while True:
        for row in _filled_rows([pieces[i] for i in rng.permutation(len(pieces))], length + 1):
            ready.append(row)
            if len(ready) == rows:
                ids = np.stack([_joined([part.ids for part in row], length + 1, np.int64) for row in ready])
                yield ids, np.stack([_joined([part.learned for part in row], length + 1, bool) for row in ready])
                ready = []


def _cut(document: Document, most: int) -> list[Document]:
    return [
        Document(document.ids[at : at + most], document.learned[at : at + most]) for at in range(0, len(document), most)
    ]


def _filled_rows(pieces: Sequence[Document], room: int) -> Iterator[list[Document]]:
    """Groups of pieces of at most `room` tokens together: each goes into the first of a few open rows that it fits."""
    open_rows: list[list[Document]] = []
    for piece in pieces:
        row = next((row for row in open_rows if sum(map(len, row)) + len(piece) <= room), None)
        if row is None:
            if len(open_rows) == OPEN_ROWS:
                yield open_rows.pop(0)
            row = []
            open_rows.append(row)
        row.append(piece)
    yield from open_rows


def _joined(parts: list[np.ndarray], length: int, kind: type) -> np.ndarray:
    whole: np.ndarray = np.concatenate(parts).astype(kind)
    return np.pad(whole, (0, length - len(whole)))
