"""Whether a model makes sense in its small world: right answers on questions training never had.

    python -m models.recipe.sense FILE.gguf [--each 100] [--unknown 40] [--temperature 0.8] [--wrong]

Runs the file through llama.cpp and prints one JSON object: the share of right answers of each kind, and how many
answers of all end in a loop. `problem_new` asks word problems of templates that training never saw at all; `later` and
`follow_ups` ask behind another question with its right answer.
"""

import argparse
import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jinja2
import llama_cpp

from omnidraft.lab.trace import onset

from .run_checks import passes_checks
from .world import chains, everyday, facts, follow, functions, mix, outside, problems, stories, sums
from .world.split import Item

MOST_TOKENS = 160
LATER = ("sum", "problem", "function", "omnidraft", "everyday")
Draw = Callable[[random.Random], Sequence[Item]]  # a conversation; its last question is asked
Message = dict[str, Any]
DEFAULTS = {"top_k": 40, "top_p": 0.95, "min_p": 0.05}  # of the app, above temperature 0
KINDS: dict[str, Draw] = {
    "sums": lambda rng: [sums.draw(rng, "held-out") if rng.random() < 0.5 else problems.draw(rng, "held-out")],
    "steps": lambda rng: [chains.draw(rng, "held-out") if rng.random() < 0.5 else stories.draw(rng, "held-out")],
    "follow_ups": lambda rng: follow.pair(rng, "held-out"),
    "functions": lambda rng: [functions.draw(rng, "held-out")],
    "omnidraft": lambda rng: [facts.draw(rng, "held-out")],
    "everyday": lambda rng: [everyday.draw(rng, "held-out")],
    "unknown": lambda rng: [outside.draw(rng, "held-out")],
    "problem_new": lambda rng: [problems.draw(rng, "held-out", new_templates=True)],
    "later": lambda rng: [mix.draw(rng, "train"), mix.draw(rng, "held-out", LATER)],
}


class Answerer:
    """Answers of one GGUF file, by its own chat template."""

    def __init__(self, path: Path, threads: int = 1) -> None:
        self.model = llama_cpp.Llama(
            str(path), n_ctx=1024, n_batch=512, n_threads=threads, n_threads_batch=threads, seed=1, verbose=False
        )
        self.template = jinja2.Environment().from_string(self.model.metadata["tokenizer.chat_template"])
        self.bos = self.model.detokenize([self.model.token_bos()], special=True).decode()

    def answer(self, messages: list[Message], temperature: float = 0.0) -> tuple[str, list[int]]:
        """The text and ids of the answer; above temperature 0 with the app's other defaults."""
        sampling = {**DEFAULTS, "temp": temperature} if temperature > 0 else {"temp": 0.0, "top_k": 1}
        text = self.template.render(messages=messages, bos_token=self.bos, add_generation_prompt=True)
        prompt = self.model.tokenize(text.encode(), add_bos=False, special=True)
        found: list[int] = []
        most = min(MOST_TOKENS, self.model.n_ctx() - len(prompt))
        for token in self.model.generate(prompt, repeat_penalty=1.0, **sampling):
            if token == self.model.token_eos() or len(found) == most:
                break
            found.append(token)
        return self.model.detokenize(found).decode(errors="replace").strip(), found


def is_right(item: Item, answer: str) -> bool:
    """Whether the answer holds what a right one must hold."""
    if item.task == "code" and item.kind != "unknown":
        return passes_checks(answer, item.check[0], item.check[1:])
    if item.task == "math" and item.kind != "unknown":
        return answer.endswith(f"The answer is {item.check[0]}.")
    return all(part.lower() in answer.lower() for part in item.check)


def asked(kind: str, draw: Draw, count: int, seed: int) -> list[tuple[list[Message], Item]]:
    """`count` different questions of a kind, each with the conversation it ends."""
    rng = random.Random(f"{kind} {seed}")
    found: dict[str, tuple[list[Message], Item]] = {}
    while len(found) < count:
        *before, item = draw(rng)
        said = [message for earlier in before for message in earlier.messages()]
        found.setdefault(item.question, ([*said, item.messages()[0]], item))
    return list(found.values())


def sense(answerer: Answerer, each: int, unknown: int, seed: int = 5, temperature: float = 0.0) -> dict[str, Any]:
    """Shares of right answers, loops, and the wrong answers."""
    shares, wrong, loops, total = {}, [], 0, 0
    for kind, draw in KINDS.items():
        questions = asked(kind, draw, unknown if kind == "unknown" else each, seed)
        right = 0
        for messages, item in questions:
            answer, ids = answerer.answer(messages, temperature)
            loops += onset(ids) is not None
            if is_right(item, answer):
                right += 1
            else:
                wrong.append({"kind": kind, "question": item.question, "answer": answer, "right": item.answer})
        shares[kind] = round(right / len(questions), 3)
        total += len(questions)
    return {"right": shares, "loops": loops, "answers": total, "wrong": wrong}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m models.recipe.sense", description=__doc__.split("\n")[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--each", type=int, default=100, help="questions of each kind (default: %(default)s)")
    parser.add_argument("--unknown", type=int, default=40, help="questions from outside (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=5)
    parser.add_argument("--temperature", type=float, default=0.0)
    parser.add_argument("--wrong", action="store_true", help="print the wrong answers too")
    args = parser.parse_args()
    found = sense(Answerer(args.file), args.each, args.unknown, args.seed, args.temperature)
    if not args.wrong:
        del found["wrong"]
    print(json.dumps({"file": args.file.name, **found}, indent=1 if args.wrong else None))


if __name__ == "__main__":
    main()
