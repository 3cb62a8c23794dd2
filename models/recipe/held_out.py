"""The loss on documents that training never sees."""

from collections.abc import Sequence

import numpy as np
import torch
from torch.nn import functional
from transformers import LlamaForCausalLM

from .data import Document


@torch.inference_mode()
def mean_loss(model: LlamaForCausalLM, documents: Sequence[Document], length: int = 512, rows: int = 16) -> float:
    """Nats per learned token over documents cut to `length` tokens, each read from its own beginning."""
    ordered = sorted((doc for doc in documents if doc.learned[1:length].any()), key=len)
    total, count = 0.0, 0
    for at in range(0, len(ordered), rows):
        group = ordered[at : at + rows]
        ids = torch.zeros((len(group), min(length, max(map(len, group)))), dtype=torch.int64)
        labels = torch.full_like(ids, -100)
        for row, document in enumerate(group):
            tokens = torch.from_numpy(document.ids[:length].astype(np.int64))
            learned = torch.from_numpy(document.learned[:length])
            ids[row, : len(tokens)] = tokens
            labels[row, : len(tokens)] = tokens.where(learned, -100)
        ids, labels = ids.to(model.device), labels.to(model.device)
        logits = model(input_ids=ids, use_cache=False).logits[:, :-1].float()
        total += functional.cross_entropy(logits.flatten(0, 1), labels[:, 1:].flatten(), reduction="sum").item()
        count += int((labels[:, 1:] != -100).sum())
    return total / count
