"""What targets are asked: the training parts of the data, and everyday requests put together from parts."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

# How often a kind is asked; everyday requests are the rest.
_SHARES = {"math": 0.2, "code": 0.2, "dialogue": 0.12, "qa": 0.1, "roleplay": 0.05}
_EVERYDAY = json.loads(Path(__file__).with_name("everyday.json").read_text(encoding="utf-8"))
_FORMS = [(form, parts.split()) for parts, forms in _EVERYDAY["forms"].items() for form in forms]
_PARTS = {part: words.split("|") for part, words in _EVERYDAY["parts"].items()}

Conversation = list[dict[str, str]]


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
            if kind == "qa" and dice.random() < 0.3:
                request = str(dice.choice(_EVERYDAY["texts"])).format(messages[1]["content"])
                messages = [{"role": "user", "content": request}]
            asked = [i for i, message in enumerate(messages) if message["role"] == "user"][:3]
            messages = messages[: dice.choice(asked) + 1]
        yield {"task": kind, "messages": messages, "temperature": float(dice.choice([0.0, 0.8]))}
