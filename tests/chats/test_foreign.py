"""Exports of ChatGPT, Open WebUI and LM Studio: the path that was shown comes in; what cannot be read is counted."""

from __future__ import annotations

import io
import json
import zipfile
from contextlib import nullcontext, suppress
from pathlib import Path

import psutil
import pytest

from omnidraft.chats.foreign import reading
from omnidraft.chats.foreign.reading import Brought, read_foreign
from omnidraft.errors import StorageError


def brought(folder: Path, data: bytes) -> Brought | None:
    (folder / "export").write_bytes(data)
    return read_foreign(folder / "export")


def node(name: str, parent: str | None, role: str, *parts, children=(), **more) -> dict:
    content = {"content_type": "text", "parts": list(parts), **more.pop("content", {})}
    message = {"id": name, "author": {"role": role}, "content": content, "create_time": 1_700_000_000.5, **more}
    return {"id": name, "parent": parent, "children": list(children), "message": message}


CHATGPT = {
    "title": "Rome", "create_time": 1_700_000_000.0, "update_time": 1_700_000_100.0, "current_node": "e",
    "mapping": {
        "root": {"id": "root", "parent": None, "children": ["s"], "message": None},
        "s": node("s", "root", "system", "", children=["a"]),
        "a": node("a", "s", "user", "When was Rome founded?", children=["b", "c"]),
        "b": node("b", "a", "assistant", "An answer nobody kept."),
        "c": node("c", "a", "assistant", "search(rome)", children=["t"], recipient="browser"),
        "t": node("t", "c", "tool", "result", children=["d"]),
        "d": node("d", "t", "assistant", "In 753 BC,", children=["d2"], metadata={"model_slug": "gpt-x"}),
        "d2": node("d2", "d", "assistant", "they say.", children=["h"]),
        "h": node("h", "d2", "user", "hidden", children=["e"],
                  metadata={"is_visually_hidden_from_conversation": True}),
        "e": node("e", "h", "user", "See", {"content_type": "image_asset_pointer"}, content={
            "content_type": "multimodal_text"}),
    },
}  # fmt: skip
OPEN_WEBUI = {
    "id": "1", "title": "Bread", "created_at": 1_700_000_000, "updated_at": 1_700_000_500,
    "chat": {
        "params": {"system": "Be kind."}, "models": ["qwen3"],
        "history": {"currentId": "3b", "messages": {
            "1": {"id": "1", "parentId": None, "role": "user", "content": "How long?", "timestamp": 1_700_000_001},
            "2": {"id": "2", "parentId": "1", "role": "assistant", "model": "qwen3", "timestamp": 1_700_000_002,
                  "content": '<details type="reasoning" done="true" duration="3">\n<summary>Thought</summary>\n'
                             "&gt; It depends.\n&gt; Yes.\n</details>\nAn hour."},
            "3": {"id": "3", "parentId": "2", "role": "user", "content": "left", "timestamp": 1_700_000_003},
            "3b": {"id": "3b", "parentId": "2", "role": "user", "content": "Thanks", "timestamp": 1_700_000_004},
        }},
    },
}  # fmt: skip
LM_STUDIO = {
    "name": "Tea", "createdAt": 1_700_000_000_000, "systemPrompt": "Short.",
    "messages": [
        {"currentlySelected": 1, "versions": [
            {"type": "singleStep", "role": "user", "content": [{"type": "text", "text": "old"}]},
            {"type": "singleStep", "role": "user", "content": [{"type": "text", "text": "How hot?"}]}]},
        {"currentlySelected": 0, "versions": [{
            "type": "multiStep", "role": "assistant", "senderInfo": {"senderName": "gemma"}, "steps": [
                {"type": "contentBlock", "style": {"type": "thinking"}, "content": [{"type": "text", "text": "Hm."}]},
                {"type": "contentBlock", "content": [{"type": "text", "text": "80 "}, {"type": "text", "text": "°C."}]},
                {"type": "debugInfoBlock", "debugInfo": "x"}]}]},
    ],
}  # fmt: skip


def said(found) -> list[tuple[str, str]]:
    ((_, messages),) = found.conversations
    shown, line = None, []
    while (message := next((m for m in messages if m.parent == shown and m.active), None)) is not None:
        line.append((message.role, message.content))
        shown = message.id
    return line


def test_of_a_chatgpt_tree_the_path_shown_comes_in(store, tmp_path):
    found = brought(tmp_path, json.dumps([CHATGPT]).encode())
    assert said(found) == [
        ("user", "When was Rome founded?"), ("assistant", "In 753 BC,\n\nthey say."), ("user", "See\n[picture]"),
    ]  # fmt: skip
    (chat,) = store.insert(found.conversations)
    assert (chat.title, chat.named, chat.created, chat.updated) == ("Rome", True, 1_700_000_000.0, 1_700_000_100.0)
    answer = store.path(chat.id)[1]
    assert [one.content for one in store.siblings(answer.id)] == ["An answer nobody kept.", "In 753 BC,\n\nthey say."]
    assert answer.meta == {"source": "ChatGPT", "model": "gpt-x"}
    assert answer.created == 1_700_000_000.5
    assert [hit.snippet for hit in store.search("753")] != []


def test_turns_without_names_come_in_once(store, tmp_path):
    nameless = json.loads(json.dumps(CHATGPT))
    for one in nameless["mapping"].values():
        (one["message"] or {}).pop("id", None)
    counts = [len(brought(tmp_path, json.dumps([given]).encode()).conversations[0][1]) for given in (CHATGPT, nameless)]
    assert counts == [4, 4]


def test_an_open_webui_history_comes_in(tmp_path):
    for given in ([OPEN_WEBUI], OPEN_WEBUI, {"data": [OPEN_WEBUI]}):
        found = brought(tmp_path, json.dumps(given).encode())
        assert said(found) == [
            ("user", "How long?"),
            ("assistant", "<think>\nIt depends.\nYes.\n</think>\n\nAn hour."),
            ("user", "Thanks"),
        ]
        ((chat, _),) = found.conversations
        assert (chat.title, chat.system, chat.updated) == ("Bread", "Be kind.", 1_700_000_500)


def test_an_lm_studio_conversation_comes_in(tmp_path):
    found = brought(tmp_path, json.dumps(LM_STUDIO).encode())
    assert said(found) == [("user", "How hot?"), ("assistant", "<think>\nHm.\n</think>\n\n80 °C.")]
    ((chat, messages),) = found.conversations
    assert (chat.title, chat.system, chat.created) == ("Tea", "Short.", 1_700_000_000.0)
    assert messages[-1].meta["model"] == "gemma"
    assert [one.content for one in messages if one.parent is None] == ["old", "How hot?"]


def zipped(**files: object) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as made:
        for name, value in files.items():
            made.writestr(f"export/{name}.json", json.dumps(value))
    return out.getvalue()


def test_archives_are_read_and_what_came_in_is_counted(tmp_path):
    ring = {"mapping": {"a": node("a", "b", "user", "round"), "b": node("b", "a", "assistant", "and round")},
            "current_node": "b"}  # fmt: skip
    empty = {"mapping": {}, "current_node": "x"}
    odd = {"mapping": {"a": {"message": {"author": "me", "content": 5, "metadata": 3}}}, "current_node": "a"}
    found = brought(tmp_path, zipped(conversations=[CHATGPT, ring, empty, odd, 7], user={"id": 5}))
    assert found.sentence() == (
        "2 conversations with 6 messages came in from ChatGPT; 3 held nothing that can be read and stayed out."
    )
    assert len(brought(tmp_path, zipped(tea=LM_STUDIO, more=LM_STUDIO)).conversations) == 2


@pytest.mark.parametrize("data", [
    b"[", b"[" * 100_000, b"\xff\xfe", zipped(conversations=[CHATGPT])[:200],
    json.dumps([{"mapping": {}}]).encode(),
])  # fmt: skip
def test_what_cannot_be_read_costs_one_sentence(tmp_path, data):
    with pytest.raises(StorageError, match=r"^The file cannot be imported: [^\n]*\.$"):
        brought(tmp_path, data)


@pytest.mark.parametrize("given", [{}, [], {"format": "omnidraft-chats"}, [1, "x", None], {"mapping": 5}])
def test_what_no_known_program_wrote_is_nobodys(tmp_path, given):
    assert brought(tmp_path, json.dumps(given).encode()) is None


@pytest.mark.parametrize("whole", [CHATGPT, OPEN_WEBUI, LM_STUDIO])
def test_values_of_another_type_anywhere_raise_nothing_else(whole):
    """Every value in turn is two others: the conversation is read, left out or refused, and that is all."""
    text, others = json.dumps(whole), ["null", "5", '"x"', "[]", "{}", "true", "1e400"] * 2
    places = [at for at, c in enumerate(text) if c in ":,[" and text[at + 1] == " "]
    for number, at in enumerate(places):
        for other in others[number % 7 :][:2]:
            end = _end_of_value(text, at + 2)
            with suppress(StorageError):
                for item in reading.items(io.BytesIO((text[: at + 2] + other + text[end:]).encode())):
                    if (program := reading._program(item)) is not None:
                        reading._read(program, item)


def _end_of_value(text: str, start: int) -> int:
    return json.JSONDecoder().raw_decode(text, start)[1] if text[start] not in "]}" else start


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_values_are_found_wherever_a_piece_ends(monkeypatch, size):
    monkeypatch.setattr(reading, "_CHUNK", size)
    values = [1, 23.5, "a, ]é\U0001f600", {"x": [1, [2]]}, [], None, "", 456]
    for indent in (None, 2):
        text = json.dumps(values, indent=indent, ensure_ascii=False).encode()
        assert list(reading.items(io.BytesIO(text))) == values
        for cut in range(1, len(text)):
            with pytest.raises(StorageError):
                list(reading.items(io.BytesIO(text[:cut])))
    assert list(reading.items(io.BytesIO(b"\xef\xbb\xbf [ ] "))) == []


def bomb(unit: bytes, size: int, deep: bytes = b"") -> bytes:
    """A zip of some kilobytes with a file of `size` bytes."""
    out = io.BytesIO()
    with (
        zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as made,
        made.open("conversations.json", "w", force_zip64=True) as entry,
    ):
        entry.write(b"[" + deep)
        for _ in range(size // (len(unit) * 10_000)):
            entry.write(unit * 10_000)
        entry.write(b"0" + deep.replace(b"[", b"]") + b"]")
    return out.getvalue()


@pytest.mark.parametrize(("deep", "megabytes"), [(b"[", 20), (b"", 4)])
def test_a_bomb_costs_a_sentence_and_no_memory_here(tmp_path, deep, megabytes):
    """Kilobytes that a parser makes gigabytes of, in one value or in millions; the child's memory is bounded."""
    data, before = bomb(b"[[],[],{}],", megabytes << 20, deep), psutil.Process().memory_info().rss
    assert len(data) < 300_000
    with pytest.raises(StorageError, match=r"larger than 16.0 MB|too long") if deep else nullcontext():
        assert brought(tmp_path, data) is None
    assert psutil.Process().memory_info().rss - before < 64 << 20
