"""What the app does about an update that was refused."""

from __future__ import annotations

from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from omnidraft.learning.runs import Runs


@pytest.mark.parametrize("suspect", [True, False])
def test_answers_are_set_aside_only_if_they_are_suspect_and_are_not_tried_again_at_once(suspect):
    keeping = Mock()
    run = SimpleNamespace(update=None, store=Mock(), job=SimpleNamespace(tables={"v": "table"}, through=8))
    Runs(keeping, Mock()).follow(run, {"event": "refused", "through": 16, "suspect": suspect})
    run.store.reject_update.assert_called_once_with(16)
    if suspect:
        keeping.quarantine.assert_called_once_with({"v": "table"}, 8, 16)
    else:
        keeping.quarantine.assert_not_called()
