"""What was learned so far, for pages and commands: versions, updates, answers served. Looks and changes nothing."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from omnidraft.errors import OmniDraftError
from omnidraft.learning.adapters.serving import Adapters
from omnidraft.learning.facts import ServedAnswer, Start, Update, VersionInfo
from omnidraft.learning.material.capture import Pairing
from omnidraft.learning.material.history import History
from omnidraft.learning.material.open_stores import OpenStores, files_of
from omnidraft.learning.status import version_facts
from omnidraft.storage.paths import Part, ProfilePaths

log = logging.getLogger("omnidraft.learning")


class Learned:
    """Of the drafter and vocabulary that are loaded (`pairing`, None while none are), unless a method says else."""

    def __init__(
        self, profile: ProfilePaths, cache: Path, adapters: Adapters, stores: OpenStores,
        pairing: Callable[[], Pairing | None],
    ) -> None:  # fmt: skip
        self._profile, self._cache, self._adapters = profile, cache, adapters
        self._stores, self._pairing = stores, pairing

    def versions(self) -> list[VersionInfo]:
        """The versions, newest first."""
        if (pairing := self._pairing()) is None:
            return []
        with self._looking() as history:
            return version_facts(pairing.choice, self._adapters, history)

    def starts(self) -> list[Start]:
        """What could serve besides the versions: what was learned for another vocabulary, and the bare drafter."""
        pairing = self._pairing()
        if pairing is None or pairing.choice.store is None:
            return []
        warm = self._adapters.start(pairing.choice)
        found = [Start(True, pairing.choice.origin == "warm start", warm.meta.target)] if warm is not None else []
        return [*found, Start(False, pairing.choice.origin == "none")]

    def subject(self) -> tuple[str, str] | None:
        """The drafter and the family of vocabularies it learns for; None while none is loaded."""
        pairing = self._pairing()
        return (pairing.choice.drafter.stem, pairing.pair.target.family) if pairing is not None else None

    def history(self, limit: int = 50) -> list[Update]:
        """Updates, newest first; of all while nothing is loaded."""
        with self._looking() as history:
            return history.updates(limit, self._store_name()) if history else []

    def served_answers(self, limit: int = 500) -> list[ServedAnswer]:
        """The last answers, oldest first; with all while nothing is loaded."""
        with self._looking() as history:
            return history.served(limit, self._store_name()) if history else []

    def files(self) -> list[Part]:
        """Where everything learned in the profile lives, and how large it is."""
        return files_of(self._profile, self._adapters, self._cache)

    def _store_name(self) -> str | None:
        pairing = self._pairing()
        if pairing is None or pairing.choice.store is None:
            return None
        return self._adapters.store_name(pairing.choice.store)

    @contextmanager
    def _looking(self) -> Iterator[History | None]:
        with ExitStack() as looks:
            try:
                history = looks.enter_context(self._stores.looking())
            except OmniDraftError as error:
                log.warning("%s", error)
                history = None
            yield history
