"""Pictures in conversations: kept once, carried along, gone with the last conversation that shows them."""

from __future__ import annotations

import io
import json
import sqlite3

import pytest
from PIL import Image

from omnidraft.backends.pictures import read_picture
from omnidraft.chats import ChatStore, PictureFile, export_json, export_markdown, import_json
from omnidraft.chats.store import LastDeleted
from omnidraft.errors import PictureError
from tests.exports import elsewhere


def drawn(color: str, kind: str = "PNG", **more) -> PictureFile:
    made = io.BytesIO()
    Image.new("RGB", (40, 24), color).save(made, kind, **more)
    return PictureFile.made(f"{color}.{kind.lower()}", made.getvalue())


RED, BLUE = drawn("red"), drawn("blue", "JPEG")


def stored(path) -> int:
    with sqlite3.connect(path) as connection:
        return connection.execute("SELECT count(*) FROM pictures").fetchone()[0]


@pytest.fixture
def path(store):
    return store._db.file


def test_a_picture_is_kept_once_and_leaves_the_file_with_the_last_that_shows_it(store, path):
    one, two = store.create("one").id, store.create("two").id
    asked = store.append(one, "user", "What?", pictures=[RED, BLUE])
    store.edit(asked.id, "What else?", pictures=[RED])
    store.append(two, "user", "And this?", pictures=[RED])
    assert stored(path) == 2
    assert [name for name, _ in store.path(one)[0].pictures] == ["red.png"]
    assert store.pictures.files(store.siblings(asked.id)[0].pictures) == [RED, BLUE]
    store.delete(one)
    assert stored(path) == 1
    assert store.pictures.get(RED.digest) == RED.data
    fork = store.fork(store.path(two)[0].id).id
    store.delete_turn(store.path(two)[0].id)
    assert store.pictures.get(RED.digest) == RED.data
    store.delete(fork)
    assert stored(path) == 0
    store.close()
    assert RED.digest.encode() not in path.read_bytes()


def test_undo_brings_pictures_back(store, path):
    chat = store.create("one").id
    store.append(chat, "user", "What?", pictures=[RED])
    last = LastDeleted(store)
    mark = last.delete([chat])
    assert stored(path) == 0
    last.bring_back(mark)
    assert store.pictures.files(store.path(chat)[0].pictures) == [RED]


def test_an_export_has_each_picture_once_and_brings_it_along(store, tmp_path):
    chat = store.create("one").id
    for _ in range(2):
        store.append(chat, "user", "What?", pictures=[RED])
    text = export_json(store, [chat])
    assert list(json.loads(text)["pictures"]) == [RED.digest]
    with ChatStore(tmp_path / "other.sqlite") as other:
        ((brought,), _) = import_json(other, text)
        assert other.pictures.files(other.path(brought.id)[0].pictures) == [RED]
    assert "[picture: red.png]" in export_markdown(store, chat)
    assert "pictures" not in json.loads(export_json(store, [store.create("none").id]))


@pytest.mark.parametrize("change", [
    lambda whole: whole.pop("pictures"),
    lambda whole: whole.update(pictures=[1]),
    lambda whole: whole["pictures"].update({RED.digest: "AAAA"}),
    lambda whole: whole["pictures"].update({RED.digest: 7}),
])  # fmt: skip
def test_a_picture_that_is_lost_or_damaged_costs_that_picture_only(store, change):
    chat = store.create("one").id
    store.append(chat, "user", "What?", pictures=[RED])
    whole = json.loads(export_json(store, [chat]))
    store.delete(chat)
    change(whole)
    ((brought,), _) = import_json(store, elsewhere(json.dumps(whole)))
    (message,) = store.path(brought.id)
    assert [name for name, _ in message.pictures] == ["red.png"]
    assert store.pictures.files(message.pictures) == []
    store.delete(brought.id)


def test_what_is_kept_is_upright_and_small_and_says_nothing_of_where_it_was_taken():
    exif = Image.Exif()
    exif[0x0112], exif[0x010E] = 6, "Frobnitz"  # turned by a quarter; a description
    photo = drawn("red", "JPEG", exif=exif)
    assert b"Frobnitz" not in photo.data
    seen = read_picture(photo.data)
    assert (seen.width, seen.height) == (24, 40)
    large = io.BytesIO()
    Image.new("RGB", (3000, 30)).save(large, "BMP")
    assert read_picture(PictureFile.made("a", large.getvalue()).data).width == 2048
    with pytest.raises(PictureError, match=r"a\.png is not"):
        PictureFile.made("a.png", b"text")
