"""Small Python functions from the families in functions.txt, with varied names, parameters and wordings.

Every function is run against the checks of its family before it is used. Held out are some wordings of the task, some
requests, and some pairs of the two.
"""

import random
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from .split import Item, Part, draw_until, is_kept_out
from .wordings import lines

PARAMETERS = {
    "L": ("numbers", "values", "items", "data", "entries"),
    "N": ("n", "number", "x", "value"),
    "S": ("text", "s", "string", "line"),
    "W": ("words", "names", "texts"),
    "D": ("table", "d", "mapping"),
    "C": ("letter", "c", "part"),
}
SECOND = {"L": "others", "N": "other"}  # the second parameter of a kind that occurs twice
REQUESTS = lines("functions", "REQUESTS")
PREFIXES = ("", "", "", "my_", "get_", "do_", "new_")


@dataclass(frozen=True)
class Family:
    names: tuple[str, ...]
    kinds: str  # of the parameters, a letter each
    tasks: tuple[str, ...]
    body: str
    checks: tuple[str, ...]


@cache
def families() -> tuple[Family, ...]:
    text = (Path(__file__).parent / "functions.txt").read_text(encoding="utf-8")
    return tuple(_family(block) for block in "\n".join(text.splitlines()[2:]).split("\n\n") if block.strip())


def _family(block: str) -> Family:
    head, *body, checks = block.strip("\n").splitlines()
    names, kinds, tasks = (field.strip() for field in head.split(" | "))
    if not checks.startswith(">>"):
        raise ValueError(f"the block of {names} ends in no checks")
    return Family(
        tuple(names.split()), kinds, tuple(task.strip() for task in tasks.split(" ; ")), "\n".join(body),
        tuple(check.strip() for check in checks[2:].split(" ;; ")),
    )  # fmt: skip


def parameters(family: Family, rng: random.Random) -> list[str]:
    first = rng.choice(PARAMETERS[family.kinds[0]])
    if len(family.kinds) == 1:
        return [first]
    kind = family.kinds[1]
    return [first, SECOND[kind] if kind == family.kinds[0] else rng.choice(PARAMETERS[kind])]


def passes(code: str, name: str, checks: tuple[str, ...]) -> bool:
    """Whether the code defines `name` and every check holds. Runs it here: for text of our own only."""
    space: dict[str, object] = {}
    exec(code, space)
    return all(eval(check, {"f": space[name]}) is True for check in checks)


def item(family: Family, rng: random.Random) -> Item:
    names = parameters(family, rng)
    k = rng.randint(2, 12)
    name = rng.choice(PREFIXES) + rng.choice(family.names)
    task = rng.choice(family.tasks)
    request = rng.choice(REQUESTS)
    body = family.body.format(x=names[0], y=names[-1], k=k)
    code = f"def {name}({', '.join(names)}):\n{body}"
    checks = tuple(f"(lambda k: {check})({k})" for check in family.checks)
    if not passes(code, name, checks):
        raise ValueError(f"a function of the family {family.names[0]} fails its checks:\n{code}")
    done = task.format(k=k)
    question = request.format(d=done, f=name)
    return Item("function", "code", f"{request}|{task}", question, f"```python\n{code}\n```", (name, *checks), done)


def is_kept_out_form(family: Family, form: str) -> bool:
    """A request, a wording of a task with a request, never a whole family: what it does must be seen."""
    request, task = form.split("|", 1)
    return is_kept_out(f"request {request}", 14) or is_kept_out(f"{request} {task}")


def draw(rng: random.Random, part: Part) -> Item:
    def make() -> Item | None:
        family = rng.choice(families())
        made = item(family, rng)
        return made if is_kept_out_form(family, made.form) == (part == "held-out") else None

    return draw_until(make)
