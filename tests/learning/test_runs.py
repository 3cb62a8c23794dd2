"""What the app does about an update that was refused."""

from __future__ import annotations

from types import SimpleNamespace

from omnidraft.learning.adapters.store import AdapterStore
from omnidraft.learning.runs import Runs


def test_what_an_update_has_seen_is_not_tried_again_at_once(tmp_path):
    store = AdapterStore(tmp_path)
    Runs(None, None).follow(SimpleNamespace(update=None, store=store), {"event": "refused", "through": 16})
    assert store.through == 16
