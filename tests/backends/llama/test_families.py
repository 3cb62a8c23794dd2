"""The chat formats of the big families render, and the next turn keeps every id that the format lets it keep."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnidraft.backends.prompting.prompt import prompt_ids
from omnidraft.backends.prompting.templates import ChatTemplate
from omnidraft.decoding.prefill import common_prefix
from omnidraft.vocab import Vocabulary
from tests.backends.families import FAMILIES, Family, build

FIRST = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi there"}]
ANSWERS = ("Hello! What can I do?", "Naïve 中文 ✓ 2+2=4\n\n- done")


class Model:
    """One family's template and vocabulary."""

    def __init__(self, family: Family, folder: Path) -> None:
        self.family = family
        self.template: ChatTemplate
        self.vocabulary: Vocabulary
        self.template, self.vocabulary = build(family, folder)
        self._texts = {id: text for text, id in self.vocabulary.controls.items()}

    def text(self, ids: list[int]) -> str:
        pieces = self.vocabulary.pieces
        return b"".join(self._texts[i].encode() if i in self._texts else pieces[i] for i in ids).decode()

    def rendered(self, messages: list[dict]) -> str:
        return "".join(span.text for span in self.template.render(messages))

    def prompt(self, messages: list[dict], committed: list[int]) -> list[int]:
        return prompt_ids(self.template, self.vocabulary, messages, committed)

    def generate(self, text: str) -> list[int]:
        """Ids as a model might draw them: every character on its own, then the end of the turn."""
        ids = [id for character in text for id in self.vocabulary.encode(character)]
        return [*ids, self.vocabulary.eos]


@pytest.fixture(params=FAMILIES)
def model(request: pytest.FixtureRequest, tmp_path: Path) -> Model:
    return Model(FAMILIES[request.param], tmp_path / "family")


def without_spaces(text: str) -> str:
    """SentencePiece spells a run behind a control token with a space more."""
    return "".join(text.split())


def test_the_first_prompt_is_in_the_familys_format(model: Model):
    assert model.template.note is None
    assert model.rendered(FIRST) == model.family.expected
    ids = model.prompt(FIRST, [])
    assert without_spaces(model.text(ids)) == without_spaces(model.family.expected)
    bos = model.vocabulary.bos
    assert ids.count(bos) == (0 if model.family.bos is None else 1)
    assert model.text([model.vocabulary.eos]) == model.family.eos
    assert model.vocabulary.eos in model.vocabulary.eog


@pytest.mark.parametrize("system", [True, False])
def test_the_next_turns_keep_what_was_committed(model: Model, system: bool):
    messages = FIRST if system else FIRST[1:]
    committed: list[int] = []
    for answer in ANSWERS:
        prompt = model.prompt(messages, committed)
        assert prompt[: len(committed)] == committed or model.family.rewrites
        committed = [*prompt, *model.generate(model.template.answer_prefix + answer)]
        messages = [*messages, {"role": "assistant", "content": answer}, {"role": "user", "content": "And then?"}]
        following = model.prompt(messages, committed)
        assert without_spaces(model.text(following)) == without_spaces(model.rendered(messages))
        kept = common_prefix(committed, following)
        moves = model.family is FAMILIES["mistral"] and system
        assert (kept == len(committed)) or moves
        assert kept > 0


@pytest.mark.parametrize("name", ["qwen 3", "deepseek"])
def test_thoughts_of_earlier_turns_are_dropped_and_the_rest_kept(name: str, tmp_path: Path):
    model = Model(FAMILIES[name], tmp_path / "family")
    prompt = model.prompt(FIRST, [])
    answer = "<think>\nThey greet me.\n</think>\n\nHello!"
    committed = [*prompt, *model.generate(answer)]
    messages = [*FIRST, {"role": "assistant", "content": answer}, {"role": "user", "content": "And then?"}]
    following = model.prompt(messages, committed)
    assert "They greet me" not in model.text(following)
    assert "Hello!" in model.text(following)
    assert model.text(following) == model.rendered(messages)
    # everything up to the generation prompt stays in the cache; what follows is read again
    assert common_prefix(committed, following) >= len(prompt) - len(model.vocabulary.encode("assistant\n"))


def test_typed_control_strings_stay_text_in_every_family(model: Model):
    typed = " and ".join(model.family.controls)
    ids = model.prompt([{"role": "user", "content": typed}], [])
    plain = model.prompt([{"role": "user", "content": "x"}], [])
    controls = set(model.vocabulary.controls.values())
    assert [i for i in ids if i in controls] == [i for i in plain if i in controls]
    assert without_spaces(typed) in without_spaces(model.text(ids))


def test_families_that_refuse_a_system_role_or_the_order_of_roles_still_get_the_words(tmp_path: Path):
    for name in ("gemma", "mistral"):
        model = Model(FAMILIES[name], tmp_path / name)
        messages = [*FIRST, {"role": "user", "content": "Are you there?"}]
        rendered = model.rendered(messages)
        for message in messages:
            assert message["content"] in rendered
