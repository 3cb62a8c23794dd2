"""Trains the drafter on what targets wrote; it may be stopped at any time and goes on from its last checkpoint."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import linear
from transformers import LlamaForCausalLM

from .rows import Batch, Row, Rows, batch

_DRAFT = 4


class Training:
    """A model, its optimizer, and how long they have been at it. Kept in FOLDER/checkpoint.pt."""

    def __init__(self, model: LlamaForCausalLM, folder: Path, rate: float, minutes: float, size: int = 2048) -> None:
        self.model, self.folder, self.rate, self.minutes, self.size = model, folder, rate, minutes, size
        matrices = [p for p in model.parameters() if p.ndim > 1]
        vectors = [p for p in model.parameters() if p.ndim < 2]
        groups = [{"params": matrices, "weight_decay": 0.01}, {"params": vectors, "weight_decay": 0.0}]
        self.optimizer = torch.optim.AdamW(groups, rate, betas=(0.9, 0.98), fused=True)
        self.steps, self.learned, self.seconds = 0, 0, 0.0
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / "checkpoint.pt"
        if self.path.exists():
            state = torch.load(self.path, weights_only=True)
            model.load_state_dict(state["model"])
            self.optimizer.load_state_dict(state["optimizer"])
            self.steps, self.learned, self.seconds = state["progress"]

    def save(self) -> None:
        """Replace the checkpoint, whole or not at all."""
        state = {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}
        torch.save(state | {"progress": [self.steps, self.learned, self.seconds]}, self.path.with_suffix(".new"))
        os.replace(self.path.with_suffix(".new"), self.path)

    def run(self, rows: Rows, export: Callable[[], None], every: float = 300) -> None:
        """Train for the minutes there are, with a checkpoint, a line in the log and an export every so many seconds."""
        due, loss, since = self.seconds + every, 0.0, self.steps
        while self.seconds < 60 * self.minutes:
            rows.read()
            plain = max(0.0, 0.9 - 1.8 * self.seconds / 60 / self.minutes)  # the language first, then the targets' own
            for part in rows.batches(np.random.default_rng(self.steps), self.size, plain):
                loss += self._step(part)
                if self.seconds >= min(due, 60 * self.minutes):
                    self.save()
                    self._log(loss / (self.steps - since), rows)
                    export()
                    due, loss, since = self.seconds + every, 0.0, self.steps
                    rows.read()
                    break

    def _step(self, part: Batch) -> float:
        started = time.monotonic()
        left = 1 - self.seconds / 60 / self.minutes
        for group in self.optimizer.param_groups:
            group["lr"] = self.rate * min((self.steps + 1) / 100, max(left, 0.0))
        self.model.train()
        loss = self.loss(part)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.steps, self.learned = self.steps + 1, self.learned + len(part.at)
        self.seconds += time.monotonic() - started
        return float(loss.detach())

    def loss(self, part: Batch) -> Tensor:
        """Cross-entropy with what the target might have written."""
        logits = self.logits(part)
        chosen = (logits.gather(1, part.likely) * part.chances).sum(1)
        return (logits.logsumexp(1) - chosen).mean()

    def logits(self, part: Batch) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            hidden = self.model.model(input_ids=part.ids, use_cache=False).last_hidden_state
            return linear(hidden.flatten(0, 1)[part.at], self.model.model.embed_tokens.weight).float()

    @torch.no_grad()
    def held_out(self, rows: list[Row]) -> tuple[float, float]:
        """How often its likeliest piece is the text's, and what share of drafts of four pieces would stand."""
        self.model.eval()
        right, accepted, drafts = [], 0, 0
        for row in rows:
            part = batch([row])
            stands = (self.logits(part).argmax(1) == part.ids.flatten()[part.at + 1]).tolist()
            right += stands
            place = 0
            while place < len(stands):
                run = [*stands[place : place + _DRAFT], False].index(False)
                accepted, drafts, place = accepted + run, drafts + 1, place + run + 1
        return sum(right) / len(right), accepted / (_DRAFT * drafts)

    def _log(self, loss: float, rows: Rows) -> None:
        agreed, accepted = self.held_out(rows.held_out[:150])
        line = {
            "minutes": round(self.seconds / 60, 1), "steps": self.steps, "pieces": self.learned, "rows": len(rows.training),
            "loss": round(loss, 4), "agreement": round(agreed, 4), "acceptance": round(accepted, 4),
        }  # fmt: skip
        with (self.folder / "log.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        print(line, flush=True)
