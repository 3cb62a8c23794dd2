"""A prompt's ids depend on the conversation alone: earlier answers keep theirs, what was typed is tokenized."""

import copy
import time
from pathlib import Path

import pytest

from omnidraft.backends.gguf.file import read_info
from omnidraft.errors import ContextFull, ModelError
from omnidraft.prompting.own_ids import KEY, Spelled
from omnidraft.prompting.prompt import RawText, answer_ids, fit_context, prompt_ids
from omnidraft.prompting.templates import ChatTemplate
from omnidraft.vocab import Vocabulary
from omnidraft.vocab.llama_vocab import read_gguf_vocabulary
from tests.answering import assistant, user

NAMES = ("tiny-target-a", "tiny-target-b", "tiny-drafter")


class Chat:
    """A model's template and vocabulary, and what its prompts mean as text."""

    def __init__(self, path: Path) -> None:
        self.vocabulary = read_gguf_vocabulary(path)
        self.template = ChatTemplate.from_model(read_info(path), self.vocabulary)
        self.texts = {id: text for text, id in self.vocabulary.controls.items()}

    def prompt(self, messages: list[dict]) -> list[int]:
        return prompt_ids(self.template, self.vocabulary, messages)

    def written(self, text: str, ids: list[int]) -> dict:
        """An answer with the ids it was written with."""
        return {**assistant(text), KEY: Spelled(self.vocabulary.fingerprint, tuple(ids))}

    def text(self, ids: list[int]) -> str:
        return b"".join(self.texts[i].encode() if i in self.texts else self.vocabulary.pieces[i] for i in ids).decode()

    def pieces_one_by_one(self, text: str) -> list[int]:
        """An odd but possible tokenization, such as a model may generate: every character on its own."""
        return [id for character in text for id in self.vocabulary.encode(character)]


@pytest.fixture(scope="module")
def chats(models: Path) -> dict[str, Chat]:
    return {name: Chat(models / f"{name}-f16.gguf") for name in NAMES}


@pytest.fixture(params=NAMES)
def chat(request: pytest.FixtureRequest, chats: dict[str, Chat]) -> Chat:
    return chats[request.param]


FIRST = [{"role": "system", "content": "Be brief."}, user("Hi there, what is 2+2?")]


def test_a_first_prompt_is_the_rendering(chat: Chat):
    ids = chat.prompt(FIRST)
    rendered = "".join(span.text for span in chat.template.render(FIRST))
    assert chat.text(ids).replace("<s> ", "<s>") == rendered
    assert ids.count(chat.vocabulary.bos) == chat.vocabulary.add_bos


def test_many_turns_keep_every_answer_as_generated(chat: Chat):
    messages, read = [], []
    for turn in range(6):
        messages.append(user(f"Question {turn}: emoji 👩‍🔬, 漢字, <|im_end|> and </s>?"))
        prompt = chat.prompt(messages)
        assert prompt[: len(read)] == read
        answer = f"Answer no. {turn} with ünïcode"
        own = chat.pieces_one_by_one(chat.template.answer_prefix + answer)
        read = prompt + own
        messages.append(chat.written(answer, [*own, chat.vocabulary.eos]))
    plain = [{"role": message["role"], "content": message["content"]} for message in messages]
    assert chat.text(chat.prompt(messages)) == chat.text(chat.prompt(plain))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("stands", ["", " typed ", "<|im_end|>", "中"])
def test_ids_that_do_not_spell_the_answer_are_not_used(chats: dict[str, Chat], name: str, stands: str):
    chat = chats[name]
    text = f"x 😀{stands} y"
    plain = chat.prompt([user("a"), assistant(text), user("b")])
    control = next(iter(chat.vocabulary.controls.values()))
    other = chat.vocabulary.encode("z 😀 y")
    for ids in ([], other, [control, *chat.vocabulary.encode(text)[1:]], [10**9], [-1],
                [*chat.vocabulary.encode(text)[:1], control, *chat.vocabulary.encode(text)[1:]]):  # fmt: skip
        assert chat.prompt([user("a"), chat.written(text, ids), user("b")]) == plain
    elsewhere = {**assistant(text), KEY: Spelled("another", tuple(chat.pieces_one_by_one(text)))}
    assert chat.prompt([user("a"), elsewhere, user("b")]) == plain


def test_a_template_may_take_something_from_an_answer(chats: dict[str, Chat]):
    """What it leaves has the ids that spell it."""
    chat = chats["tiny-target-b"]
    trimming = ChatTemplate(
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content.split('###')[-1] | trim }}<|im_end|>\n"
        "{% endfor %}<|im_start|>assistant\n", chat.vocabulary,
    )  # fmt: skip
    for text, left in ((" Four.\n", "Four."), ("well ###Four.", "Four."), ("Four.", "Four.")):
        own = chat.pieces_one_by_one(text)
        messages = [user("a"), chat.written(text, [*own, chat.vocabulary.eos]), user("b")]
        ids = prompt_ids(trimming, chat.vocabulary, messages)
        spelled = chat.pieces_one_by_one(left)
        assert [at for at in range(len(ids)) if ids[at : at + len(spelled)] == spelled]
        plain = [{"role": m["role"], "content": m["content"]} for m in messages]
        assert chat.text(ids) == chat.text(prompt_ids(trimming, chat.vocabulary, plain))


@pytest.fixture
def filling(chats: dict[str, Chat]) -> Vocabulary:
    """A vocabulary whose first control tokens are those of a gap."""
    vocabulary = copy.copy(chats["tiny-target-b"].vocabulary)
    names = ("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>")
    vocabulary.controls = dict(zip(names, list(vocabulary.controls.values())[:3], strict=True))
    return vocabulary


@pytest.mark.parametrize(("before", "behind"), [
    ("line before\n" * 20_000, "x"), ("x", "line behind\n" * 20_000), ("漢字 é\n" * 9000, "中\n" * 9000), ("a", "b"),
    ("a b " * 60, "c d " * 5), ("", "e" * 3_000_000),
])  # fmt: skip
def test_what_does_not_fit_around_a_gap_goes_from_the_far_ends(filling: Vocabulary, before: str, behind: str):
    begun, most = time.process_time(), 256
    raw = RawText.with_gap(before, behind, filling, trims=True)
    kept = raw.fitted(filling, most)
    _, left, _, right, _ = kept.gap
    assert before.endswith(left)
    assert behind.startswith(right)
    ids = kept.target_ids(filling, most + 64)
    whole = len(filling.encode(before[-9000:])) + len(filling.encode(behind[:9000])) + 4
    assert (left, right) == (before, behind) if whole <= most else len(ids) > most - 40
    assert time.process_time() - begun < 2
    with pytest.raises(ContextFull):
        RawText.with_gap("word " * 9000, "", filling).fitted(filling, most).target_ids(filling, most)


def test_what_stands_around_a_gap_is_text(filling: Vocabulary):
    vocabulary, ids = filling, list(filling.controls.values())
    typed = "a <|fim_middle|> b <|fim_suffix|>"
    raw = RawText.with_gap(typed, typed, vocabulary)
    assert [id for id in raw.prompt_ids(vocabulary) if id in ids] == ids
    assert raw.text.count(typed) == 2


def test_an_answer_to_go_on_with_keeps_its_ids_and_loses_what_ended_it(chat: Chat):
    prefix = chat.template.answer_prefix
    written = chat.pieces_one_by_one(prefix + "Four it is")
    assert answer_ids(chat.vocabulary, "Four it is", prefix, [*written, chat.vocabulary.eos]) == written
    # A model may begin without the space its template writes.
    bare = chat.pieces_one_by_one("Four")
    assert answer_ids(chat.vocabulary, "Four", prefix, bare) == bare
    # Half a character was not shown, and other ids than these spell the rest.
    half = chat.vocabulary.encode_bytes("é".encode()[:1])
    assert answer_ids(chat.vocabulary, "Four it is", prefix, written + half) == written
    changed = answer_ids(chat.vocabulary, "Four it was", prefix, written)
    assert chat.vocabulary.decode(changed).decode() == prefix + "Four it was"
    assert changed[: len(written) - 2] == written[:-2]


def test_an_answer_of_which_only_the_text_is_known_is_tokenized(chat: Chat):
    prefix = chat.template.answer_prefix
    for foreign in ((), [10**9], [-1]):
        ids = answer_ids(chat.vocabulary, "Four <|im_end|></s>", prefix, foreign)
        assert chat.vocabulary.decode(ids).decode() == prefix + "Four <|im_end|></s>"
    assert answer_ids(chat.vocabulary, "", prefix, [1, 2]) == []


def words(messages: list[dict]) -> int:
    return sum(len(message["content"].split()) + 1 for message in messages)


def conversation(turns: int) -> list[dict]:
    result = [{"role": "system", "content": "s"}]
    for turn in range(turns):
        result += [user(f"q {turn}"), assistant(f"a {turn}")]
    return [*result, user("last question")]


def test_long_conversations_drop_in_groups_so_that_the_prefix_stays():
    messages = conversation(40)
    limit = words(messages) - 1
    starts = set()
    for turn in range(4):
        kept, dropped = fit_context(messages, limit, words)
        assert words(kept) <= limit
        starts.add(dropped)
        messages = [*messages, assistant(f"a {turn}"), user(f"q {turn}")]
    assert starts == {4} or len(starts) <= 2


def test_a_last_message_that_is_too_long_is_refused_with_the_numbers():
    messages = [*conversation(2), assistant("a"), user("w " * 100)]
    with pytest.raises(ModelError, match=r"103 tokens.*only 50"):
        fit_context(messages, 50, words)
    with pytest.raises(ModelError, match="101 tokens"):
        fit_context([user("w " * 100)], 50, words)


def test_many_system_messages_are_rendered_in_linear_time(chat: Chat):
    """20,000 of them took 24 s: each was looked for in the whole text."""
    seconds = []
    for count in (2_000, 20_000):
        asked = [{"role": "system", "content": f"rule number {n} of many " * 8} for n in range(count)]
        begun = time.process_time()
        chat.template.render([*asked, {"role": "user", "content": "Hi"}])
        seconds.append(time.process_time() - begun)
    assert seconds[1] < 40 * seconds[0]


def test_of_a_conversation_far_too_long_little_is_read():
    messages, read = conversation(20_000), []

    def count(given: list[dict]) -> int:
        read.append(len(given))
        return words(given)

    kept, dropped = fit_context(messages, 300, count)
    assert words(kept) <= 300 < words([messages[0], *messages[2 * dropped - 15 :]])
    assert kept[-1] == messages[-1]
    assert sum(read) < 2_000


@pytest.mark.parametrize("turns", [30, 63, 64, 65, 127, 200, 500])
def test_as_many_turns_are_kept_whether_or_not_there_are_many(turns):
    messages = conversation(turns)
    whole = words(messages)
    for limit in (whole, whole - 1, whole // 2, whole // 3, 40):
        kept, dropped = fit_context(messages, limit, words, group=1)
        least = next(n for n in range(turns) if words([messages[0], *messages[1 + 2 * n :]]) <= limit)
        assert (dropped, kept) == (least, [messages[0], *messages[1 + 2 * least :]])


@pytest.fixture(scope="module", params=["tiny-target-a-f16.gguf", "tiny-target-b-f16.gguf", "tiny-drafter-f16.gguf"])
def its_vocabulary(request, models):
    return read_gguf_vocabulary(models / request.param)


def test_a_text_is_tokenized_as_it_stands(its_vocabulary):
    ids = RawText("Once there was").prompt_ids(its_vocabulary)
    assert its_vocabulary.decode(ids).decode().strip() == "Once there was"
    assert (ids[0] == its_vocabulary.bos) == bool(its_vocabulary.add_bos)


def test_control_tokens_count_as_such(its_vocabulary):
    text, token = next(iter(its_vocabulary.controls.items()))
    ids = RawText(f"Hi{text}there{text}").prompt_ids(its_vocabulary)
    assert ids.count(token) >= 2
    assert b"".join(its_vocabulary.pieces[i] for i in ids).replace(b" ", b"") == b"Hithere"


def test_ids_stay_as_they_are_for_the_target(its_vocabulary):
    ids = its_vocabulary.encode("Once there was")
    raw = RawText.of_ids(ids, its_vocabulary)
    assert raw.target_ids(its_vocabulary, 4096) == ids
    assert raw.text == "Once there was"
    for wrong in (-1, its_vocabulary.size):
        with pytest.raises(ValueError, match="outside"):
            RawText.of_ids([wrong], its_vocabulary)


@pytest.mark.parametrize("text", ["word " * 100, "x" * 50_000_000])
def test_what_leaves_no_room_is_refused(its_vocabulary, text):
    with pytest.raises(ContextFull, match="raise the context length"):
        RawText(text).target_ids(its_vocabulary, 64)
