"""Downloads against a stub Hub: damaged files, a Hub that is gone, a disk that is full."""

from __future__ import annotations

import pytest

from tests.ui.conftest import free_port
from tests.ui.stub_hub import REPO, StubHub
from ui import hub as downloads
from ui.hub import Download, HubError, RemoteFile


@pytest.fixture
def hub(monkeypatch):
    from huggingface_hub import constants

    made = StubHub({"a.gguf": bytes(range(256)) * 2000})
    monkeypatch.setattr(constants, "ENDPOINT", made.endpoint)
    monkeypatch.setattr(
        constants, "HUGGINGFACE_CO_URL_TEMPLATE", made.endpoint + "/{repo_id}/resolve/{revision}/{filename}"
    )
    monkeypatch.setattr("huggingface_hub.hf_api.constants.ENDPOINT", made.endpoint)
    yield made
    made.close()


def remote(hub: StubHub) -> RemoteFile:
    from huggingface_hub import HfApi

    found = HfApi(endpoint=hub.endpoint, token=False).model_info(REPO, files_metadata=True).siblings[0]
    return RemoteFile(REPO, found.rfilename, found.size, found.lfs.sha256)


def test_a_damaged_file_is_removed_and_said(hub, tmp_path):
    hub.damaged.add("a.gguf")
    done = Download(remote(hub), tmp_path).start()
    done.join(20)
    assert done.state == "failed"
    assert "damaged" in done.error
    assert list(tmp_path.iterdir()) == []


def test_a_part_that_is_there_is_continued(hub, tmp_path):
    (tmp_path / "a.gguf.part").write_bytes(hub.files["a.gguf"][:1000])
    done = Download(remote(hub), tmp_path).start()
    done.join(20)
    assert (done.state, done.error) == ("done", "")
    assert hub.ranges == [1000]
    assert (tmp_path / "a.gguf").read_bytes() == hub.files["a.gguf"]


def test_a_disk_without_room_is_said_before_anything_is_fetched(hub, tmp_path, monkeypatch):
    monkeypatch.setattr(downloads, "SPARE", 1 << 60)
    done = Download(remote(hub), tmp_path).start()
    done.join(20)
    assert done.state == "failed"
    assert "free on the disk" in done.error
    assert hub.ranges == []


def test_a_hub_that_is_gone_is_said_in_plain_words(hub, tmp_path, monkeypatch):
    file = remote(hub)
    gone = f"http://127.0.0.1:{free_port()}" + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr("huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE", gone)
    monkeypatch.setattr("huggingface_hub.file_download.HUGGINGFACE_CO_URL_TEMPLATE", gone, raising=False)
    done = Download(file, tmp_path).start()
    done.join(30)
    assert done.state == "failed"
    assert "cannot be reached" in done.error


def test_a_name_that_is_no_repository_is_refused_without_a_request(hub):
    before = len(hub.headers)
    with pytest.raises(HubError, match="not a repository id"):
        downloads.list_files("not a name at all")
    assert len(hub.headers) == before
