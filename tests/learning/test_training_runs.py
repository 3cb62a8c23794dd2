"""What the app does about an update that was refused."""

from __future__ import annotations

from types import SimpleNamespace

from omnidraft.learning.adapters.store import AdapterStore
from omnidraft.learning.training_events import Refused
from omnidraft.learning.training_runs import TrainingRuns


def test_what_an_update_has_seen_is_not_tried_again_at_once(tmp_path):
    store = AdapterStore(tmp_path)
    TrainingRuns(None, None).follow(SimpleNamespace(update=None, store=store), Refused(16, "no"))
    assert store.through == 16
