"""The numbers of a model card: held-out loss, loss per task on other text, looping rate, samples.

    python -m models.recipe.report NAME FOLDER --data DIR [--other DIR]

FOLDER is a Hugging Face folder of the model NAME. Prints one JSON object. `--other` is a folder of conversations
that training never sees; there only the records marked `"split": "test"` count.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
import torch
from tokenizers import Tokenizer
from torch.nn import functional
from transformers import LlamaForCausalLM

from omnidraft.lab.prompts import TASKS, Prompt, load_prompts
from omnidraft.lab.trace import onset

from .data import Document, Record, encode_documents, is_held_out, read_records
from .specs import SPECS, ModelSpec

ANSWER_TOKENS = 96


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


@torch.inference_mode()
def generate(
    model: LlamaForCausalLM, prompt: Sequence[int], tokens: int, temperature: float = 0.0, seed: int = 0
) -> list[int]:
    """Up to `tokens` ids behind the prompt, the end-of-turn id included if it came. Temperature 0 is greedy."""
    torch.manual_seed(seed)
    sampling = {"do_sample": True, "temperature": temperature, "top_k": 0} if temperature > 0 else {"do_sample": False}
    ids = torch.tensor([list(prompt)])
    end = model.config.eos_token_id
    answer = model.generate(
        ids, attention_mask=torch.ones_like(ids), max_new_tokens=tokens, pad_token_id=end, **sampling
    )
    return answer[0, len(prompt) :].tolist()


def loss_by_task(
    spec: ModelSpec, tokenizer: Tokenizer, model: LlamaForCausalLM, records: Sequence[Record]
) -> dict[str, float]:
    """Nats per token of each task the records hold, and of all of them under "all"."""
    groups = {task: [r for r in records if r["task"] == task] for task in sorted({r["task"] for r in records})}
    groups["all"] = list(records)
    return {
        task: round(mean_loss(model, encode_documents(spec, tokenizer, group)), 4) for task, group in groups.items()
    }


def prompt_ids(spec: ModelSpec, tokenizer: Tokenizer, prompt: Prompt) -> list[int]:
    """The rendered prompt with the opening of the answer."""
    template = jinja2.Environment().from_string(spec.template)
    text = template.render(messages=prompt.messages, bos_token=spec.bos, add_generation_prompt=True)
    return tokenizer.encode(text, add_special_tokens=False).ids


def looping_share(spec: ModelSpec, tokenizer: Tokenizer, model: LlamaForCausalLM, prompts: Sequence[Prompt]) -> float:
    """Share of greedy answers that end in a cycle, as `onset` says."""
    answers = [generate(model, prompt_ids(spec, tokenizer, prompt), ANSWER_TOKENS) for prompt in prompts]
    return sum(onset(answer) is not None for answer in answers) / len(answers)


def samples(spec: ModelSpec, tokenizer: Tokenizer, model: LlamaForCausalLM, prompts: Sequence[Prompt]) -> list[dict]:
    """A greedy answer and one at temperature 0.8 for each prompt."""

    def answer(prompt: Prompt, temperature: float) -> str:
        ids = generate(model, prompt_ids(spec, tokenizer, prompt), ANSWER_TOKENS, temperature, seed=1)
        return tokenizer.decode(ids, skip_special_tokens=True).strip()

    return [{"prompt": p.text, "T=0": answer(p, 0.0), "T=0.8": answer(p, 0.8)} for p in prompts]


def report(name: str, folder: Path, data: Path, other: Path | None, prompts_per_task: int = 10) -> dict[str, Any]:
    spec = SPECS[name]
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    model = LlamaForCausalLM.from_pretrained(folder).eval()
    tasks = [task for task in TASKS if task in spec.tasks]
    prompts = [prompt for task in tasks for prompt in load_prompts(task, "test", prompts_per_task)]
    held_out = [record for record in read_records(data, spec.tasks) if is_held_out(record)]
    numbers = {
        "name": name,
        "parameters": sum(p.numel() for p in model.parameters()),
        "held_out": loss_by_task(spec, tokenizer, model, held_out),
        "looping": looping_share(spec, tokenizer, model, prompts),
        "prompts": len(prompts),
    }
    if other is not None:
        unseen = [record for record in read_records(other, spec.tasks) if record.get("split") == "test"]
        numbers["other"] = loss_by_task(spec, tokenizer, model, unseen)
    numbers["samples"] = samples(spec, tokenizer, model, prompts[::prompts_per_task])
    return numbers


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m models.recipe.report", description=__doc__.split("\n")[0])
    parser.add_argument("name", choices=sorted(SPECS))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--other", type=Path)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    print(json.dumps(report(args.name, args.folder, args.data, args.other), ensure_ascii=False, indent=1))


if __name__ == "__main__":
    main()
