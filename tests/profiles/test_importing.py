"""An archive from a stranger: refused with one sentence, and nothing of it stays."""

import hashlib
import io
import json
import os
import pickle
import sqlite3
import stat
import time
import zipfile

import numpy as np
import pytest
from sqlitedict import SqliteDict

from omnidraft.chats import ChatStore
from omnidraft.errors import StorageError
from omnidraft.profiles import importing
from omnidraft.profiles.exporting import export_profile
from omnidraft.profiles.importing import import_profile
from omnidraft.storage.paths import find_data_home
from tests.adapters import lora


@pytest.fixture
def archive(home, ada, tmp_path):
    return export_profile(home, "Ada", tmp_path)


@pytest.fixture
def other(tmp_path):
    """An empty data home to import into."""
    return find_data_home(tmp_path / "other")


def rewrite(archive, change, manifest=None, **zip_options):
    """A copy of `archive` with its {path: bytes} changed, and a manifest that fits them unless `manifest` spoils it."""
    with zipfile.ZipFile(archive) as source:
        files = {name: source.read(name) for name in source.namelist()}
    head = json.loads(files.pop("manifest.json"))
    change(files)
    head["files"] = [
        {"path": path, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()} for path, data in files.items()
    ]
    if manifest:
        manifest(head)
    copy = archive.with_name("changed.zip")
    with zipfile.ZipFile(copy, "w", **zip_options) as target:
        for path, data in files.items():
            target.writestr(path, data)
        target.writestr("manifest.json", json.dumps(head))
    return copy


def refused(other, archive, why="cannot be imported"):
    with pytest.raises(StorageError, match=why) as error:
        import_profile(other, archive)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 400
    assert ".incoming" not in str(error.value)
    assert os.listdir(other.profiles) == []


@pytest.mark.parametrize(
    "path",
    [
        "../evil.txt", "/etc/evil", "..\\evil", "C:\\evil", "adapters/../../evil.json", "adapters/./x.json",
        "adapters//x.json", "adapters/.hidden.json", "adapters/a/b/c/d/e/f/g.json", "adapters/a:b.json",
        "adapters", "chats.sqlite-wal", "chats.sqlite/x", "unknown.txt", "adapters/x.json/", "adapters/" + "x" * 200,
    ],
)  # fmt: skip
def test_no_path_leads_out_of_the_profile(archive, other, tmp_path, path):
    refused(other, rewrite(archive, lambda files: files.update({path: b"{}"})))
    assert not list(tmp_path.rglob("*evil*"))


def test_links_are_refused(archive, other):
    def link(files):
        files["adapters/link.json"] = b"/etc/passwd"

    copy = rewrite(archive, link)
    with zipfile.ZipFile(copy) as source, zipfile.ZipFile(copy.with_name("link.zip"), "w") as target:
        for entry in source.infolist():
            data = source.read(entry)
            if entry.filename == "adapters/link.json":
                entry.external_attr = (stat.S_IFLNK | 0o777) << 16
            target.writestr(entry, data)
    refused(other, copy.with_name("link.zip"), "not a plain file")


@pytest.mark.parametrize(
    "change",
    [
        lambda head: head.update(format="other"),
        lambda head: head.update(version=99),
        lambda head: head.update(name="../x"),
        lambda head: head.pop("files"),
        lambda head: head.update(more="x" * (5 << 20)),
        lambda head: head["files"].pop(),
        lambda head: head["files"].append({"path": "adapters/missing.json", "bytes": 1, "sha256": ""}),
        lambda head: head["files"][0].update(bytes=-1),
        lambda head: head["files"][0].update(bytes=1),
        lambda head: head["files"][0].update(bytes=10**30),
        lambda head: head["files"][0].update(sha256="0" * 64),
    ],
)
def test_a_list_of_files_that_does_not_fit_is_refused(archive, other, change):
    refused(other, rewrite(archive, lambda files: None, change), "cannot be imported")


def test_what_is_not_a_profile_archive_is_refused(other, tmp_path):
    for number, data in enumerate((b"", b"PK", b"not a zip" * 100)):
        (tmp_path / f"{number}.zip").write_bytes(data)
        refused(other, tmp_path / f"{number}.zip", "cannot be imported")
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as made:
        made.writestr("readme.txt", "hello")
    refused(other, tmp_path / "other.zip", "not a profile")
    refused(other, tmp_path / "missing.zip", "no such file")
    refused(other, tmp_path, "cannot be imported")


def test_names_that_differ_only_in_case_are_refused(archive, other):
    refused(
        other,
        rewrite(archive, lambda files: files.update({"adapters/A.json": b"1", "adapters/a.json": b"1"})),
        "same name",
    )


def test_an_archive_larger_than_allowed_is_refused_before_it_is_unpacked(archive, other, monkeypatch):
    monkeypatch.setattr(importing, "MAX_BYTES", 1000)
    refused(other, archive, "more than the 1,000 allowed")
    bomb = rewrite(
        archive, lambda files: files.update({"adapters/x.txt": b" " * 50_000_000}), compression=zipfile.ZIP_DEFLATED
    )
    assert bomb.stat().st_size < 1_000_000
    monkeypatch.setattr(importing, "MAX_BYTES", 20_000_000)
    refused(other, bomb, "allowed")


class Evil:
    def __reduce__(self):
        return os.mkdir, ("/tmp/omnidraft-evil",)


def sqlitedict_with(path, value, **options):
    with SqliteDict(str(path), tablename="entries", autocommit=True, **options) as table:
        table["k"] = value
    return path.read_bytes()


PICKLES = {
    "sqlitedict's own": lambda path: sqlitedict_with(path, {"harmless": 1}),
    "sqlitedict's own, evil": lambda path: sqlitedict_with(path, Evil()),
    **{
        f"protocol {protocol}": lambda path, protocol=protocol: sqlitedict_with(
            path, pickle.dumps(Evil(), protocol), encode=sqlite3.Binary
        )
        for protocol in range(6)
    },
    "protocol 0 as text": lambda path: sqlitedict_with(path, pickle.dumps(Evil(), 0).decode(), encode=str),
    "a list of protocol 1": lambda path: sqlitedict_with(path, pickle.dumps([1, 2], 1), encode=sqlite3.Binary),
    "broken behind the call": lambda path: sqlitedict_with(
        path, pickle.dumps(Evil(), 0)[:-1] + b"\xff", encode=sqlite3.Binary
    ),
    "followed by more": lambda path: sqlitedict_with(path, pickle.dumps(Evil(), 2) + b"more", encode=sqlite3.Binary),
}


@pytest.mark.parametrize(
    ("name", "kind"), [("ngrams", "protocol 2"), ("replay", "protocol 2"), *(("metrics", kind) for kind in PICKLES)]
)
def test_databases_that_hold_pickles_are_refused(archive, other, tmp_path, name, kind):
    data = PICKLES[kind](tmp_path / "evil.sqlite")
    refused(other, rewrite(archive, lambda files: files.update({f"{name}.sqlite": data})), "pickled")
    assert not os.path.exists("/tmp/omnidraft-evil")


@pytest.mark.parametrize("value", ["1.5", '{"a": 1}', "[1, 2]", "null", '"text."', "0", "true"])
def test_json_values_are_not_taken_for_pickles(archive, other, tmp_path, value):
    for encode in (str, lambda text: sqlite3.Binary(text.encode())):
        path = tmp_path / f"{hash(encode)}.sqlite"
        data = sqlitedict_with(path, value, encode=encode)
        imported = import_profile(
            other, rewrite(archive, lambda files, data=data: files.update({"metrics.sqlite": data})), path.stem
        )
        assert imported.metrics.exists()


SCHEMAS = {
    "a trigger": "CREATE TABLE t (x); CREATE TRIGGER evil AFTER INSERT ON t BEGIN DELETE FROM t; END;",
    "a view": "CREATE VIEW v AS SELECT 1;",
    "a virtual table": "CREATE VIRTUAL TABLE f USING fts5(x);",
    "a virtual table named as ours": "CREATE VIRTUAL TABLE message_index USING rtree(a, b, c);",
}


@pytest.mark.parametrize("script", SCHEMAS.values(), ids=SCHEMAS.keys())
@pytest.mark.parametrize("name", ["ngrams", "metrics"])
def test_databases_with_more_than_plain_tables_are_refused(archive, other, tmp_path, name, script):
    with sqlite3.connect(tmp_path / "evil.sqlite") as connection:
        connection.executescript(script)
    connection.close()
    data = (tmp_path / "evil.sqlite").read_bytes()
    refused(other, rewrite(archive, lambda files: files.update({f"{name}.sqlite": data})), "did not make|damaged")


CHATS = {
    "a trigger": "CREATE TRIGGER evil AFTER INSERT ON messages BEGIN DELETE FROM messages; END",
    "another table": "CREATE TABLE more (x)",
    "a missing index": "DROP INDEX one_active_version",
    "bytes as content": "UPDATE messages SET content = x'00ff'",
    "a role": "UPDATE messages SET role = 'robot'",
    "meta that is no JSON": "UPDATE messages SET meta = '{'",
    "a loop": "UPDATE messages SET parent = id, active = 0",
    "sampling": "UPDATE conversations SET sampling = '{'",
    "a newer version": "INSERT INTO migrations VALUES ('from the future', 1.0)",
    "another owner": "PRAGMA application_id = 7",
}


def with_chats(archive, tmp_path, change):
    """The archive with its conversations changed by a statement."""

    def alter(files):
        path = tmp_path / "altered.sqlite"
        path.write_bytes(files["chats.sqlite"])
        connection = sqlite3.connect(path)
        with connection:
            connection.execute(change)
        connection.close()
        files["chats.sqlite"] = path.read_bytes()

    return rewrite(archive, alter)


@pytest.mark.parametrize("change", CHATS.values(), ids=CHATS.keys())
def test_conversations_that_are_not_ours_are_refused(archive, other, tmp_path, change):
    refused(other, with_chats(archive, tmp_path, change), r"cannot be imported\. .*chats\.sqlite")


def test_a_search_index_made_to_lie_is_made_anew(archive, other, tmp_path):
    lying = with_chats(archive, tmp_path, "UPDATE message_index_data SET block = x'00'")
    with ChatStore(import_profile(other, lying).chats) as store:
        assert store.search("walrus")


def test_damaged_databases_are_refused(archive, other):
    for name in ("chats", "ngrams", "replay", "metrics"):
        for damage in (lambda data: b"garbage" * 100, lambda data: data[: len(data) // 2], lambda data: b""):
            key = f"{name}.sqlite"
            copy = rewrite(archive, lambda files, key=key, damage=damage: files.update({key: damage(files[key])}))
            refused(other, copy, "cannot be imported")


def test_settings_that_do_not_load_are_refused(archive, other):
    for text in (b"[broken", b"[sampling]\ntemperature = -1\n"):
        refused(
            other, rewrite(archive, lambda files, text=text: files.update({"settings.toml": text})), r"settings\.toml"
        )


def npz(path, **arrays):
    np.savez(path, **arrays)
    return path.read_bytes()


def test_adapter_files_that_could_run_code_or_are_something_else_are_refused(archive, other, tmp_path):
    objects = np.array([Evil()], dtype=object)
    np.save(tmp_path / "o.npy", objects, allow_pickle=True)
    bad = {
        "a.pt": b"x",
        "a.pkl": pickle.dumps(1),
        "a.gguf": b"NOPE" + bytes(50),
        "a.json": b"{",
        "b.json": pickle.dumps(1),
        "a.txt": pickle.dumps(Evil(), 0),
        "a.npz": npz(tmp_path / "o.npz", x=objects),
        "a.npy": (tmp_path / "o.npy").read_bytes(),
        "b.npz": b"not a zip",
        "a.safetensors": pickle.dumps(1),
        "a.py": b"print(1)",
        "a": b"x",
    }
    for name, data in bad.items():
        copy = rewrite(archive, lambda files, name=name, data=data: files.update({f"adapters/d/v/1/{name}": data}))
        refused(other, copy, "not a file that an adapter consists of")
    assert not os.path.exists("/tmp/omnidraft-evil")


@pytest.mark.parametrize(("path", "why"), [
    ("settings.toml", "its settings are too long"), ("adapters/x.txt", "larger than a text"),
    ("adapters/x.json", "larger than a text"),
])  # fmt: skip
def test_megabytes_of_text_are_refused_before_they_are_read(archive, other, path, why):
    def change(files):
        files[path] = b"N" * 17_000_000

    started = time.process_time()
    refused(other, rewrite(archive, change, compression=zipfile.ZIP_DEFLATED), why)
    assert time.process_time() - started < 10


@pytest.mark.parametrize("name", ["adapters/x/y/z/adapter.gguf", "adapters/x/y/z/weights.npz", "ngrams.sqlite"])
def test_a_small_archive_does_not_fill_the_disk(archive, other, name):
    """2 MB of deflated zeros are 2 GB: nothing of them is unpacked, whatever they call themselves."""
    start = {"gguf": b"GGUF", "npz": b"PK\3\4", "sqlite": b"SQLite format 3\0"}[name.rpartition(".")[2]]
    zeros = start + bytes(256 << 20)
    copy = rewrite(archive, lambda files: files.update({name: zeros}), compression=zipfile.ZIP_DEFLATED)
    assert copy.stat().st_size < 2 << 20
    began = time.monotonic()
    refused(other, copy, "far more than a profile packed so small has")
    assert time.monotonic() - began < 1


def test_an_adapter_is_one_to_its_last_byte(archive, other):
    good = lora("some")
    cut, longer, renamed = good[:-40], good + bytes(1 << 20), good.replace(b"adapter", b"adopter")
    for data in (b"GGUF" + bytes(1000), cut, longer, renamed):
        files = {"adapters/x/y/z/adapter.gguf": data}
        refused(other, rewrite(archive, lambda given, files=files: given.update(files)), "not a file that an adapter")


def test_packed_arrays_do_not_unpack_to_more_than_they_are(archive, other):
    data = io.BytesIO()
    np.savez_compressed(data, a=np.zeros(32 << 20, np.float32))
    files = {"adapters/x/y/z/weights.npz": data.getvalue()}
    refused(other, rewrite(archive, lambda given: given.update(files)), "not a file that an adapter")
