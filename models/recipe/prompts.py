"""What targets are asked: the training parts of the data, and everyday requests put together from parts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

# How often a kind is asked; everyday requests are the rest.
SHARES = {"math": 0.2, "code": 0.2, "dialogue": 0.12, "qa": 0.1, "roleplay": 0.05}
_FORMS = {
    "What is {}?": "thing", "Explain {} in simple terms.": "thing", "Why does {} matter?": "thing",
    "How does {} work?": "thing", "Give me a short history of {}.": "thing", "What should I know about {}?": "thing",
    "List five facts about {}.": "thing", "Tell me about {} in two sentences.": "thing",
    "What are the pros and cons of {}?": "thing", "Write a short poem about {}.": "thing",
    "How do I {}?": "deed", "What is the best way to {}?": "deed", "Give me tips to {}.": "deed",
    "I want to {}. Where do I start?": "deed", "Make a step-by-step plan to {}.": "deed",
    "List the things I need to {}.": "deed", "I tried to {} and it went wrong. What now?": "deed",
    "Write an email to {} about {}.": "person matter", "Write a short letter to {} about {}.": "person matter",
    "Help me tell {} about {} politely.": "person matter", "Draft a message to {}: {}.": "person matter",
    "Write a story about {} and {}.": "person thing", "How would you explain {} to {}?": "thing person",
    "What is the difference between {} and {}?": "thing thing", "Compare {} and {}.": "thing thing",
    "Which is more useful, {} or {}?": "thing thing", "Summarize why {} depends on {}.": "thing thing",
    "Write a Python function that {}.": "task", "Write a JavaScript function that {}.": "task",
    "Show me an example of code that {}, with comments.": "task", "How can I write a program that {}?": "task",
    "Explain step by step how code that {} works.": "task",
    "A {} costs ${}. How much do {} of them cost?": "ware number number",
    "I had {} of a {} and gave away {}. How many are left? Show your steps.": "number ware number",
    "What is {} plus {}?": "number number", "What is {} times {}? Explain.": "number number",
    "What is {} percent of {}?": "number number", "Turn {} minutes into hours.": "number",
    "Hello! I am {} and I need help with {}.": "person matter", "Suggest ten names for {}.": "business",
    "Write a slogan for {}.": "business", "How do I advertise {}?": "business", "Plan a week for {}.": "person",
    "Translate into plain English: {} is subject to {}.": "thing thing",
    "Rewrite this to be more formal: hey, can we talk about {}?": "matter",
    "Correct the mistakes: me and him was talking about {} yesterday.": "matter",
}  # fmt: skip
_PARTS = {
    "thing": "photosynthesis|gravity|inflation|the water cycle|democracy|machine learning|a black hole|the immune system|"
    "solar energy|the stock market|yoga|blockchain|a vaccine|the French Revolution|climate change|DNA|electricity|"
    "recycling|meditation|insulin|the internet|an earthquake|the Roman Empire|jazz|chess|a balanced diet|evolution|"
    "the moon|a mortgage|insurance|plastic|coffee|bees|the human heart|a database|an algorithm|public transport|sleep|"
    "ancient Egypt|a volcano|bread|glass|the Great Wall of China|music theory|nuclear power|a contract|friendship|"
    "the Renaissance|wind power|a hurricane|protein|free software|the ocean|a city park|honey|the printing press",
    "deed": "learn to play the guitar|bake a chocolate cake|save money every month|grow tomatoes on a balcony|"
    "prepare for a job interview|fall asleep faster|clean a coffee machine|start a small business|write a CV|"
    "train for a 10 km run|remove a red wine stain|plan a trip to Japan|learn Spanish|change a flat tyre|"
    "cook rice|train a puppy|organise my desk|make new friends|set up a home network|speak in public|paint a room|"
    "reduce stress at work|write a good essay|repair a bicycle|eat more vegetables|stop procrastinating|knit a scarf|"
    "host a birthday party|read more books|build a bookshelf|take better photographs|move to another city|"
    "make a budget|brew tea|protect my passwords|learn to swim|choose a laptop|teach a child to read",
    "person": "my landlord|my manager|a colleague|my neighbour|a customer|my teacher|the bank|a friend|my grandmother|"
    "the city council|a hotel|a recruiter|my sister|a ten-year-old|a beginner|a busy parent|the school|my doctor|"
    "an old sailor|a young scientist|a tired robot|a student",
    "matter": "a broken heater|a late delivery|taking a week off|a rise in salary|a noisy party|moving a meeting|"
    "a lost parcel|thanking them for their help|an apology for being late|a job application|a refund|"
    "an invitation to dinner|a leaking roof|a change of address|feedback on a report|a cancelled booking|"
    "a school trip|a birthday present|the results of the project|working from home|a bill that is too high",
    "task": "reverses a string|checks whether a number is prime|sorts a list of numbers|counts the words in a text|"
    "finds the largest number in a list|removes duplicates from a list|computes a factorial|reads a CSV file|"
    "checks whether a word is a palindrome|adds up the digits of a number|merges two dictionaries|"
    "converts Celsius to Fahrenheit|finds the most common letter|computes Fibonacci numbers|validates an email address|"
    "rolls two dice|flattens a nested list|groups words by length|does a binary search|writes a log file|"
    "draws a triangle of stars|keeps a to-do list|fetches a web page|counts vowels|computes the average",
    "ware": "book|ticket|pencil|sandwich|lamp|shirt|bag of apples|chair|cake|toy car|plant|notebook",
    "number": "3|4|5|6|7|8|9|10|12|14|15|16|18|20|24|25|30|32|36|40|45|48|50|60|72|75|80|90|96|100|120|144|150|240",
    "business": "a bakery|a bookshop|a dog walking service|a vegan restaurant|a bicycle shop|a language school|"
    "a yoga studio|a small farm|a podcast about history|a flower shop|a repair cafe|a mobile game",
}
_TEXTS = (
    "Summarize the following text in {} sentences: {}", "What are the main points of this text? {1}",
    "Give this text a title and a short summary. {1}", "Explain this as to a child: {1}",
)  # fmt: skip


def everyday(dice: np.random.Generator) -> str:
    """A request that needs no data."""
    forms = list(_FORMS)
    form = forms[dice.integers(len(forms))]
    return form.format(*(dice.choice(_PARTS[part].split("|")) for part in _FORMS[form].split()))


def read_training(folder: Path) -> dict[str, list[list[dict[str, str]]]]:
    """{kind: conversations} of the parts of the data that may be learned."""
    found: dict[str, list[list[dict[str, str]]]] = {}
    for path in sorted([*folder.glob("pretrain/*.jsonl"), *folder.glob("stream/*.jsonl")]):
        for line in path.read_text(encoding="utf-8").strip().split("\n"):  # not splitlines: it cuts at U+2028
            record = json.loads(line)
            if record.get("split", "train") == "train":
                found.setdefault(record["task"], []).append(record["messages"])
    return found


def prompts(folder: Path, seed: int) -> Iterator[dict[str, Any]]:
    """Without end: {"task", "messages", "temperature"}; half of the answers shall be the likeliest ones."""
    dice, data = np.random.default_rng(seed), read_training(folder)
    kinds = [kind for kind in SHARES if kind in data]
    chances = [SHARES[kind] for kind in kinds]
    while True:
        kind = str(dice.choice([*kinds, "everyday"], p=[*chances, 1 - sum(chances)]))
        if kind == "everyday":
            messages = [{"role": "user", "content": everyday(dice)}]
        else:
            messages = _beginning(data[kind][dice.integers(len(data[kind]))], dice)
            if kind == "qa" and dice.random() < 0.3:
                messages = [_about(messages[0]["content"], data[kind], dice)]
        yield {"task": kind, "messages": messages, "temperature": float(dice.choice([0.0, 0.8]))}


def _beginning(messages: list[dict[str, str]], dice: np.random.Generator) -> list[dict[str, str]]:
    """A conversation up to one of its first three questions."""
    asked = [i for i, message in enumerate(messages) if message["role"] == "user"][:3]
    return messages[: asked[dice.integers(len(asked))] + 1]


def _about(question: str, conversations: list[list[dict[str, str]]], dice: np.random.Generator) -> dict[str, str]:
    """A request to sum up an answer of the data."""
    text = conversations[dice.integers(len(conversations))][1]["content"]
    return {"role": "user", "content": _TEXTS[dice.integers(len(_TEXTS))].format(dice.integers(1, 4), text)}
