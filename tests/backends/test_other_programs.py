"""Models that other programs keep: found in each layout under their names there, and only where allowed."""

import json
import shutil
from pathlib import Path

import pytest

from omnidraft.backends.discovery import find_models, places


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for variable in ("HF_HOME", "HF_HUB_CACHE", "OLLAMA_MODELS"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    return tmp_path


@pytest.fixture
def gguf(models: Path) -> Path:
    return models / "tiny-target-b-f16.gguf"


def put(source: Path, target: Path) -> Path:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    return target


def hugging_face(home: Path, gguf: Path) -> Path:
    repository = home / ".cache/huggingface/hub/models--someone--Small-GGUF"
    blob = put(gguf, repository / "blobs/0a1b2c")
    for revision in ("aaa", "bbb"):
        snapshot = repository / "snapshots" / revision
        snapshot.mkdir(parents=True)
        (snapshot / "small.gguf").symlink_to(blob)
    (repository / "refs").mkdir()
    (repository / "refs/main").write_text("bbb")
    return repository / "snapshots/bbb/small.gguf"


def ollama(root: Path, gguf: Path, *name: str) -> Path:
    blob = put(gguf, root / f"blobs/sha256-{len(name)}abc")
    manifest = root.joinpath("manifests", *name)
    manifest.parent.mkdir(parents=True, exist_ok=True)
    layers = [{"mediaType": "application/vnd.ollama.image.license", "digest": "sha256:fff"},
              {"mediaType": "application/vnd.ollama.image.model", "digest": blob.name.replace("-", ":")}]  # fmt: skip
    manifest.write_text(json.dumps({"schemaVersion": 2, "layers": layers}))
    return blob


def test_nothing_is_looked_at_that_is_not_named(home, gguf):
    hugging_face(home, gguf)
    ollama(home / ".ollama/models", gguf, "registry.ollama.ai", "library", "tiny", "latest")
    assert find_models([]) == []
    assert find_models([], ["unheard-of"]) == []


def test_a_hub_cache_shows_each_file_once(home, gguf):
    path = hugging_face(home, gguf)
    (info,) = find_models([], ["huggingface"])
    assert info.path == path
    assert info.kind == "model"
    assert info.parameters > 1e6


def test_a_hub_folder_is_named_after_its_repository(home):
    from tests.backends.hf_folders import write_folder

    snapshot = home / ".cache/huggingface/hub/models--owner--name/snapshots/c0ffee"
    write_folder(snapshot)
    other = home / ".cache/huggingface/hub/models--owner--encoder/snapshots/c0ffee"
    shutil.copytree(snapshot, other)
    config = json.loads((other / "config.json").read_text())
    (other / "config.json").write_text(json.dumps({**config, "architectures": ["BertModel"]}))
    assert [(info.name, info.path) for info in find_models([], ["huggingface"])] == [("owner/name", snapshot)]


@pytest.mark.parametrize("folder", [".lmstudio/models", ".cache/lm-studio/models"])
def test_lm_studios_folders_old_and_new(home, gguf, folder):
    path = put(gguf, home / folder / "publisher/repository/model.gguf")
    assert [info.path for info in find_models([], ["lmstudio"])] == [path]


def test_ollamas_blobs_go_by_their_manifests_names(home, gguf):
    root = home / ".ollama/models"
    ollama(root, gguf, "registry.ollama.ai", "library", "tiny", "1b")
    ollama(root, gguf, "registry.ollama.ai", "someone", "else", "sub", "latest")
    (root / "manifests/broken").write_text("{")
    outside = {"layers": [{"mediaType": "application/vnd.ollama.image.model", "digest": "../../../secret"}]}
    (root / "manifests/outside").write_text(json.dumps(outside))
    found = {info.name: info.path.name for info in find_models([], ["ollama"])}
    assert found == {"tiny:1b": "sha256-4abc", "someone/else/sub:latest": "sha256-5abc"}


def test_the_programs_own_variables_move_the_folders(home, monkeypatch):
    monkeypatch.setenv("OLLAMA_MODELS", "/elsewhere/ollama")
    monkeypatch.setenv("HF_HOME", "/elsewhere/hf")
    assert places("ollama") == [Path("/elsewhere/ollama")]
    assert places("huggingface") == [Path("/elsewhere/hf/hub")]


def test_a_model_that_is_also_in_a_folder_is_listed_once(home, gguf):
    path = put(gguf, home / ".lmstudio/models/p/r/model.gguf")
    assert len(find_models([path.parent], ["lmstudio", "ollama", "huggingface"])) == 1
