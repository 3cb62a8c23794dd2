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
import torch
from tokenizers import Tokenizer
from transformers import LlamaForCausalLM

from omnidraft.lab.prompts import TASKS, Prompt, load_prompts

from .data import Record, encode_documents, is_held_out, read_records
from .evaluate import generate, is_looping, mean_loss
from .specs import SPECS, ModelSpec

ANSWER_TOKENS = 96


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
    """Share of greedy answers that end in a loop."""
    answers = [generate(model, prompt_ids(spec, tokenizer, prompt), ANSWER_TOKENS) for prompt in prompts]
    return sum(map(is_looping, answers)) / len(answers)


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
