"""Writes text of the small world as JSONL conversations.

    python -m models.recipe.world --out DIR [--documents N] [--each N] [--data DIR]

DIR receives train/world.jsonl (what targets are trained on; `--data` adds a share of the corpora), held-out.jsonl
(questions whose wording or values training never has, each with what a right answer must hold) and, for benchmarks that
ask many, prompts/TASK.jsonl: of the split "train" as training asks, of the split "test" held out.
"""

import argparse
import json
import random
from collections.abc import Iterable
from pathlib import Path

from ..data import Record, read_records
from ..specs import ALL_TASKS
from . import chains, everyday, facts, functions, outside, problems, service, stories, sums, talk
from .mix import target_records
from .split import Item, Part

ASKED = {
    "math": (sums.draw, chains.draw, stories.draw, problems.draw, problems.draw),
    "code": (functions.draw,),
    "qa": (facts.draw, facts.draw, facts.draw, facts.draw, facts.draw, everyday.draw, everyday.draw, outside.draw),
    "dialogue": (service.draw, service.draw, service.draw, service.draw, service.draw, talk.draw),
}


def prompts(task: str, part: Part, count: int, seed: int, taken: set[str]) -> list[Item]:
    """`count` items of a task with different questions, or as many as there are; those in `taken` are left out."""
    rng = random.Random(f"{task} {part} {seed}")
    found = []
    for _ in range(count * 20):
        item = rng.choice(ASKED[task])(rng, part)
        if item.question not in taken:
            taken.add(item.question)
            found.append(item)
        if len(found) == count:
            break
    return found


def checked(item: Item, name: str) -> Record:
    """A question with its right answer and what that must hold."""
    return {"id": name, "task": item.task, "kind": item.kind, "check": list(item.check), "messages": item.messages()}


def asked(item: Item, task: str, number: int, split: str) -> Record:
    """A question alone, as a benchmark reads it."""
    message = {"role": "user", "content": item.question}
    return {"id": f"{task}-{number:03}", "task": task, "split": split, "messages": [message]}


def prompt_file(task: str, train: int, test: int, seed: int) -> list[Record]:
    """Prompts of one task, first those that ask as training does, then held-out ones."""
    taken: set[str] = set()
    drawn = [(item, "train") for item in prompts(task, "train", train, seed, taken)]
    drawn += [(item, "test") for item in prompts(task, "held-out", test, seed, taken)]
    return [asked(item, task, number, split) for number, (item, split) in enumerate(drawn, 1)]


def write(path: Path, records: Iterable[Record]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as file:
        for record in records:
            file.write(json.dumps(record) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m models.recipe.world", description="Write the small world as text.")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--documents", type=int, default=75_000, help="generated documents (default: %(default)s)")
    parser.add_argument("--each", type=int, default=400, help="prompts a task and split (default: %(default)s)")
    parser.add_argument("--data", type=Path, help="folder of *.jsonl corpora")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    corpora = read_records(args.data, ALL_TASKS) if args.data else []
    if args.documents:
        write(args.out / "train" / "world.jsonl", target_records(corpora, args.documents, args.seed))
    for task in ASKED:
        write(args.out / "prompts" / f"{task}.jsonl", prompt_file(task, args.each, args.each, args.seed))
    held_out = [item for task in ASKED for item in prompts(task, "held-out", args.each, args.seed + 1, set())]
    write(
        args.out / "held-out.jsonl",
        (checked(item, f"held-out/{number:05}") for number, item in enumerate(held_out) if item.check),
    )


if __name__ == "__main__":
    main()
