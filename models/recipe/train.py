"""Pretraining: next-token cross-entropy over packed conversations, with Muon for the hidden matrices.

Runs on a CPU in minutes; can start from an earlier model's Hugging Face folder (a warm restart) and leaves a
checkpoint every few minutes, so that a run may be paused, cut short or taken up again.
"""

import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import nn
from torch.nn import functional
from transformers import LlamaConfig, LlamaForCausalLM

from .data import Document, packed_batches
from .schedule import StopRequest, TrainingClock, WarmupHoldDecay
from .specs import ModelSpec

MUON_STEPS = 3  # of Muon's iteration: small steps of few tokens are worth more than its last digits


@dataclass(frozen=True)
class TrainSettings:
    """How long and how fast to train; the defaults suit the bundled sizes on two CPU cores."""

    minutes: float = 45.0  # of computing: see TrainingClock
    device: str = "cpu"
    bf16: bool = True  # matrix products in bfloat16, weights and optimizer state in float32
    compiled: bool = True
    rows: int = 16  # sequences in a step
    length: int = 256  # tokens in a sequence
    learned_share: float = 1.0  # of a batch's tokens at most so many reach the loss
    learning_rate: float = 2e-3
    weight_decay: float = 0.1
    warmup_steps: int = 50
    decay_share: float = 0.3
    log_every_s: float = 60.0
    evaluate_every_s: float = 900.0
    checkpoint_every_s: float = 180.0

    def __post_init__(self) -> None:
        if self.minutes <= 0:
            raise ValueError(f"minutes must be above 0, not {self.minutes}")
        if not 0 < self.decay_share < 1:
            raise ValueError(f"decay_share must lie between 0 and 1, not {self.decay_share}")


def new_model(spec: ModelSpec, tokenizer: Tokenizer) -> LlamaForCausalLM:
    """A freshly initialised model whose rows are exactly the tokenizer's ids."""
    torch.manual_seed(spec.seed)
    config = LlamaConfig(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=spec.width,
        intermediate_size=spec.feed_forward,
        num_hidden_layers=spec.layers,
        num_attention_heads=spec.heads,
        num_key_value_heads=spec.heads,
        max_position_embeddings=spec.context,
        rms_norm_eps=1e-5,
        tie_word_embeddings=spec.tied,
        bos_token_id=tokenizer.token_to_id(spec.bos),
        eos_token_id=tokenizer.token_to_id(spec.eos),
        initializer_range=0.02,
    )
    return LlamaForCausalLM(config)


def make_optimizers(model: nn.Module, settings: TrainSettings) -> list[torch.optim.Optimizer]:
    """Muon for matrices inside the blocks; AdamW for embedding, output layer and norms.

    Muon's update is scaled to AdamW's size, so one learning rate serves both.
    """
    named = list(model.named_parameters())
    hidden = [p for name, p in named if p.ndim == 2 and ".layers." in name]
    tables = [p for name, p in named if p.ndim == 2 and ".layers." not in name]
    norms = [p for _, p in named if p.ndim < 2]
    adamw = torch.optim.AdamW(
        [{"params": tables, "weight_decay": settings.weight_decay}, {"params": norms, "weight_decay": 0.0}],
        lr=settings.learning_rate, betas=(0.9, 0.95), fused=True,
    )  # fmt: skip
    muon = torch.optim.Muon(
        hidden,
        lr=settings.learning_rate,
        weight_decay=settings.weight_decay,
        ns_steps=MUON_STEPS,
        adjust_lr_fn="match_rms_adamw",
    )
    return [muon, adamw]


def pick_positions(learned: np.ndarray, share: float, rng: np.random.Generator) -> np.ndarray:
    """Flat positions whose next token is learned: always `share` of all, so that shapes stay; -1 fills what is missing.

    Where more are learned a random part is left out, so a batch costs the same whatever is in it.
    """
    found = np.flatnonzero(learned[:, 1:])
    count = round(share * learned[:, 1:].size)
    if len(found) > count:
        return np.sort(rng.choice(found, count, replace=False))
    return np.concatenate([found, np.full(count - len(found), -1)])


def make_loss(model: LlamaForCausalLM, settings: TrainSettings) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    """A function from a (rows, length + 1) batch of ids and positions to the mean cross-entropy there, in nats.

    Only these positions reach the output layer, which is a third of a small model's work.
    """
    kind = torch.device(settings.device).type

    def loss(batch: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        at = positions.clamp(min=0)
        labels = batch[:, 1:].flatten()[at].where(positions >= 0, -100)
        with torch.autocast(kind, torch.bfloat16, enabled=settings.bf16):
            hidden = model.model(input_ids=batch[:, :-1], use_cache=False).last_hidden_state
            logits = model.lm_head(hidden.flatten(0, 1)[at])
        return functional.cross_entropy(logits.float(), labels)

    return torch.compile(loss) if settings.compiled else loss


def log(folder: Path, entry: Mapping[str, object]) -> None:
    """Print the entry as JSON and append it to log.jsonl."""
    line = json.dumps(entry)
    print(line, flush=True)
    with (folder / "log.jsonl").open("a", encoding="utf-8") as file:
        file.write(line + "\n")


class Trainer:
    """One run. `run` trains until the budget is spent or the run is asked to end, then returns the model."""

    def __init__(
        self,
        model: LlamaForCausalLM,
        documents: Sequence[Document],
        settings: TrainSettings,
        out: Path,
        seed: int,
        evaluate: Callable[[LlamaForCausalLM], float] | None = None,
    ) -> None:
        """`evaluate` gives the held-out loss of a model; `out` receives log.jsonl and checkpoint.pt."""
        self.model = model.to(settings.device)
        self.settings = settings
        self.out = out
        self.optimizers = make_optimizers(self.model, settings)
        self.schedule = WarmupHoldDecay(settings.minutes * 60, settings.warmup_steps, settings.decay_share)
        self.clock = TrainingClock(settings.device, torch.get_num_threads())
        self.step = 0
        self.tokens = 0
        self._evaluate = evaluate
        self._documents = documents
        self._seed = seed
        self._running_loss = float("nan")

    def run(self) -> LlamaForCausalLM:
        """Train; the model comes back in float32 on the CPU, in evaluation mode."""
        self.out.mkdir(parents=True, exist_ok=True)
        self.model.train()
        with StopRequest() as stop:
            self._train(stop)
        self._log(scale=0.0, held_out=self._held_out())
        self.save_checkpoint()
        return self.model.float().cpu().eval()

    def _train(self, stop: StopRequest) -> None:
        loss_of = make_loss(self.model, self.settings)
        due = {"log": 0.0, "checkpoint": self.settings.checkpoint_every_s, "evaluate": 0.0}
        seed = self._seed + self.step  # a run taken up again reads in another order
        rng = np.random.default_rng(seed)
        for batch, learned in packed_batches(self._documents, self.settings.rows, self.settings.length, seed):
            elapsed = self.clock.elapsed_s()
            if stop.came:
                self.schedule.begin_decay(elapsed)
            scale = self.schedule.scale(self.step, elapsed)
            if scale is None:
                return
            positions = pick_positions(learned, self.settings.learned_share, rng)
            self._update(loss_of, (torch.from_numpy(batch), torch.from_numpy(positions)), scale)
            self._report(due, elapsed, scale)

    def _update(
        self,
        loss_of: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
        batch: tuple[torch.Tensor, torch.Tensor],
        scale: float,
    ) -> None:
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = self.settings.learning_rate * scale
        ids, positions = (tensor.to(self.settings.device) for tensor in batch)
        loss = loss_of(ids, positions)
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        for optimizer in self.optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        value = loss.item()
        self._running_loss = value if math.isnan(self._running_loss) else 0.98 * self._running_loss + 0.02 * value
        self.step += 1
        self.tokens += ids.shape[0] * (ids.shape[1] - 1)

    def _report(self, due: dict[str, float], elapsed: float, scale: float) -> None:
        """Log, evaluate and checkpoint when each is due."""
        if elapsed >= due["log"]:
            due["log"] = elapsed + self.settings.log_every_s
            held_out = None
            if elapsed >= due["evaluate"]:
                due["evaluate"] = elapsed + self.settings.evaluate_every_s
                held_out = self._held_out()
            self._log(scale, held_out)
        if elapsed >= due["checkpoint"]:
            due["checkpoint"] = elapsed + self.settings.checkpoint_every_s
            self.save_checkpoint()

    def _held_out(self) -> float | None:
        if self._evaluate is None:
            return None
        self.model.eval()
        value = self._evaluate(self.model)
        self.model.train()
        return value

    def _log(self, scale: float, held_out: float | None) -> None:
        entry = {
            "minutes": round(self.clock.elapsed_s() / 60, 2), "step": self.step, "tokens": self.tokens,
            "rate": round(scale, 3), "loss": round(self._running_loss, 4),
            "held_out": None if held_out is None else round(held_out, 4), "clock": time.strftime("%H:%M:%S"),
        }  # fmt: skip
        log(self.out, entry)

    def save_checkpoint(self) -> None:
        """Write everything needed to go on to checkpoint.pt, atomically."""
        state = {
            "model": self.model.state_dict(), "optimizers": [o.state_dict() for o in self.optimizers],
            "step": self.step, "tokens": self.tokens, "elapsed_s": self.clock.elapsed_s(),
            "schedule": asdict(self.schedule),
        }  # fmt: skip
        partial = self.out / "checkpoint.partial"
        torch.save(state, partial)
        partial.replace(self.out / "checkpoint.pt")

    def load_checkpoint(self) -> None:
        """Take up the run whose checkpoint.pt lies in the output folder."""
        state = torch.load(self.out / "checkpoint.pt", weights_only=True)
        self.model.load_state_dict(state["model"])
        for optimizer, saved in zip(self.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)
        self.step, self.tokens = state["step"], state["tokens"]
        self.clock = TrainingClock(self.settings.device, torch.get_num_threads(), state["elapsed_s"])
        before = state.get("schedule", {})
        if before.get("budget_s") == self.schedule.budget_s:  # a longer run than was asked for then decays later
            self.schedule.decay_from_s, self.schedule.decay_for_s = before["decay_from_s"], before["decay_for_s"]
