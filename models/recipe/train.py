"""Trains the drafter on what targets wrote; it may be stopped at any time and goes on from its last checkpoint."""

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

_RATE = 1.8e-3
_SIZE = 1024  # pieces a step
_DRAFT = 4  # pieces


class Training:
    """A model, its optimizer, and how long the processor has been at it: FOLDER/checkpoint.pt, FOLDER/log.jsonl."""

    def __init__(self, model: LlamaForCausalLM, folder: Path, minutes: float) -> None:
        self.model, self.folder, self.minutes = model, folder, minutes
        embedding = model.model.embed_tokens.weight  # trained already, and every step changes it: it goes slower
        rest = [p for p in model.parameters() if p is not embedding]
        groups = [{"params": rest, "scale": 1.0}, {"params": [embedding], "scale": 0.2}]
        self.optimizer = torch.optim.AdamW(groups, _RATE, betas=(0.9, 0.98), weight_decay=0.01, fused=True)
        self.steps, self.learned, self.seconds = 0, 0, 0.0
        self.path = folder / "checkpoint.pt"
        if self.path.exists():
            state = torch.load(self.path, weights_only=True)
            model.load_state_dict(state["model"])
            self.optimizer.load_state_dict(state["optimizer"])
            self.steps, self.learned, self.seconds = state["progress"]

    @property
    def left(self) -> float:
        """The share of the minutes that is not over."""
        return 1 - self.seconds / 60 / self.minutes

    def run(self, rows: Rows, export: Callable[[], None], every: float = 300) -> None:
        """Train for the minutes there are; every so many seconds a checkpoint, a line in the log and an export."""
        kept, losses = self.seconds, []
        while self.left > 0:
            plain = max(0.0, 1.4 * self.left - 0.7)  # the language first, then more and more what targets write
            for part in rows.batches(np.random.default_rng(self.steps), _SIZE, plain):
                losses.append(self._step(part))
                if self.seconds >= kept + every or self.left <= 0:
                    self._keep(losses, rows)
                    export()
                    kept, losses = self.seconds, []
                    break

    def _step(self, part: Batch) -> float:
        started = time.process_time()
        for group in self.optimizer.param_groups:
            group["lr"] = group["scale"] * _RATE * min(1.0, (self.steps + 1) / 20, self.left / 0.6)
        ids, at, likely, chances = part
        logits = self._logits(ids, at)
        loss = (logits.logsumexp(1) - (logits.gather(1, likely) * chances).sum(1)).mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.steps, self.learned = self.steps + 1, self.learned + len(at)
        self.seconds += time.process_time() - started
        return float(loss.detach())

    def _logits(self, ids: Tensor, at: Tensor) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            hidden = self.model.model(input_ids=ids, use_cache=False).last_hidden_state
            return linear(hidden.flatten(0, 1)[at], self.model.model.embed_tokens.weight).float()

    @torch.no_grad()
    def held_out(self, rows: list[Row]) -> tuple[float, float]:
        """How often its likeliest piece is the text's, and what share of drafts of four pieces would stand."""
        right, accepted, drafts = [False], 0, 0
        for ids, at, _, _ in map(batch, ([row] for row in rows)):
            stands = (self._logits(ids, at).argmax(1) == ids.flatten()[at + 1]).tolist()
            right += stands
            while stands:
                run = [*stands[:_DRAFT], False].index(False)
                accepted, drafts, stands = accepted + run, drafts + 1, stands[run + 1 :]
        return sum(right) / len(right), accepted / max(_DRAFT * drafts, 1)

    def _keep(self, losses: list[float], rows: Rows) -> None:
        state = {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}
        torch.save(state | {"progress": [self.steps, self.learned, self.seconds]}, self.path.with_suffix(".new"))
        os.replace(self.path.with_suffix(".new"), self.path)
        agreed, accepted = self.held_out(rows.held_out[:150])
        line = {"minutes": self.seconds / 60, "steps": self.steps, "pieces": self.learned}
        line |= {"loss": sum(losses) / len(losses), "agreement": agreed, "acceptance": accepted}
        with (self.folder / "log.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps({key: round(value, 4) for key, value in line.items()}) + "\n")
