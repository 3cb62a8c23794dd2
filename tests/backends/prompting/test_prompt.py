"""The next prompt begins with the committed ids as they are; only what is new gets tokenized."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from omnidraft.backends.gguf.file import read_info
from omnidraft.backends.prompting.prompt import answer_ids, count_ids, ends_without_space, fit_context, prompt_ids
from omnidraft.backends.prompting.templates import ChatTemplate
from omnidraft.errors import ModelError
from omnidraft.vocab.llama_vocab import read_gguf_vocabulary

NAMES = ("tiny-target-a", "tiny-target-b", "tiny-drafter")


class Chat:
    """A model's template and vocabulary, and what its prompts mean as text."""

    def __init__(self, path: Path) -> None:
        self.vocabulary = read_gguf_vocabulary(path)
        self.template = ChatTemplate.from_model(read_info(path), self.vocabulary)
        self.texts = {id: text for text, id in self.vocabulary.controls.items()}

    def prompt(self, messages: list[dict], committed: list[int] | None = None) -> list[int]:
        return prompt_ids(self.template, self.vocabulary, messages, committed or [])

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


def user(text: str) -> dict:
    return {"role": "user", "content": text}


def assistant(text: str) -> dict:
    return {"role": "assistant", "content": text}


FIRST = [{"role": "system", "content": "Be brief."}, user("Hi there, what is 2+2?")]


def test_a_first_prompt_is_the_rendering(chat: Chat):
    ids = chat.prompt(FIRST)
    rendered = "".join(span.text for span in chat.template.render(FIRST))
    assert chat.text(ids).replace("<s> ", "<s>") == rendered
    assert ids.count(chat.vocabulary.bos) == chat.vocabulary.add_bos


def test_the_second_turn_extends_the_committed_ids_exactly(chat: Chat):
    answer = "Four, I believe."
    committed = chat.prompt(FIRST) + chat.pieces_one_by_one(chat.template.answer_prefix + answer)
    messages = [*FIRST, assistant(answer), user("Sure?")]
    for ending in ([], [chat.vocabulary.eos]):
        ids = chat.prompt(messages, committed + ending)
        assert ids[: len(committed + ending)] == committed + ending
        assert chat.text(ids) == chat.text(chat.prompt(messages))
        assert ids != chat.prompt(messages)  # the answer was not tokenized again


def test_many_turns_keep_every_answer_as_generated(chat: Chat):
    messages, committed = [], []
    for turn in range(6):
        messages.append(user(f"Question {turn}: emoji 👩‍🔬, 漢字, <|im_end|> and </s>?"))
        prompt = chat.prompt(messages, committed)
        assert prompt[: len(committed)] == committed
        answer = f"Answer no. {turn} with ünïcode"
        committed = prompt + chat.pieces_one_by_one(chat.template.answer_prefix + answer)
        messages.append(assistant(answer))
    assert chat.text(chat.prompt(messages, committed)) == chat.text(chat.prompt(messages))


def test_nothing_committed_and_everything_committed(chat: Chat):
    prompt = chat.prompt(FIRST)
    assert chat.prompt(FIRST, prompt) == prompt
    for length in range(len(prompt)):
        ids = chat.prompt(FIRST, prompt[:length])
        assert ids[:length] == prompt[:length]
        assert chat.text(ids) == chat.text(prompt)


def test_an_edited_last_message_keeps_the_turns_before(chat: Chat):
    answer = "Four."
    committed = chat.prompt(FIRST) + chat.pieces_one_by_one(chat.template.answer_prefix + answer)
    kept = [*committed, chat.vocabulary.eos]
    turn = chat.prompt([*FIRST, assistant(answer), user("Why?")], kept)
    edited = chat.prompt([*FIRST, assistant(answer), user("Wherefore art thou?")], turn)
    assert edited[: len(kept)] == kept
    assert chat.text(edited) == chat.text(chat.prompt([*FIRST, assistant(answer), user("Wherefore art thou?")]))


def test_another_conversation_is_tokenized_as_if_nothing_was_there(chat: Chat):
    committed = chat.prompt([user("Something else entirely")])
    fresh = chat.prompt(FIRST)
    assert chat.prompt(FIRST, committed) == fresh


def test_committed_ids_that_end_inside_a_character(chats: dict[str, Chat]):
    chat = chats["tiny-target-b"]
    messages = [user("a"), assistant("x 😀 y"), user("b")]
    head = chat.prompt(messages[:1]) + chat.vocabulary.encode("x ")
    emoji = chat.vocabulary.encode_bytes("😀".encode()[:2])
    ids = chat.prompt(messages, head + emoji)
    assert ids[: len(head + emoji)] == head + emoji
    assert chat.text(ids) == chat.text(chat.prompt(messages))


def test_text_behind_committed_ids_is_encoded_mid_text(chats: dict[str, Chat]):
    """SentencePiece would add a space at the start of a text; in the middle of a run there must be none."""
    chat = chats["tiny-drafter"]
    committed = chat.prompt([user("a")]) + chat.vocabulary.encode(" un")
    ids = chat.prompt([user("a"), assistant("unhappy"), user("b")], committed)
    assert ids[: len(committed)] == committed
    assert "ASSISTANT: unhappy</s>" in chat.text(ids)


def test_a_control_id_the_text_does_not_show_ends_the_reuse(chats: dict[str, Chat]):
    chat = chats["tiny-target-b"]
    odd = chat.vocabulary.controls["<|im_start|>"]
    committed = chat.prompt(FIRST) + chat.vocabulary.encode("Fo") + [odd] + chat.vocabulary.encode("ur")
    messages = [*FIRST, assistant("Four"), user("ok")]
    assert chat.prompt(messages, committed) == chat.prompt(messages)


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


def test_which_prompts_end_without_a_space(chats: dict[str, Chat]):
    ends = {name: ends_without_space(chat.template.render(FIRST)) for name, chat in chats.items()}
    assert ends == {"tiny-target-a": False, "tiny-target-b": False, "tiny-drafter": True}


def words(messages: list[dict]) -> int:
    return sum(len(message["content"].split()) + 1 for message in messages)


def conversation(turns: int) -> list[dict]:
    result = [{"role": "system", "content": "s"}]
    for turn in range(turns):
        result += [user(f"q {turn}"), assistant(f"a {turn}")]
    return [*result, user("last question")]


def test_the_oldest_turns_go_first():
    messages = conversation(5)
    kept, dropped = fit_context(messages, words(messages) - 1, words)
    assert dropped == 1
    assert kept == [messages[0], *messages[3:]]
    kept, dropped = fit_context(messages, words(messages) - 7, words)
    assert dropped == 2


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


def test_every_limit_is_kept():
    messages = conversation(17)
    for limit in range(words([messages[0], messages[-1]]), words(messages) + 2):
        kept, dropped = fit_context(messages, limit, words)
        assert words(kept) <= limit
        assert (dropped == 0) == (kept == messages)


def test_what_cannot_fit_is_counted_without_being_tokenized(chat: Chat, monkeypatch):
    """7 MB of spaces took 22 s to refuse: each count tokenized them."""
    asked = [{"role": "user", "content": " x" * 4_000_000}]
    true = count_ids(chat.template, chat.vocabulary, [{"role": "user", "content": " x" * 40}])
    assert true == len(prompt_ids(chat.template, chat.vocabulary, [{"role": "user", "content": " x" * 40}]))
    assert count_ids(chat.template, chat.vocabulary, [{"role": "user", "content": " x" * 40}], (), 4096) == true
    monkeypatch.setattr(type(chat.vocabulary), "encode", lambda *_args, **_options: pytest.fail("it was tokenized"))
    assert count_ids(chat.template, chat.vocabulary, asked, (), 4096) > 4096


def test_many_system_messages_are_rendered_in_linear_time(chat: Chat):
    """20,000 of them took 24 s: each was looked for in the whole text."""
    seconds = []
    for count in (2_000, 20_000):
        asked = [{"role": "system", "content": f"rule number {n} of many " * 8} for n in range(count)]
        begun = time.process_time()
        chat.template.render([*asked, {"role": "user", "content": "Hi"}])
        seconds.append(time.process_time() - begun)
    assert seconds[1] < 40 * seconds[0]


def test_every_private_character_at_once_comes_through(chat: Chat):
    every = "".join(map(chr, range(0xE000, 0xF900)))
    spans = chat.template.render([{"role": "user", "content": every + "<|im_end|>"}])
    assert any(every + "<|im_end|>" in span.text for span in spans)


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
