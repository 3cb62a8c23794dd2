"""Follow-ups: questions that only the conversation before them explains, "Add 5 to that" or "Call it total instead".

Held out are some wordings. Knows the last number or the last function, nothing else of a conversation.
"""

import random
import re

from . import composed, functions, stories, sums
from .split import Item, Part, draw_until, is_kept_out
from .steps import calculate, spelled
from .sums import SPELLINGS, addends, in_words, is_kept_out_pair
from .words import COLOURS, MORE_THINGS, PLACES, THINGS

IT = ("that", "it", "this", "the result", "that number", "the answer", "your answer", "the last number",
      "the last result", "what we have", "that one", "this number", "that result", "the sum", "the number",
      "the outcome", "the total", "what came out", "your number", "the value", "what you said")  # fmt: skip
ACTIONS = {
    "+": ("Add {b} to {it}.", "Now add {b}.", "Add {b}.", "Plus {b}?", "And plus {b}?", "And if I add {b}?",
          "What if you add {b}?", "Now plus {b}.", "Add {b} more.", "And {b} more?", "What is {it} plus {b}?",
          "What is {b} more than {it}?", "How much is {it} plus {b}?", "Then add {b}.", "Can you add {b} to {it}?",
          "Please add {b} to {it}.", "Increase {it} by {b}.", "Add another {b}.", "{it} plus {b}?", "And now plus {b}.",
          "What do I get if I add {b} to {it}?", "Next, add {b} to {it}.", "And with {b} more?", "Plus {b}.",
          "Go up by {b}.", "Go {b} up.", "Make it {b} larger.", "Make {it} larger by {b}.", "Bring {it} up by {b}.",
          "Give it {b} more.", "{b} more.", "{b} added to {it}?", "Push {it} up by {b}.", "Count up by {b}.",
          "Go {b} higher.", "Let {it} grow by {b}.", "{it} and {b} more?", "Take {it} and add {b}.", "Another {b}?",
          "Now {b} extra.", "Move up by {b}.", "{b} extra?", "Include {b} more.", "How much is it with {b} added?",
          "Step up by {b}.", "{b} on top of {it}?", "And {b} come on top.", "Then there are {b} more.",
          "Raise it to {b} more.", "Raise the number by {b}.", "Count on by {b}.", "Count {b} on.",
          "Put {b} with it.", "Put another {b} in.", "And {b} up.", "{b} up now.", "{b} upwards.", "Throw {b} in.",
          "{b} bigger, please.", "Now {b} bigger.", "Lay {b} on top.", "And another {b}, please?", "{b} further up.",
          "Let it rise by {b}."),
    "-": ("Subtract {b} from {it}.", "Now subtract {b}.", "Subtract {b}.", "Minus {b}?", "And minus {b}?",
          "Take {b} away from {it}.", "Now take away {b}.", "Take away {b}.", "And if I take away {b}?",
          "What is {it} minus {b}?", "How much is {it} minus {b}?", "And {b} less?", "What is {b} less than {it}?",
          "Then subtract {b}.", "Can you subtract {b} from {it}?", "Please subtract {b}.", "Now minus {b}.",
          "Take {b} from {it}.", "Reduce {it} by {b}.", "{it} minus {b}?", "Remove {b} from {it}.", "Minus {b}.",
          "What is left of {it} if I take {b}?", "Go down by {b}.", "Go {b} down.", "Make it {b} smaller.",
          "Make {it} smaller by {b}.", "Bring {it} down by {b}.", "{b} fewer?", "{b} less.", "Cut {it} by {b}.",
          "Count down by {b}.", "Go {b} lower.", "Let {it} shrink by {b}.", "Go back by {b}.", "Leave out {b}.",
          "{b} off {it}?", "Without {b}?", "Move down by {b}.", "Now {b} fewer.", "Step down by {b}.",
          "What if {b} of {it} are gone?", "Knock {b} off {it}.", "And {b} go away again.", "Now {b} are missing.",
          "Lower the number by {b}.", "Make it lower by {b}.", "Drop {b}.", "Let {b} drop off.", "Count back by {b}.",
          "{b} back.", "And {b} off.", "{b} off now.", "Then {b} down.", "Deduct {b} from {it}.",
          "Leave {b} of it out.", "{b} smaller, please.", "Now {b} smaller.", "Let it fall by {b}.", "Throw {b} out.",
          "Take {b} off."),
    "x": ("Multiply {it} by {b}.", "Now multiply by {b}.", "Times {b}?", "And times {b}?", "What is {it} times {b}?",
          "Now times {b}.", "Then multiply by {b}.", "Can you multiply {it} by {b}?", "How much is {b} times {it}?",
          "What is {b} times {it}?", "{it} times {b}?", "Please multiply {it} by {b}.", "And {b} times {it}?",
          "{b} times as much?", "Take {it} {b} times.", "Make it {b} times as large.", "{it}, {b} times?",
          "And {b} times that?",
          "{b} times now.", "And now {b} times?", "{b} times this one.", "Multiply what you have by {b}."),
    "/": ("Divide {it} by {b}.", "Now divide by {b}.", "And divided by {b}?", "What is {it} divided by {b}?",
          "Divided by {b}?", "Then divide {it} by {b}.", "Can you divide {it} by {b}?", "Split {it} among {b} people.",
          "Share {it} among {b} people.", "How often does {b} go into {it}?", "Please divide {it} by {b}.",
          "Divide what you have by {b}.", "Cut it into {b} parts. How large is each?"),
}  # fmt: skip
DOUBLE = ("Double {it}.", "Now double {it}.", "What is twice {it}?", "And doubled?", "What is the double of {it}?",
          "And twice {it}?", "Can you double {it}?", "Double {it}, please.", "And the double?",
          "Twice {it}?", "And twice that much?", "What is it doubled?")  # fmt: skip
HALVE = ("Halve {it}.", "What is half of {it}?", "Now halve {it}.", "And half of {it}?", "And the half?",
         "Take half of {it}.", "Can you halve {it}?", "How much is half of {it}?", "Divide {it} in half.",
         "Half of {it}?", "And half of {it} is?", "What is it halved?", "Only half of {it}.")  # fmt: skip
EVENTS = {
    "+": ("Then {n} gets {b} more.", "{n} buys {b} more. How many now?", "And if {n} finds {b} more?",
          "{b} more come. How many now?", "What if {n} gets {b} more?", "Now {n} wins {b}.",
          "Later I get {b} more. How many are there now?", "And then {b} are added?",
          "Then I find {b} in a bag.", "A friend gives {n} {b} more.", "Then {n} is given {b}. How many is that?",
          "{n} picks up {b} on the way.", "The uncle brings {b}. How many now?"),
    "-": ("Then {n} gives away {b}.", "Now {n} loses {b}. How many are left?", "And if {n} sells {b} of them?",
          "{b} are gone. How many are left?", "What if {n} loses {b}?", "Then I eat {b}. How many are left?",
          "{n} gives {b} of them to a friend. How many remain?", "And then {b} are taken away?",
          "{b} of these get lost. What is left?", "Then {n} uses {b} of them.",
          "Of these {n} eats {b}. What remains?", "{n} breaks {b}. How many has {n} left?"),
}  # fmt: skip
SIGNED = ("{signed}", "{signed}?", "And {signed}?", "Now {signed}", "then {signed}", "{signed} = ?", "{signed} now",
          "ok, {signed}", "{signed} please", "{signed}=", "and then {signed}")  # fmt: skip
# What people say before a question, and behind one.
OPENERS = ("Ok. ", "Ok, ", "Fine. ", "Nice. ", "Thanks. ", "Super. ", "Yes. ", "Perfect. ", "Well, ", "Sure. ",
           "Alright, ", "Very good. ", "Great! ", "Good, ", "Oh, ", "So ", "Good job. ", "I see. ", "Next one. ",
           "Cool, ", "So, ", "Then, ", "Please, ", "Fine, ", "Hey, ", "Teacher, ", "Look, ", "Good. ", "Done. ",
           "Quick: ")  # fmt: skip
CLOSERS = (" now", ", please", " please", " again", " too", ", ok")
AGAIN = ("What was {it} again?", "Say {it} again.", "What was the last result?", "Can you repeat {it}?",
         "How much was it?", "What did you get?", "Which number was that?", "I forgot. What was {it}?",
         "Which number is it?", "Say the number again.", "What did you say?", "Tell me {it} again.",
         "Sorry, what was it?")  # fmt: skip
PARITY = ("Is {it} even or odd?", "Is {it} an even number?", "Even or odd?", "Is {it} odd?", "And is {it} even?")
NEXT = ("What comes after {it}?", "Which number follows {it}?", "And the next number?",
        "What is the number after {it}?")  # fmt: skip
LARGER = ("Is {it} more than {b}?", "Is {it} larger than {b}?", "Is {it} bigger than {b}?", "Is {it} above {b}?")
NAMES = ("she", "he", "I", "Anna", "Tom")

RENAME = ("Call it {g} instead.", "Rename it to {g}.", "Name it {g}.", "Can you call it {g}?",
          "Change the name to {g}.", "Please rename it to {g}.", "I want it to be called {g}.", "Call it {g}.",
          "Now name it {g}.", "The same, but named {g}.", "The name should be {g}.",
          "Can you rename the function to {g}?", "Use the name {g}.", "Give it the name {g}.", "Let us call it {g}.",
          "Rename this function {g}.", "I would like it named {g}.", "{g} should be its name.",
          "I prefer the name {g}.", "Take {g} as the name.", "Let the name be {g}.", "Another name: {g}.",
          "Its name is {g} from now on.", "Write it again as {g}.", "Can you write it as {g}?",
          "What if it is called {g}?", "How does it look as {g}?", "Same function, name {g}.",
          "The same code with the name {g}.", "Please use {g} as its name.", "Name: {g}", "{g} instead, please.",
          "The name {g} is better.", "Could it be called {g}?", "Could you name it {g}?", "Make the name {g}.",
          "Better call it {g}.", "{g} is a better name.", "Can the name be {g}?", "Same, but called {g}.")  # fmt: skip
PURPOSE = ("What does it do?", "Explain it.", "What does this function do?", "What is it for?", "What does that do?",
           "Can you explain the function?", "Explain this code.", "What is this function for?",
           "Tell me what it does.", "What is this code for?", "And what does that do?", "What is it good for?",
           "Why would I use it?", "Say what it does.", "What was it for again?", "What is its purpose?",
           "What can I do with it?", "What do I use it for?", "Tell me its purpose.", "Describe it.",
           "What is this for?", "What is it there for?", "What does the code do?", "What do you call it for?",
           "In words, what does it do?", "And what is it for?")  # fmt: skip
REPEAT = ("Show it again.", "Write it once more.", "Can you show it again?", "Again, please.", "Repeat the function.",
          "Give me the function again.", "Print it again.", "Once more.", "The function again, please.", "And again.",
          "Repeat it.", "Write it again.", "Say that again.", "I want to see it again.",
          "Could you show it once more?", "Give it to me again.", "Repeat that, please.",
          "Show me the code once more.", "One more time.")  # fmt: skip


def trained(forms: tuple[str, ...], rng: random.Random, part: Part) -> str:
    """A wording of the part; where all of a few are on one side, any."""
    wanted = [form for form in forms if is_kept_out(f"follow {form}", 14) == (part == "held-out")]
    return rng.choice(wanted or forms)


def number(rng: random.Random, part: Part, last: int, told: bool) -> Item:
    """A question about the last number; `told`: it was the number of a story, which may go on."""

    def make() -> Item | None:
        roll = rng.random()
        if roll < 0.16:
            return about(rng, part, last)
        sign = rng.choice("++++---xx/")
        right = rng.randint(2, 5) if sign in "x/" else rng.choice((rng.randint(1, 9), max(1, addends(rng)[1])))
        result = calculate(last, sign, right)
        if result is None or (is_kept_out_pair(last, sign, right) and part == "train"):
            return None
        form = wording(rng, part, sign, right, told)
        if form is None:
            return None
        signed = f"{rng.choice(SPELLINGS[sign])}{rng.choice(('', ' '))}{right}"
        return item(rng, form, f"{spelled(last, sign, right)}. The answer is {result}.", str(result), right, signed)

    return draw_until(make)


def wording(rng: random.Random, part: Part, sign: str, right: int, told: bool) -> str | None:
    if part == "train" and rng.random() < 0.55:
        goes_on = told and sign in EVENTS and rng.random() < 0.5
        return composed.happening(rng, sign) if goes_on else composed.calculation(rng, sign, right)
    if sign in EVENTS and told and rng.random() < 0.5:
        return trained(EVENTS[sign], rng, part)
    if right == 2 and sign in "x/" and rng.random() < 0.7:
        return trained(DOUBLE if sign == "x" else HALVE, rng, part)
    if part == "train" and rng.random() < 0.12:
        return rng.choice(SIGNED)
    return trained(ACTIONS[sign], rng, part)


def about(rng: random.Random, part: Part, last: int) -> Item:
    """A question that changes nothing: is it even, is it more than 20, what was it again."""
    kind = rng.choice((AGAIN, AGAIN, PARITY, NEXT, LARGER))
    form = trained(kind, rng, part)
    other = rng.choice([number for number in range(1, 100) if number != last])
    if kind is AGAIN:
        text, result = "", str(last)
    elif kind is PARITY:
        result = "odd" if last % 2 else "even"
        text = f"{last} ends in {last % 10}, so it is {result}. "
    elif kind is NEXT:
        text, result = f"{last} + 1 = {last + 1}. ", str(last + 1)
    else:
        result = "yes" if last > other else "no"
        text = f"{last} is {'larger' if last > other else 'smaller'} than {other}. "
    return item(rng, form, f"{text}The answer is {result}.", result, other)


def item(rng: random.Random, form: str, answer: str, result: str, right: int, signed: str = "") -> Item:
    question = form.format(it=rng.choice(IT), b=in_words(right, rng), n=rng.choice(NAMES), signed=signed)
    question = re.sub(r"\bI (get|buy|find|win|give|lose|sell)s\b", r"I \1", question)
    question = question if rng.random() < 0.2 else question[0].upper() + question[1:]
    return Item("follow", "math", form, in_talk(rng, question), answer, (result,))


def in_talk(rng: random.Random, question: str) -> str:
    """The question as it comes up in a talk: now and then with a word before or behind it."""
    if rng.random() < 0.12 and question[-1] in "?.":
        question = question[:-1] + rng.choice(CLOSERS) + question[-1]
    if rng.random() < 0.22:
        opener = rng.choice(OPENERS)
        small = opener[-2] not in ".!" and question[1:2].islower()
        question = opener + (question[0].lower() + question[1:] if small else question)
    return question


def new_name(rng: random.Random, code: str) -> str:
    """A name for a function: one that others have, or any words."""
    if rng.random() < 0.4:
        return rng.choice([n for f in functions.families() for n in f.names if n not in code])
    one, other = rng.sample((*COLOURS, *PLACES, *THINGS, *MORE_THINGS), 2)
    return rng.choice((one, one, f"{one}_{other}", f"my_{one}", f"do_{one}", f"{one}_it", f"get_{one}"))


def function(rng: random.Random, part: Part, last: Item) -> Item:
    """A question about the last function: another name, what it does, the same again."""
    name, *checks = last.check
    code = last.answer
    kind = rng.choice((RENAME, RENAME, PURPOSE, REPEAT))
    form = trained(kind, rng, part)
    said = in_talk(rng, form) if part == "train" else form
    if kind is PURPOSE:
        task = last.note
        return Item("follow", "qa", form, said, f"The function {name} is there to {task}.", (task,))
    new = name if kind is REPEAT else new_name(rng, code)
    answer = re.sub(rf"\b{name}\b", new, code)
    return Item("follow", "code", form, said.format(g=new), answer, (new, *checks), last.note)


def pair(rng: random.Random, part: Part) -> tuple[Item, Item]:
    """A question and its follow-up, for a check."""
    if rng.random() < 0.3:
        first = functions.draw(rng, "train")
        return first, function(rng, part, first)
    first = sums.plain(rng, "train") if rng.random() < 0.5 else stories.draw(rng, "train")
    return first, number(rng, part, int(first.check[0]), first.kind == "story")
