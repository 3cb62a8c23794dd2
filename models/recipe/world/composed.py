"""Follow-ups in words put together: what leads to a calculation, the calculation as a verb or as a thing, what ends it.

So that a model meets thousands of wordings and learns which of the words count. For training only: what is held out are
the fixed wordings of `follow`.
"""

import random

from . import stories
from .wordings import MORE_THINGS, THINGS, kinds

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
VERBS = kinds("composed", "VERBS")
THINGS_DONE = kinds("composed", "THINGS_DONE")
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
