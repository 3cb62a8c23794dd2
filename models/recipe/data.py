"""Conversations in, rows of token ids out: reading JSONL, the held-out split, rendering, encoding, packing.

A document is one conversation rendered with the model's own chat template. Knows tokenizers, not models.
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
from tokenizers import Tokenizer

from .specs import ModelSpec

Record = dict[str, Any]  # {"id": str, "task": str, "messages": [{"role": str, "content": str}, ...]}
HELD_OUT_PERCENT = 2


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


def encode_documents(spec: ModelSpec, tokenizer: Tokenizer, records: Sequence[Record]) -> list[np.ndarray]:
    """One int32 array of ids per record; a document whose text spells a control token is left out."""
    template = jinja2.Environment().from_string(spec.template)
    rendered = [
        template.render(messages=record["messages"], bos_token=spec.bos, add_generation_prompt=False)
        for record in records
        if not any(control in message["content"] for message in record["messages"] for control in spec.controls)
    ]
    encodings = tokenizer.encode_batch(rendered, add_special_tokens=False)
    return [np.array(encoding.ids, np.int32) for encoding in encodings]


def packed_batches(documents: Sequence[np.ndarray], rows: int, length: int, seed: int) -> Iterator[np.ndarray]:
    """Endless (rows, length + 1) int64 batches of shuffled, concatenated documents.

    Column j predicts column j + 1; neighbouring rows share one token, so every token is predicted once a pass.
    """
    rng = np.random.default_rng(seed)
    span = rows * length
    rest = np.zeros(0, np.int32)
    while True:
        order = rng.permutation(len(documents))
        stream = np.concatenate([rest, *(documents[i] for i in order)])
        at = 0
        while at + span + 1 <= len(stream):
            block = stream[at : at + span + 1].astype(np.int64)
            yield np.stack([block[r * length : r * length + length + 1] for r in range(rows)])
            at += span
        rest = stream[at:]
