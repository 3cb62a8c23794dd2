"""Search and downloads against a stub Hub: damaged files, a Hub that is gone, a disk that is full."""

from __future__ import annotations

from dataclasses import replace

import pytest

from omnidraft.__main__ import main
from omnidraft.app import hub as downloads
from omnidraft.app import room
from omnidraft.app.hub import Download, HubError, RemoteFile, RemoteModel, best, list_models, search
from omnidraft.app.room import Room
from omnidraft.storage.paths import DataHome
from omnidraft.storage.scratch import FileLock
from tests.ui.conftest import free_port
from tests.ui.stub_hub import REPO, StubHub


@pytest.fixture
def hub(serve) -> StubHub:
    return serve({"a.gguf": bytes(range(256)) * 2000})


@pytest.fixture
def home(tmp_path) -> DataHome:
    return DataHome(tmp_path)


def remote(hub: StubHub) -> RemoteModel:
    from huggingface_hub import HfApi

    found = HfApi(endpoint=hub.endpoint, token=False).model_info(REPO, files_metadata=True).siblings[0]
    file = RemoteFile(REPO, found.rfilename, found.size, found.lfs.sha256)
    return RemoteModel(REPO, file.name, (file,))


def fetched(model: RemoteModel, home: DataHome) -> Download:
    done = Download(model, home).start()
    done.join(200)
    return done


def test_a_damaged_file_is_removed_and_said(hub, home):
    hub.damaged.add("a.gguf")
    done = fetched(remote(hub), home)
    assert done.state == "failed"
    assert "damaged" in done.error
    assert list(home.models.iterdir()) == []


def test_a_file_that_does_not_end_where_it_should_fills_no_disk(hub, home, monkeypatch):
    monkeypatch.setattr(downloads, "CHUNK", 1000)
    model = remote(hub)
    short = replace(model, files=(replace(model.files[0], size=2500),))
    for _ in range(2):  # nothing of it is taken up again
        done = fetched(short, home)
        assert "damaged" in done.error
        assert done.done == 0
        assert list(home.models.iterdir()) == []


def test_nobody_writes_to_what_another_program_downloads(hub, home):
    other = FileLock(home.cache / "downloads" / "a.gguf.lock")
    assert other.acquire()
    done = fetched(remote(hub), home)
    assert "already being downloaded" in done.error
    other.release()
    again = fetched(remote(hub), home)
    assert again.state == "done"


def test_a_disk_without_room_is_said_before_anything_is_fetched(hub, home, monkeypatch):
    monkeypatch.setattr(downloads, "SPARE", 1 << 60)
    done = fetched(remote(hub), home)
    assert done.state == "failed"
    assert "free on the disk" in done.error
    assert hub.ranges == []


def test_a_hub_that_is_gone_is_said_in_plain_words(hub, home, monkeypatch):
    file = remote(hub)
    gone = f"http://127.0.0.1:{free_port()}" + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr("huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE", gone)
    monkeypatch.setattr("huggingface_hub.file_download.HUGGINGFACE_CO_URL_TEMPLATE", gone, raising=False)
    done = fetched(file, home)
    assert done.state == "failed"
    assert "cannot be reached" in done.error
    assert "kept" not in done.error, "nothing had come"
    assert "What has come so far is kept." in str(downloads.unreachable(OSError(), 5))


def test_the_parts_of_a_split_model_come_together(serve, home):
    parts = {f"big-{n:05d}-of-00002.gguf": bytes([n]) * 1000 for n in (1, 2)}
    serve({**parts, "small.gguf": b"x" * 100})
    small, big = list_models(REPO)
    assert (small.name, small.size) == ("small.gguf", 100)
    assert (big.name, big.size) == ("big.gguf in 2 parts", 2000)
    done = fetched(big, home)
    assert (done.state, done.error) == ("done", "")
    assert {path.name: path.read_bytes() for path in home.models.iterdir()} == parts
    again = fetched(big, home)
    assert "already there" in again.error


def get(home: DataHome, *words: str) -> int:
    return main(["models", "get", *words, "--data-dir", str(home.root)])


def test_a_name_of_no_kind_is_refused_before_the_hub_is_asked(home, capsys):
    assert get(home, "nosuch") == 2
    told = capsys.readouterr().err
    assert "neither a name known here (smollm2-135m, " in told
    assert "OWNER/NAME" in told


def test_a_file_is_fetched_by_a_part_of_its_name_on_the_command_line(serve, home, capsys):
    hub = serve({"tiny-q8_0.gguf": b"8" * 1000, "tiny-q4_k_m.gguf": b"4" * 500})
    home.models.mkdir()
    (home.models / "tiny-q4_k_m.gguf.part").write_bytes(b"4" * 100)
    assert get(home, f"{REPO}:Q4_K_M") == 0
    assert capsys.readouterr().out == f"{home.models / 'tiny-q4_k_m.gguf'}\n"
    assert (home.models / "tiny-q4_k_m.gguf").read_bytes() == b"4" * 500
    assert hub.ranges == [100]
    assert not (home.models / "tiny-q8_0.gguf").exists()


def test_a_file_that_is_not_there_or_not_one_is_said_with_what_there_is(serve, home, capsys):
    serve({"tiny-q8_0.gguf": b"8" * 1000, "tiny-q4_k_m.gguf": b"4" * 500})
    assert get(home, f"{REPO}:Q6_K") == 2
    assert "no file called Q6_K; it offers tiny-q4_k_m.gguf, tiny-q8_0.gguf." in capsys.readouterr().err
    assert get(home, f"{REPO}:tiny") == 2
    assert "several files called tiny" in capsys.readouterr().err


def test_without_a_name_the_usual_format_is_fetched_or_the_largest_that_fits(serve, home, capsys, monkeypatch):
    serve({"a-q2_k.gguf": b"2" * 1000, "a-Q4_K_M.gguf": b"4" * 2000, "a-f16.gguf": b"f" * 9000})
    offered = list_models(REPO)
    assert [best(offered, Room(free)).name for free in (None, 3000, 2000)] == [
        "a-Q4_K_M.gguf",
        "a-Q4_K_M.gguf",
        "a-q2_k.gguf",
    ]
    assert best(offered[::2], Room(None)).name == "a-f16.gguf"
    monkeypatch.setattr(room, "available_bytes", lambda: 1)
    assert get(home, REPO) == 2
    assert "Nothing of" in capsys.readouterr().err
    monkeypatch.setattr(room, "available_bytes", lambda: 1 << 34)
    assert get(home, REPO) == 0
    assert [path.name for path in home.models.iterdir()] == ["a-Q4_K_M.gguf"]


def test_a_repository_without_a_gguf_file_is_said_to_be_one(serve):
    serve({"model.safetensors": b"x" * 10})
    with pytest.raises(HubError, match="holds no GGUF files"):
        list_models(REPO)


def test_a_model_brings_its_projector_under_its_own_name(hub, home):
    hub.files |= {"mmproj-BF16.gguf": b"b" * 10, "mmproj-F16.gguf": b"p" * 3000}
    (model,) = [one for one in list_models(REPO) if one.name == "a.gguf"]
    assert model.projector is not None
    assert model.size == len(hub.files["a.gguf"]) + 3000
    done = fetched(model, home)
    assert (done.state, done.error, done.done) == ("done", "", model.size)
    assert (home.models / "mmproj-a.gguf").read_bytes() == hub.files["mmproj-F16.gguf"]
    again = fetched(model, home)
    assert "already there" in again.error


def test_a_search_lists_what_may_fit_most_downloaded_first(serve):
    hub = serve({})
    hub.listed = [
        {"id": "a/small", "downloads": 5, "gguf": {"total": 500_000_000, "architecture": "qwen3"}},
        {"id": "b/huge", "downloads": 900, "gguf": {"total": 70_000_000_000}},
        {"id": "c/unknown", "downloads": 50},
    ]
    found, hidden = search(" qwen ", Room(4 << 30))
    assert [one.repo for one in found] == ["c/unknown", "a/small"]
    assert hidden == 1
    assert found[1].label() == "a/small · 500M · 5 downloads"
    (query,) = hub.queries
    assert (query["search"], query["sort"], query["filter"]) == (["qwen"], ["downloads"], ["gguf"])
    assert not any("authorization" in {name.lower() for name in headers} for headers in hub.headers)
    with pytest.raises(HubError, match="part of the model's name"):
        search("  ", Room(None))
