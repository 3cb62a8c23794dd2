"""Drawn pictures and questions about them: shapes, numbers and bars, with the answer that a careful eye would give.

Knows PIL and words; nothing of models.
"""

import random
from dataclasses import dataclass
from functools import cache

import numpy as np
from PIL import Image, ImageDraw, ImageFont

SIDE = 64  # pixels of a finished picture
SCALE = 4  # drawn so many times larger, so that edges are smooth
COLOURS = {
    "red": (214, 40, 40), "green": (38, 140, 60), "blue": (40, 80, 210), "yellow": (240, 200, 30),
    "black": (25, 25, 25), "purple": (140, 50, 160),
}  # fmt: skip
SHAPES = ("circle", "square", "triangle", "cross")
WORDS = ("no", "one", "two", "three", "four")
PAPER = ((255, 255, 255), (244, 240, 230), (232, 238, 244))
# Kinds of each label of a drawing: what it shows; of each quarter the shape and the colour; both digits; of bars the
# highest's and the lowest's colour, and how many there are. 0: nothing of the sort.
LABELS = (3, *(len(SHAPES) + 1,) * 4, *(len(COLOURS) + 1,) * 4, 11, 11, len(COLOURS) + 1, len(COLOURS) + 1, 5)
DESCRIBE = ("What is in the picture?", "Describe the picture.", "What do you see?", "What does the picture show?",
            "What is this?", "Tell me what you see.")  # fmt: skip


@dataclass(frozen=True)
class Asked:
    """A question about a picture, its answer, and the kind it is counted under."""

    kind: str
    question: str
    answer: str


@dataclass(frozen=True)
class Thing:
    """A shape in one of the four quarters of a picture."""

    shape: str
    colour: str
    column: int
    row: int

    @property
    def name(self) -> str:
        return f"{self.colour} {self.shape}"


@dataclass(frozen=True)
class Drawing:
    """pixels: (SIDE, SIDE, 3) uint8; asked: questions that can be put, the description first; labels: see LABELS."""

    pixels: np.ndarray
    asked: tuple[Asked, ...]
    labels: tuple[int, ...]


def draw(rng: random.Random) -> Drawing:
    return rng.choices((_shapes, _number, _bars), (6, 3, 1))[0](rng)


def _canvas(rng: random.Random) -> tuple[Image.Image, ImageDraw.ImageDraw]:
    image = Image.new("RGB", (SIDE * SCALE, SIDE * SCALE), rng.choice(PAPER))
    return image, ImageDraw.Draw(image)


def _finished(image: Image.Image, asked: list[Asked], kind: int, labels: dict[int, int]) -> Drawing:
    """labels: those that are not 0, by their place."""
    pixels = np.array(image.resize((SIDE, SIDE), Image.Resampling.BOX))
    return Drawing(pixels, tuple(asked), tuple({0: kind, **labels}.get(place, 0) for place in range(len(LABELS))))


def _shapes(rng: random.Random) -> Drawing:
    image, pen = _canvas(rng)
    places = sorted(rng.sample([(0, 0), (0, 1), (1, 0), (1, 1)], rng.choice((1, 2, 2, 2, 3, 4))))
    few = rng.sample(SHAPES, rng.randint(1, 3))  # so that several are alike often enough
    things = [Thing(rng.choice(few), rng.choice(list(COLOURS)), column, row) for row, column in places]
    for thing in things:
        _place(pen, thing, rng)
    shapes = {1 + 2 * thing.row + thing.column: 1 + SHAPES.index(thing.shape) for thing in things}
    colours = {5 + 2 * thing.row + thing.column: _colour(thing.colour) for thing in things}
    return _finished(image, _about_shapes(rng, things), 0, shapes | colours)


def _colour(name: str) -> int:
    return 1 + list(COLOURS).index(name)


def _place(pen: ImageDraw.ImageDraw, thing: Thing, rng: random.Random) -> None:
    half = SIDE * SCALE // 2
    size = rng.randint(half * 5 // 10, half * 8 // 10)
    left = thing.column * half + rng.randint(4, half - size - 4)
    top = thing.row * half + rng.randint(4, half - size - 4)
    box = (left, top, left + size, top + size)
    colour = COLOURS[thing.colour]
    if thing.shape == "circle":
        pen.ellipse(box, fill=colour)
    elif thing.shape == "square":
        pen.rectangle(box, fill=colour)
    elif thing.shape == "triangle":
        pen.polygon([(left, top + size), (left + size, top + size), (left + size // 2, top)], fill=colour)
    else:
        third = size // 3
        pen.rectangle((left + third, top, left + size - third, top + size), fill=colour)
        pen.rectangle((left, top + third, left + size, top + size - third), fill=colour)


def _about_shapes(rng: random.Random, things: list[Thing]) -> list[Asked]:
    asked = [Asked("description", rng.choice(DESCRIBE), f"{_listed([f'a {thing.name}' for thing in things])}.")]
    asked += [_how_many(rng, things), _is_there(rng, things)]
    shapes, colours = [thing.shape for thing in things], [thing.colour for thing in things]
    for thing in things:
        if shapes.count(thing.shape) == 1:
            form = rng.choice(("What colour is the {}?", "Which colour does the {} have?", "What color is the {}?"))
            asked.append(Asked("colour", form.format(thing.shape), f"The {thing.shape} is {thing.colour}."))
        if colours.count(thing.colour) == 1:
            form = rng.choice(("Which shape is {}?", "What is {}?", "Which one is {}?"))
            asked.append(Asked("shape", form.format(thing.colour), f"The {thing.shape} is {thing.colour}."))
    asked += _sides(rng, things)
    return asked


def _how_many(rng: random.Random, things: list[Thing]) -> Asked:
    if rng.random() < 0.3:
        form = rng.choice(("How many shapes are there?", "How many shapes do you see?", "Count the shapes."))
        return Asked("count", form, _counted(len(things), "shape"))
    shape = rng.choice((*SHAPES, *[thing.shape for thing in things]))
    form = rng.choice(("How many {}s are there?", "How many {}s do you see?", "Count the {}s."))
    number = sum(thing.shape == shape for thing in things)
    return Asked("count", form.format(_plural(shape)[:-1]), _counted(number, shape))


def _counted(number: int, noun: str) -> str:
    if number == 1:
        return f"There is one {noun}."
    return f"There are {WORDS[number]} {_plural(noun)}."


def _plural(noun: str) -> str:
    return f"{noun}es" if noun.endswith("s") else f"{noun}s"


def _is_there(rng: random.Random, things: list[Thing]) -> Asked:
    thing = rng.choice(things)
    name = thing.name if rng.random() < 0.5 else f"{rng.choice(list(COLOURS))} {rng.choice(SHAPES)}"
    form = rng.choice(("Is there a {}?", "Do you see a {}?"))
    yes = any(thing.name == name for thing in things)
    return Asked("presence", form.format(name), f"Yes, there is a {name}." if yes else f"No, there is no {name}.")


def _sides(rng: random.Random, things: list[Thing]) -> list[Asked]:
    """Where two shapes stand to each other, if there are just two, beside or above each other."""
    if len(things) != 2 or things[0].name == things[1].name:
        return []
    first, second = rng.sample(things, 2)
    asked = []
    if first.column != second.column:
        side = "left" if first.column < second.column else "right"
        question = f"Is the {first.name} left or right of the {second.name}?"
        asked.append(Asked("place", question, f"It is on the {side}."))
    if first.row != second.row:
        side = "above" if first.row < second.row else "below"
        question = f"Is the {first.name} above or below the {second.name}?"
        asked.append(Asked("place", question, f"It is {side}."))
    return asked


def _listed(names: list[str]) -> str:
    text = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
    return text[0].upper() + text[1:]


@cache
def _font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(size)


def _number(rng: random.Random) -> Drawing:
    image, pen = _canvas(rng)
    number, colour = rng.randint(0, 99), rng.choice(list(COLOURS))
    middle = SIDE * SCALE // 2
    at = (middle + rng.randint(-20, 20), middle + rng.randint(-24, 24))
    pen.text(at, str(number), fill=COLOURS[colour], font=_font(rng.randint(130, 170)), anchor="mm")
    forms = ("Which number is it?", "What number is written there?", "Which number do you see?", "Read the number.")
    asked = [Asked("description", rng.choice(DESCRIBE), f"The number {number} in {colour}.")]
    asked.append(Asked("number", rng.choice(forms), f"The number is {number}."))
    asked.append(Asked("colour", rng.choice(("What colour is the number?", "What color is it?")), f"It is {colour}."))
    return _finished(
        image, asked, 1, {9: 1 + number // 10 if number > 9 else 0, 10: 1 + number % 10, 5: _colour(colour)}
    )


def _bars(rng: random.Random) -> Drawing:
    image, pen = _canvas(rng)
    colours = rng.sample(list(COLOURS), rng.randint(2, 4))
    heights = rng.sample(range(2, 11), len(colours))  # tenths of the picture's height, all different
    whole = SIDE * SCALE
    step = whole // (len(colours) + 1)
    for place, (colour, height) in enumerate(zip(colours, heights, strict=True)):
        left = step // 2 + place * step + step // 8
        pen.rectangle((left, whole * (21 - 2 * height) // 21, left + step * 3 // 4, whole - 8), fill=COLOURS[colour])
    ordered = sorted(zip(heights, colours, strict=True))
    asked = [Asked("description", rng.choice(DESCRIBE), f"A chart with {WORDS[len(colours)]} bars.")]
    for word, colour in (("highest", ordered[-1][1]), ("lowest", ordered[0][1])):
        form = rng.choice(("Which bar is the {}?", "What colour is the {} bar?", "Which is the {} bar?"))
        asked.append(Asked("bars", form.format(word), f"The {colour} bar is the {word}."))
    asked.append(Asked("count", "How many bars are there?", f"There are {WORDS[len(colours)]} bars."))
    ends = {11: _colour(ordered[-1][1]), 12: _colour(ordered[0][1])}
    return _finished(image, asked, 2, {**ends, 13: len(colours)})
