"""The workers on the models page: asked, at work, taken off again."""

from __future__ import annotations

from contextlib import closing

import pytest

from omnidraft.app import worker_list
from omnidraft.app.session import Session
from omnidraft.errors import SettingsError
from omnidraft.storage.paths import find_data_home
from tests.lent import needs_rpc, workers
from tests.serving import free_port
from ui.models import places as page


@pytest.fixture
def session(tmp_path, models):
    made = Session(find_data_home(tmp_path), "default", str(models / "tiny-target-a-f16.gguf"), None)
    made.apply(**{"model.threads": 1, "model.n_ctx": 512, "learning.enabled": False})
    yield made
    made.close()


def test_who_is_not_there_is_listed_with_the_reason_and_can_be_removed(session):
    address = f"127.0.0.1:{free_port()}"
    assert worker_list.add(session, f" {address} ") == "Kept."
    assert session.settings.model.workers == address
    shown = page._listed(session)
    assert f"There is no worker at {address}" in shown
    assert f'data-kind="remove" data-file="{address}"' in shown
    with pytest.raises(SettingsError, match="named already"):
        worker_list.add(session, address)
    with pytest.raises(SettingsError, match="address"):
        worker_list.add(session, "<b>x</b>")
    worker_list.remove(session, address)
    assert session.settings.model.workers is None
    assert "computes alone" in page._listed(session)


def test_what_the_command_line_named_is_shown_and_can_be_taken_off(tmp_path, models):
    first, second = (f"127.0.0.1:{free_port()}" for _ in range(2))
    with closing(Session(find_data_home(tmp_path), "default", None, None, f"{first},{second}", "1,1,1")) as made:
        assert [str(one.address) for one in worker_list.named(made)] == [first, second]
        worker_list.remove(made, first)
        assert made.model_settings.workers == second
        assert made.model_settings.split is None


@needs_rpc
def test_at_work_it_says_which_layers_lie_where(session):
    with workers(2) as running:
        for worker in running:
            worker_list.add(session, str(worker.address))
        assert [one.state for one in worker_list.named(session)] == ["ready", "ready"]
        session.apply(**{"model.split": "1,1,1"})
        session.prepare()
        try:
            listed = worker_list.named(session)
            assert [one.state for one in listed] == ["at work", "at work"]
            assert [one.layers for one in listed] == ["3 to 4", "5 to 6"]
            shown = page._listed(session)
            assert "layers 1 to 2 on this machine" in shown
            assert "7.0." in shown
            session.prepare()
            session.load(session.target_path())  # the same workers again, which serve one program at a time
            assert session.assistant.target_name
        finally:
            session.unload()
