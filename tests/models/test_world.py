"""The small world: every sum is right, every function passes, and what is held out is never trained on."""

import random
import re
from collections import Counter

import pytest

from models.recipe.aside import FOLLOWS, SUMS, twelve_turns, written
from models.recipe.aside import is_right as is_right_aside
from models.recipe.run_checks import passes_checks
from models.recipe.sense import KINDS, asked, is_right
from models.recipe.world import (
    chains,
    everyday,
    facts,
    follow,
    functions,
    mix,
    outside,
    problems,
    stories,
    sums,
    talk,
)
from models.recipe.world.steps import calculate, is_direct, work_out

MANY = 1500
SIGNS = str.maketrans("x\u00d7\u00f7:", "**//")
EQUATION = re.compile(r"(\d+) ([-+x/]) (\d+) = (\d+)")
DRAWS = {
    "sums": sums.draw, "chains": chains.draw, "stories": stories.draw, "problems": problems.draw,
    "functions": functions.draw, "facts": facts.draw, "everyday": everyday.draw, "outside": outside.draw,
    "talk": talk.draw,
}  # fmt: skip


def evaluate(text: str) -> int:
    """A chain such as "23 + 45 - 6", or one product or quotient, by Python's own arithmetic."""
    value = eval(text.replace("x", "*"), {})
    assert value == int(value)
    return int(value)


def holds(code: str, name: str, checks: tuple[str, ...]) -> bool:
    """As `functions.passes`, where an error counts as wrong."""
    try:
        return functions.passes(code, name, checks)
    except TypeError:
        return False


@pytest.mark.parametrize("sign", ["+", "-", "x", "/"])
def test_every_sum_up_to_100_is_worked_out_in_right_steps(sign: str):
    seen = 0
    for left in range(101):
        for right in range(101):
            result = calculate(left, sign, right)
            if result is None:
                continue
            seen += 1
            equations = EQUATION.findall(work_out(left, sign, right))
            for a, op, b, c in equations:
                assert evaluate(f"{a} {op} {b}") == int(c)
                assert op == "/" or is_direct(int(a), op, int(b)) or int(a) % 10 == 0
            assert int(equations[-1][3]) == result
    assert seen > 60


def test_what_lies_outside_is_not_calculated():
    assert calculate(60, "+", 41) is None
    assert calculate(3, "-", 4) is None
    assert calculate(7, "/", 2) is None
    assert calculate(7, "/", 0) is None
    with pytest.raises(ValueError, match="outside"):
        work_out(60, "+", 41)


@pytest.mark.parametrize("part", ["train", "held-out"])
def test_every_equation_in_an_answer_is_right_and_leads_to_the_result(part: str):
    rng = random.Random(1)
    for draw in (sums.draw, chains.draw, stories.draw, problems.draw):
        for _ in range(MANY):
            item = draw(rng, part)
            for a, op, b, c in EQUATION.findall(item.answer):
                assert evaluate(f"{a} {op} {b}") == int(c), item
            assert item.answer.endswith(f"The answer is {item.check[0]}.")
            if EQUATION.search(item.answer):
                assert EQUATION.findall(item.answer)[-1][3] == item.check[0], item


def test_a_chain_of_signs_gives_what_python_gives():
    rng = random.Random(11)
    asked_for = 0
    for _ in range(MANY):
        item = chains.draw(rng, "train")
        found = re.search(r"\(?\d+( ?[-+x*/:\u00d7\u00f7] ?\d+\)?){2,}", item.question)
        if found and item.question.count("(") == found.group().count("("):
            asked_for += 1
            assert evaluate(found.group().translate(SIGNS)) == int(item.check[0]), item
    assert asked_for > MANY / 6


def test_a_story_tells_the_numbers_it_is_worked_out_with():
    rng = random.Random(12)
    words = {word: number for number, word in enumerate(sums.WORDS)}
    for _ in range(400):
        item = stories.draw(rng, "train")
        assert not re.search(r"[{}\[\]|]", item.question), item
        said = [word.lower() for word in re.findall(r"\w+", item.question)]
        told = [int(words.get(word, word)) for word in said if word.isdigit() or word in words]
        worked = [(int(a), op, int(b)) for a, op, b, _ in EQUATION.findall(item.answer)]
        assert told[0] == worked[0][0], item
        assert all(calculate(a, op, b) is not None for a, op, b in worked)


def test_a_follow_up_goes_on_from_the_last_number_or_function():
    rng = random.Random(13)
    for _ in range(600):
        first, then = follow.pair(rng, rng.choice(("train", "held-out")))
        if first.kind == "function":
            assert then.task == "qa" or holds(then.answer[10:-4], then.check[0], then.check[1:]), then
            continue
        last = first.check[0]
        equations = EQUATION.findall(then.answer)
        assert last in then.answer or then.check == (last,), (first, then)
        for a, op, b, c in equations:
            assert evaluate(f"{a} {op} {b}") == int(c)


def test_words_kept_aside_are_none_of_the_generator():
    rng = random.Random(14)

    def masked(text: str) -> str:
        return re.sub(r"\d+", "#", text).lower().strip(" ?.!")

    generated = {masked(item.question) for _ in range(3000) for item in mix.document(rng)}
    own = {masked(text) for talk in written() if talk.kind == "two" for text in talk.asked}
    own |= {masked(talk.asked[1]) for talk in written() if talk.kind == "follow"}
    own |= {masked(form.format(a=1, b=2)) for forms in (SUMS, FOLLOWS) for signs in forms.values() for form in signs}
    assert len(own) > 80
    assert not own & generated


def test_talks_kept_aside_want_what_is_right():
    for number in range(20):
        talk = twelve_turns(number)
        assert len(talk.asked) == len(talk.wanted) == 12
        assert talk.wanted[1].isdigit()
        assert talk.wanted[-1].isdigit()
    assert is_right_aside("7", "5 + 2 = 7. The answer is 7.")
    assert not is_right_aside("7", "5 + 12 = 17. The answer is 17.")
    assert is_right_aside("g: f([1]) == 1", "def g(x):\n    return x[0]")


def test_every_template_gives_problems_without_open_slots():
    rng = random.Random(4)
    for template in problems.templates():
        made = next(item for item in iter(lambda t=template: problems.item(t, rng), 0) if item)
        assert not re.search(r"[{}\[\]|]", made.question + made.answer), made
        assert made.question[-1] in "?."


@pytest.mark.parametrize("family", functions.families(), ids=lambda family: family.names[0])
def test_every_function_passes_its_checks_and_its_checks_can_fail(family: functions.Family):
    rng = random.Random(family.names[0])
    for _ in range(4):
        made = functions.item(family, rng)  # refuses what fails
        code = made.answer.removeprefix("```python\n").removesuffix("\n```")
        name = made.check[0]
        arguments = code.split("(", 1)[1].split(")", 1)[0]
        assert f"def {name}(" in code
        assert name in made.question
        assert not holds(f"def {name}({arguments}):\n    return None", name, made.check[1:])


def test_checks_run_in_a_process_that_ends():
    checks = ("f(2) == 4", "f(0) == 0")
    good = "Here you are:\n```python\ndef twice(n):\n    return n * 2\n```\nDone."
    assert passes_checks(good, "twice", checks)
    assert passes_checks("def twice(n):\n    return n + n", "twice", checks)
    assert not passes_checks(good, "thrice", checks)
    assert not passes_checks("def twice(n):\n    return n ** 2 + 1", "twice", checks)
    assert not passes_checks("def twice(n: return", "twice", checks)
    assert not passes_checks("def twice(n):\n    return [0] * 10 ** 10", "twice", checks)
    assert not passes_checks("def twice(n):\n    while True:\n        pass", "twice", checks)


def test_a_fact_names_what_a_right_answer_must_hold():
    for fact in facts.facts():
        assert fact.names
        assert all(name in fact.answer for name in fact.names)
        assert "[" not in fact.answer + fact.phrase
    assert len({(fact.kind, fact.phrase) for fact in facts.facts()}) == len(facts.facts())


def test_each_everyday_question_has_one_answer():
    known: dict[tuple[str, str], str] = {}
    for pair in everyday.pairs():
        for form in everyday.RELATIONS[pair.relation][0]:
            question = form.format(a=pair.left)
            assert known.setdefault((pair.relation, question), pair.right) == pair.right


@pytest.mark.parametrize("name", DRAWS)
def test_no_held_out_form_is_trained(name: str):
    rng = random.Random(5)
    train = [DRAWS[name](rng, "train") for _ in range(MANY)]
    held_out = [DRAWS[name](rng, "held-out") for _ in range(MANY)]
    assert not {item.question for item in train} & {item.question for item in held_out}
    assert len({item.question for item in held_out}) >= 20


def test_values_and_wordings_are_split():
    rng = random.Random(6)
    trained = [sums.plain(rng, "train") for _ in range(MANY)]
    for item in trained:
        pair = re.search(r"(\d+) ([-+]) (\d+)", item.question)
        assert pair is None or not sums.is_kept_out_pair(int(pair[1]), pair[2], int(pair[3]))
    forms = {item.form for item in (problems.draw(rng, "train") for _ in range(MANY))}
    assert not forms & {item.form for item in (problems.draw(rng, "held-out") for _ in range(MANY))}
    new = {item.form.split(":")[0] for item in (problems.draw(rng, "held-out", new_templates=True) for _ in range(200))}
    assert not new & {form.split(":")[0] for form in forms}
    assert new


def test_topics_from_outside_are_split_and_answered_honestly():
    rng = random.Random(7)
    for kind, topics in outside.topics().items():
        kept = [topic for topic in topics if outside.is_kept_out_topic(kind, topic)]
        assert 0 < len(kept) < len(topics) / 2, kind
    for part in ("train", "held-out"):
        for _ in range(300):
            item = outside.draw(rng, part)
            assert item.answer.startswith("I am a small demonstration model; I do not know that.")
            assert "{" not in item.question
    # What the world answers must not be called unknown.
    known = {pair.left for pair in everyday.pairs() if pair.relation == "capital"}
    assert not known & set(outside.topics()["country"])
    phrases = {fact.phrase for fact in facts.facts()}
    assert not phrases & {topic for topics in outside.topics().values() for topic in topics}


def test_documents_mix_topics_and_know_no_odd_characters():
    rng = random.Random(8)
    kinds = Counter()
    for _ in range(600):
        items = mix.document(rng)
        said = mix.messages(items)
        assert [message["role"] for message in said] == ["user", "assistant"] * len(items)
        assert all(set(re.findall(r"[^\x00-\x7f]", message["content"])) <= set("×÷") for message in said)
        kinds[len({item.kind for item in items}) > 1] += 1
    assert kinds[True] > 60
    assert kinds[False] > 60


def test_corpora_are_read_in_part_and_their_questions_answered_honestly():
    corpora = [
        {"id": f"{task}/{i}", "task": task, "messages": [
            {"role": "user", "content": f"Say something about {task} {i}?"}, {"role": "assistant", "content": "Text."}
        ]} for task in ("dialogue", "qa", "math") for i in range(200)
    ]  # fmt: skip
    records = list(mix.target_records(corpora, 50, seed=1))
    counts = Counter(record["id"].split("/")[0] for record in records)
    assert counts["world"] == 50
    assert 2 < counts["dialogue"] < 30
    assert 2 < counts["outside"] < 30
    assert counts["math"] == counts["qa"] == 0
    for record in records:
        if record["id"].startswith("outside/"):
            assert "I do not know that" in record["messages"][1]["content"]
    assert records == list(mix.target_records(corpora, 50, seed=1))


def test_the_sense_check_knows_right_from_wrong():
    for kind, draw in KINDS.items():
        for messages, item in asked(kind, draw, 12, seed=1):
            assert messages[-1] == {"role": "user", "content": item.question}
            assert len(messages) == (3 if kind in ("later", "follow_ups") else 1)
            assert is_right(item, item.answer), item
            assert not is_right(item, "I like trains. The answer is 7000."), item
