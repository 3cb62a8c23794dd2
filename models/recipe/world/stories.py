"""Stories in which a number grows and shrinks: "I have 5 apples, eat 2 and buy 4. How many do I have now?"

Composed from openings, events and questions, so that a model meets thousands of wordings; the fixed templates are in
`problems`. Held out are some combinations of these, and pairs of numbers.
"""

import random
from dataclasses import dataclass

from .split import Item, Part, choose, draw_until, is_kept_out
from .steps import calculate, labelled
from .sums import addends, in_words, is_kept_out_pair
from .words import COLOURS, GOODS, HE, PLACES, SHE, THINGS, words

FOOD = words("cookies apples pears muffins rolls plums cherries eggs peaches sandwiches oranges carrots lemons")
LIVING = words("birds ducks children people guests boys girls cats dogs sheep cows horses fish frogs players students "
               "visitors rabbits mice hens")  # fmt: skip

# Each verb as it stands behind he or she, behind I, and in the past.
GAIN = (("buys", "buy", "bought"), ("gets", "get", "got"), ("finds", "find", "found"), ("picks", "pick", "picked"),
        ("wins", "win", "won"), ("collects", "collect", "collected"), ("receives", "receive", "received"),
        ("makes", "make", "made"), ("is given", "am given", "was given"), ("adds", "add", "added"),
        ("borrows", "borrow", "borrowed"), ("brings", "bring", "brought"), ("earns", "earn", "earned"),
        ("gathers", "gather", "gathered"), ("takes home", "take home", "took home"))  # fmt: skip
LOSS = (("gives away", "give away", "gave away"), ("loses", "lose", "lost"), ("sells", "sell", "sold"),
        ("breaks", "break", "broke"), ("drops", "drop", "dropped"), ("throws away", "throw away", "threw away"),
        ("uses", "use", "used"), ("gives {m}", "give {m}", "gave {m}"), ("hands out", "hand out", "handed out"),
        ("lends {m}", "lend {m}", "lent {m}"), ("uses up", "use up", "used up"), ("returns", "return", "returned"),
        ("leaves behind", "leave behind", "left behind"))  # fmt: skip
EAT = (("eats", "eat", "ate"), ("eats", "eat", "ate"), ("eats up", "eat up", "ate up"), ("cooks", "cook", "cooked"))
SPEND = (("spends", "spend", "spent"), ("pays", "pay", "paid"), ("loses", "lose", "lost"))
MORE = ("{b} more", "{b} more {t}", "another {b}", "{b}", "{b} {t}", "{b} new {t}", "{b} others", "another {b} {t}")
FEWER = ("{b}", "{b} of them", "{b} {t}", "{b} of the {t}", "{b} of these")
OTHERS_GAIN = ("{m} [gives|brings|hands] {o} {b}[ more| {t}| more {t}|]", "{o2} [gets|receives] {b} [more |]from {m}",
               "{m} adds {b}[ more|]", "{b} more [come|are added]")  # fmt: skip
OTHERS_LOSE = ("{m} [takes|borrows|steals|breaks|wants] {b}[ of them| {t}|]",
               "{b} [get lost|break|are gone|go missing]",
               "{b} [of them |of the {t} |][are given away|are sold|are lost|are taken]")  # fmt: skip
ARRIVE = ("{b} more [come|arrive|join|join them|show up]", "{b} [join them|come along|arrive|come back|come in]",
          "another {b} [come|arrive|join]", "{b} other {t} [come|arrive|join them]")  # fmt: skip
LEAVE = ("{b} [leave|go home|go away|run away|walk away|go|are gone]", "{b} of them [leave|go home|run off|go away]",
         "{b} {t} [leave|go away|go home]")  # fmt: skip
STARTS = {
    "person": ("{n} [has|had|owns|starts with|has got|bought|gets|collected|found|picked|got] {a} {t}",
               "{n} has {a} {t} in a [box|bag|basket|jar|drawer]", "{n} has {a} {c} {t}",
               "At first {n} has {a} {t}", "In the morning {n} has {a} {t}"),
    "I": ("I [have|had|own|start with|bought|found|picked|got|have got] {a} {t}", "I have {a} {t} in my [bag|box|room]",
          "I have {a} {c} {t}", "My [mother|father|friend|sister] gave me {a} {t}"),
    "place": ("There are {a} {t} [in|on] a [box|table|shelf|bag|basket|plate]", "A [box|bag|basket|jar|shop|shelf] "
              "[has|holds|contains] {a} {t}", "{a} {t} are [on the table|in the box|in a bag|on the shelf]",
              "In a [box|bag|basket|drawer] there are {a} {t}", "There [are|were] {a} {t}[ in the {p}|]"),
    "living": ("There are {a} {t} [in|at] the {p}", "{a} {t} [are|sit|stand|play|wait] in the {p}",
               "There [are|were] {a} {t}", "{a} {t} are there", "In the {p} there are {a} {t}", "I see {a} {t}"),
    "money": ("{n} [has|had|saved|earned|starts with|owns] {a} dollars", "{n} has {a} dollars in [a purse|the bank]"),
}  # fmt: skip
JOINS = (" and ", ", ", ". Then {o2} ", ". {O2} ", " and then ", ", then ", ". Later {o2} ", ". After that, {o2} ",
         ". Next {o2} ", " but ", ". Now {o2} ", ". Today {o2} ")  # fmt: skip
SENTENCES = (". ", ". Then ", ". Later ", ". Now ", " and ", ", then ", ", ", ". After that ", " and then ")
ASK = {
    "person": ("How many {t} does {n} have[ now| then| in the end| at the end| after that|]?",
               "How many does {n} have[ now| then|]?", "How many {t} does {o2} have now?", "How many {t} is that?",
               "How many does {o2} [have|own|end up with]?", "What does {n} have now?",
               "With how many {t} does {n} end up?", "How many {t} are there[ now|]?", "How many now?"),
    "I": ("How many {t} do I have[ now| then| in the end| at the end| after that|]?", "How many do I have[ now|]?",
          "How many {t} is that?", "What do I have now?", "How many now?", "How many do I end up with?"),
    "place": ("How many {t} are there[ now| then| in the end|]?", "How many are there now?", "How many are in it now?",
              "How many {t} is that?", "How many now?", "What is the number of {t} now?"),
    "living": ("How many {t} are there[ now| then| in the end|]?", "How many are there[ now|]?", "How many {t} now?",
               "How many are in the {p} now?", "How many {t} do I see now?"),
    "money": ("How much [money |]does {n} have[ now| then| in the end|]?", "How many dollars does {n} have[ now|]?",
              "How much is that?", "How much money is there now?", "How much does {o2} have now?"),
}  # fmt: skip
ASK_LEFT = {
    "person": ("How many {t} [are left|remain|does {n} have left|does {o2} have left|does {n} still have]?",
               "How many [are left|remain|does {o2} keep|are left over]?", "How many {t} are still there?"),
    "I": ("How many {t} [are left|remain|do I have left|do I still have]?", "How many [are left|remain|do I keep]?",
          "What is left?"),
    "place": ("How many {t} [are left|remain|are still there]?", "How many [are left|remain|are still in it]?"),
    "living": ("How many {t} [are left|remain|stay|are still there]?", "How many [are left|stay|remain]?"),
    "money": ("How much [money |][is left|remains|does {n} have left|does {o2} still have]?",
              "How many dollars [are left|remain|does {n} have left]?"),
}  # fmt: skip
SHARE = ("[shares|divides|splits] [them|the rest|what is left|all of them] [equally |evenly |][among|between|with] {b} "
         "[friends|children|people]")  # fmt: skip
ASK_SHARE = ("How many does each [get|one get|friend get|child get]?", "How many {t} does each get?",
             "How many {t} are there for each?", "How many are for each[ one|]?")  # fmt: skip


@dataclass(frozen=True)
class Story:
    """The words of one story: who, what, and the kind of verbs that fit."""

    kind: str  # person, I, place, living, money
    slots: dict[str, str]
    past: bool

    def verb(self, forms: tuple[str, str, str]) -> str:
        return forms[2] if self.past else forms[1 if self.kind == "I" else 0]


def new_story(rng: random.Random) -> Story:
    kind = rng.choices(("person", "I", "place", "living", "money"), (10, 6, 3, 4, 2))[0]
    is_she = rng.random() < 0.5
    name, other = rng.choice(SHE if is_she else HE), rng.choice(SHE + HE)
    things = {"living": LIVING, "money": ("dollars",)}.get(kind, FOOD if rng.random() < 0.35 else THINGS)
    he, him = ("I", "me") if kind == "I" else ("she", "her") if is_she else ("he", "him")
    slots = {"n": name, "m": other if other != name else "Kim", "o": him, "o2": he, "O2": he[0].upper() + he[1:],
             "t": rng.choice(things), "c": rng.choice(COLOURS), "p": rng.choice(PLACES)}  # fmt: skip
    return Story(kind, slots, rng.random() < 0.25)


def event(rng: random.Random, story: Story, sign: str) -> tuple[str, bool]:
    """What happens, with {b} for the number, and whether its subject is the story's own."""
    if story.kind == "living":
        return rng.choice(ARRIVE if sign == "+" else LEAVE), False
    if story.kind == "place" or (rng.random() < 0.15 and story.kind != "money"):
        return rng.choice(OTHERS_GAIN[0 if story.kind != "place" else 2 :] if sign == "+" else OTHERS_LOSE), False
    eats = story.slots["t"] in FOOD and rng.random() < 0.5
    lost = SPEND if story.kind == "money" else EAT if eats else LOSS
    amounts: tuple[str, ...] = MORE if sign == "+" else FEWER
    if story.kind == "money":
        amounts = ("{b} dollars", "{b} dollars more" if sign == "+" else "{b} of them", "{b}")
    behind = f" for a {rng.choice(sorted(GOODS))}" if lost is SPEND and sign == "-" and rng.random() < 0.4 else ""
    return f"{story.verb(rng.choice(GAIN if sign == '+' else lost))} {rng.choice(amounts)}{behind}", True


def joined(rng: random.Random, story: Story, sign: str) -> tuple[str, str]:
    """An event with what joins it to the text before, and its wording."""
    what, own = event(rng, story, sign)
    return rng.choice(JOINS if own else SENTENCES) + what, what


def make_steps(rng: random.Random, count: int) -> list[tuple[int, str, int]] | None:
    small = rng.random() < 0.6
    left = rng.randint(2, 20) if small else rng.randint(5, 99)
    done = []
    for _ in range(count):
        sign, right = rng.choice("+-"), rng.randint(1, 10) if small else max(1, addends(rng)[1])
        result = calculate(left, sign, right)
        if not result:
            return None
        done.append((left, sign, right))
        left = result
    return done


def shared(rng: random.Random, left: int) -> tuple[int, str, int] | None:
    among = rng.randint(2, 6)
    return (left, "/", among) if calculate(left, "/", among) else None


def label(story: Story, sign: str) -> str:
    return f"{story.slots['t']} {'now' if sign == '+' else 'left' if sign == '-' else 'for each'}"


def tell(rng: random.Random, story: Story, done: list[tuple[int, str, int]]) -> tuple[str, str]:
    """The question and its wording; the numbers are those of the steps."""
    start = rng.choice(STARTS[story.kind])
    text, form = choose(start, rng)[0].format(a=in_words(done[0][0], rng), **story.slots), start
    for _, sign, right in done:
        what, wording = (f". {story.slots['O2']} {SHARE}", SHARE) if sign == "/" else joined(rng, story, sign)
        if sign == "/" and story.kind == "I":
            what = what.replace("[shares|divides|splits]", "[share|divide|split]")
        slots = {**story.slots, "b": in_words(right, rng)}
        text += choose(what.format(**slots), rng)[0].format(**slots)
        form += "|" + wording
    last = done[-1][1]
    asks = ASK_SHARE if last == "/" else ASK_LEFT[story.kind] if last == "-" and rng.random() < 0.6 else ASK[story.kind]
    ask = rng.choice(asks)
    return f"{_sentences(text)}. {choose(ask.format(**story.slots), rng)[0]}", f"{form}|{ask}"


def _sentences(text: str) -> str:
    """The text with a capital at the beginning of each sentence."""
    return ". ".join(part[0].upper() + part[1:] for part in text.split(". "))


def draw(rng: random.Random, part: Part) -> Item:
    def make() -> Item | None:
        story = new_story(rng)
        done = make_steps(rng, rng.choices((1, 2, 3), (4, 6, 1))[0])
        if done is None:
            return None
        if story.kind in ("person", "I") and rng.random() < 0.1:
            step = shared(rng, calculate(*done[-1]) or 0)
            done = [*done, step] if step else done
        question, form = tell(rng, story, done)
        kept_out = any(is_kept_out_pair(*step) for step in done) or is_kept_out(form)
        if kept_out != (part == "held-out"):
            return None
        lines = [labelled(label(story, step[1]), *step) for step in done]
        result = str(calculate(*done[-1]))
        return Item("story", "math", form, question, " ".join([*lines, f"The answer is {result}."]), (result,))

    return draw_until(make)
