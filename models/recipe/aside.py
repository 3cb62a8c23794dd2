"""Questions kept aside: sums, two steps, follow-ups, talks of twelve turns in words the generator never makes.

    python -m models.recipe.aside FILE.gguf [--temperature 0.8] [--wrong]

The model meets its own earlier answers, as in a chat. Above temperature 0 the other filters are the app's defaults.
"""

import argparse
import json
import random
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .run_checks import passes_checks
from .sense import Answerer, Message

NOT_JUDGED = "-"
ONE_DIGIT = ("What is {a} + {b}?", "{a}+{b}=?", "What's {a}+{b}?")  # the only usual wordings here
TURNS = 12
SUMS = {
    "+": ("So {a} plus {b} gives?", "{a} and {b} added up?", "Hm, {a} + {b}, what's that?", "Could you count {a}+{b}?",
          "I was told {a} + {b}. How many?", "Right, {a} plus {b} then", "My turn: {a} + {b}"),
    "-": ("I'd like {a} - {b} next.", "{a} take off {b}, how many?", "And if it is {a} - {b}?", "Off {a} go {b}, so?",
          "Right, {a} minus {b} then", "My turn: {a} - {b}"),
}  # fmt: skip
FOLLOWS = {
    "+": ("Put {b} on it.", "Raise that by {b}.", "{b} up, please.", "Count {b} further.", "Good. Another {b} on top?"),
    "-": ("{b} off, please.", "Lower that by {b}.", "Count {b} back.", "Good. Without {b} of it?", "Drop {b} of that."),
}  # fmt: skip
TALK = ("Ok cool.", "thx!", "Hm, you are quick.", "I see, great.", "Wow, nice work.", "Alright then.")


@dataclass(frozen=True)
class Talk:
    """The questions of one conversation and what their answers must give."""

    kind: str
    asked: list[str]
    wanted: list[str]


def written() -> Iterator[Talk]:
    """The conversations of aside.txt."""
    for line in (Path(__file__).parent / "aside.txt").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            kind, asked, wanted = line.split(" | ")
            yield Talk(kind, asked.split(" ; "), wanted.split(" ; "))


def one_digit() -> Iterator[Talk]:
    for a in range(1, 10):
        for b in range(1, 10):
            yield Talk("one digit", [ONE_DIGIT[(a + b) % 3].format(a=a, b=b)], [str(a + b)])


def twelve_turns(number: int) -> Talk:
    """Sums, follow-ups and small talk; the first two and the last turn are sums or follow-ups."""
    rng = random.Random(number)
    talk = Talk("twelve turns", [], [])
    last = None
    for turn in range(1, TURNS + 1):
        roll = rng.random()
        if roll < 0.2 and turn not in (1, 2, TURNS):
            question, wanted = rng.choice(TALK), NOT_JUDGED
        elif roll < 0.55 and last is not None:
            sign = "+" if last < 12 else rng.choice("+-")
            b = rng.randint(1, 9)
            last = last + b if sign == "+" else last - b
            question, wanted = rng.choice(FOLLOWS[sign]).format(b=b), str(last)
        else:
            sign, (b, a) = rng.choice("+-"), sorted((rng.randint(1, 20), rng.randint(1, 20)))
            last = a + b if sign == "+" else a - b
            question, wanted = rng.choice(SUMS[sign]).format(a=a, b=b), str(last)
        talk.asked.append(question)
        talk.wanted.append(wanted)
    return talk


def is_right(wanted: str, answer: str) -> bool:
    """A number or a word as the result, a function that passes its checks, or words that the answer holds."""
    if ": " in wanted:
        name, checks = wanted.split(": ", 1)
        return passes_checks(answer, name, [checks])
    if wanted.isdigit() or wanted in ("odd", "even"):
        return answer.endswith(f"The answer is {wanted}.")
    return wanted in answer


def ask(answerer: Answerer, talks: list[Talk], temperature: float) -> tuple[dict[str, list[bool]], list[Message]]:
    """Whether each judged answer is right, by kind and, of talks of twelve turns, by turn; and the wrong ones."""
    found: dict[str, list[bool]] = defaultdict(list)
    wrong = []
    for talk in talks:
        messages: list[Message] = []
        for turn, (question, wanted) in enumerate(zip(talk.asked, talk.wanted, strict=True), 1):
            messages.append({"role": "user", "content": question})
            answer = answerer.answer(messages, temperature)[0]
            messages.append({"role": "assistant", "content": answer})
            if wanted == NOT_JUDGED or (talk.kind == "follow" and turn == 1):
                continue
            right = is_right(wanted, answer)
            found[talk.kind].append(right)
            if len(talk.asked) == TURNS:
                found[f"turn {turn}"].append(right)
            if not right:
                wrong.append({"question": question, "answer": answer, "right": wanted})
    return found, wrong


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m models.recipe.aside", description=__doc__.split("\n")[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--temperature", type=float, default=0.0)
    parser.add_argument("--talks", type=int, default=24, help="of twelve turns (default: %(default)s)")
    parser.add_argument("--wrong", action="store_true", help="print the wrong answers too")
    args = parser.parse_args()
    answerer = Answerer(args.file)
    talks = [*one_digit(), *written(), *map(twelve_turns, range(args.talks))]
    found, wrong = ask(answerer, talks, args.temperature)
    for entry in wrong if args.wrong else ():
        print(json.dumps(entry, ensure_ascii=False))
    shares = {kind: f"{sum(right)}/{len(right)}" for kind, right in found.items()}
    print(json.dumps({"file": args.file.name, "temperature": args.temperature, "right": shares}))


if __name__ == "__main__":
    main()
