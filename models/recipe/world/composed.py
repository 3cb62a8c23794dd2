"""Follow-ups in words put together: what leads to a calculation, the calculation as a verb or as a thing, what ends it.

So that a model meets thousands of wordings and learns which of the words count. For training only: what is held out are
the fixed wordings of `follow`.
"""

import random

from . import stories
from .words import MORE_THINGS, THINGS

LEADS = ("Now ", "Then ", "Next ", "And now ", "Please ", "Can you ", "Could you ", "Would you ", "Let us ", "Let's ",
         "I want to ", "I would like to ", "What if I ", "What if we ", "What happens if I ", "Suppose I ", "Try to ",
         "If I ", "And if you ", "When I ", "Say we ", "Go on and ", "You should ", "We ", "And then ", "Now please ",
         "I ", "And I ", "Now I ", "Then I ", "Will you ", "Help me to ", "", "", "", "", "", "")  # fmt: skip
THING_LEADS = ("And ", "Now ", "Then ", "Ok, ", "What about ", "How about ", "And what is it ", "Next: ", "And now ",
               "What do I get with ", "Once again ", "", "", "", "So ", "Again ", "Now make that ",
               "And with ")  # fmt: skip
TAILS = ("", "", ".", ".", "?", "?", " now.", " then?", " again.", " too.", ", what is it?", ", what do I get?",
         ". What now?", ". How much?", ". What is it then?", ". What does that make?", " and tell me.", ", ok?", "!",
         ". And?", ". So?", " as well.", " for me.", ". Which number is it?", " this time.", ". How much is that?",
         "...", ". What comes out?", ", what do we have?", " - how much?", ". Your answer?", ". How many?")  # fmt: skip
VERBS = {
    "+": ("add {b}", "add {b} to {it}", "add {b} more", "add another {b}", "put {b} more in", "put {b} on top",
          "throw {b} more in", "increase {it} by {b}", "bump {it} up by {b}", "make {it} {b} larger",
          "make {it} {b} higher", "make {it} {b} more", "go up {b}", "climb {b}", "step {b} up", "jump {b} ahead",
          "move on by {b}", "extend {it} by {b}", "lift {it} by {b}", "top {it} up by {b}", "have {b} more",
          "get {b} more", "count in {b} more", "stack {b} onto {it}", "attach {b}", "append {b}", "tack {b} on",
          "join {b} to {it}", "bring in {b} more", "include another {b}", "enlarge {it} by {b}", "mix in {b}",
          "push {b} in", "pile {b} on top", "stick {b} on top", "go {b} higher", "walk {b} up",
          "heighten {it} by {b}", "give {it} {b} more", "grow {it} by {b}", "add on {b}", "add {b} on",
          "add {b} again", "move {it} up by {b}", "set {it} {b} higher", "count {b} more", "win {b}", "gain {b}",
          "earn {b} more", "sum {it} and {b}"),
    "-": ("take {b} away", "take away {b}", "take {b} out", "take off {b}", "remove {b}", "remove {b} from {it}",
          "subtract {b}", "subtract {b} from {it}", "cut {b} off", "cut away {b}", "cross out {b}",
          "drop {b} from {it}", "reduce {it} by {b}", "decrease {it} by {b}", "shrink {it} by {b}", "go down {b}",
          "fall by {b}", "sink {it} by {b}", "step {b} down", "jump back {b}", "move back by {b}", "lose {b}",
          "lose another {b}", "spend {b}", "use up {b}", "give {b} away", "strike {b}", "erase {b}", "pull {b} out",
          "pull {b} off", "make {it} {b} smaller", "make {it} {b} less", "count {it} down by {b}", "skip back {b}",
          "knock off {b}", "shave off {b}", "withdraw {b}", "deduct {b} again", "bring {it} down {b}", "go {b} lower",
          "walk {b} down", "take {b} from {it}", "leave {b} out", "move {it} down by {b}", "set {it} {b} lower",
          "take {b} more away", "take another {b} away", "throw {b} away", "let {b} go", "minus {b}", "tear off {b}",
          "trim {it} by {b}"),
    "x": ("multiply by {b}", "multiply {it} by {b}", "multiply {it} with {b}", "take {it} {b} times",
          "have {b} of them", "make {it} {b} times larger", "count {it} {b} times", "take {b} of those",
          "do {it} {b} times", "get {it} {b} times", "add {it} up {b} times", "calculate {it} times {b}", "times {b}"),
    "/": ("divide by {b}", "divide {it} by {b}", "split {it} into {b} parts", "split {it} by {b}",
          "break {it} into {b} parts", "share {it} between {b} kids", "cut {it} into {b} pieces",
          "take one of {b} equal parts", "calculate {it} divided by {b}", "divide {it} among {b}"),
    "double": ("double {it}", "double {it} again", "take {it} twice", "make {it} twice as large",
               "multiply {it} by two", "have twice as many", "take two times {it}", "get the double of {it}",
               "times two"),
    "half": ("halve {it}", "take half of {it}", "divide {it} by two", "cut {it} in half", "split {it} in half",
             "keep only half of {it}", "halve {it} again", "lose half of {it}", "take one half of {it}"),
    "triple": ("triple {it}", "take {it} three times", "make {it} three times as large", "get the triple of {it}"),
}  # fmt: skip
THINGS_DONE = {
    "+": ("plus {b}", "{b} more", "{b} extra", "another {b}", "{b} added", "{it} plus {b}", "{it} and {b}",
          "{b} higher", "{b} more than {it}", "an extra {b}", "{b} bigger than {it}", "plus another {b}",
          "{b} in addition", "{b} further", "{b} larger", "{it} with {b} more", "a plus of {b}"),
    "-": ("minus {b}", "{b} less", "{b} fewer", "{b} gone", "{it} minus {b}", "{it} without {b}", "{b} lower",
          "{b} less than {it}", "{b} smaller", "minus another {b}", "{b} taken away", "{b} removed", "{b} down",
          "{b} fewer than {it}", "{b} subtracted", "a minus of {b}", "{it} but {b} less"),
    "x": ("times {b}", "{b} times {it}", "{it} times {b}", "{b} times as many", "{it} multiplied by {b}",
          "{b} times as much", "{b} of those", "multiplied by {b}"),
    "/": ("divided by {b}", "{it} divided by {b}", "{it} over {b}", "{it} in {b} parts", "a part of {b} equal ones"),
    "double": ("twice {it}", "the double", "double {it}", "{it} doubled", "two times {it}", "doubled", "times two"),
    "half": ("half of {it}", "the half", "half {it}", "{it} halved", "one half of {it}", "halved", "half as much",
             "half as many"),
    "triple": ("three times {it}", "the triple", "{it} tripled", "tripled", "three times as many"),
}  # fmt: skip
SPECIAL = {("x", 2): "double", ("/", 2): "half", ("x", 3): "triple"}
# Who a story goes on with, and how.
WHO = ("she", "he", "they", "I", "we", "a friend", "somebody", "the boy", "the girl", "her mother",
       "his sister")  # fmt: skip
WHO_LEADS = ("", "", "Then ", "Now ", "And then ", "Later ", "After that ", "Next ", "But ", "So ", "What if ", "If ",
             "Today ", "And ", "And if ", "Suppose ", "On the way ", "In the end ")  # fmt: skip
WHO_TAILS = ("", ".", ".", ". How many now?", ". What now?", ". How many are there?", "?", "?", ". And now?", " too.",
             ". How many is that?", ", how many now?", ". What is left?", ". How many are there then?", ", and now?",
             ". How many does that make?", ". Tell me how many.", ". So how many?")  # fmt: skip
OTHERS = ("Anna", "Tom")


def calculation(rng: random.Random, sign: str, right: int) -> str:
    """A wording out of a lead, a calculation and a tail."""
    kind = SPECIAL.get((sign, right), sign) if rng.random() < 0.8 else sign
    if rng.random() < 0.6:
        return rng.choice(LEADS) + rng.choice(VERBS[kind]) + rng.choice(TAILS)
    return rng.choice(THING_LEADS) + rng.choice(THINGS_DONE[kind]) + rng.choice(TAILS)


def happening(rng: random.Random, sign: str) -> str:
    """What happens next in a story, told in words put together: "Then she finds {b} more. How many now?"."""
    who = rng.choice(WHO)
    forms = rng.choice(stories.GAIN if sign == "+" else rng.choice((stories.LOSS, stories.EAT, stories.SPEND)))
    verb = forms[2] if rng.random() < 0.25 else forms[1 if who in ("I", "we", "they") else 0]
    verb = verb.replace("am given", "are given").replace("was given", "were given") if who in ("we", "they") else verb
    thing = rng.choice((*THINGS, *MORE_THINGS)) if rng.random() < 0.3 else ""
    more = rng.choice(("", " more", " new")) if sign == "+" else rng.choice(("", " of them", " of these"))
    amount = f"{{b}} {thing}" if thing else f"{{b}}{more}"
    lead = rng.choice(WHO_LEADS)
    return lead + who + " " + verb.format(m=rng.choice(OTHERS)) + " " + amount + rng.choice(WHO_TAILS)
