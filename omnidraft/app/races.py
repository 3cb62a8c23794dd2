"""The race of a session, one at a time: begun, taught, and standing still while somebody is answered."""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from omnidraft.app.giving_way import GivingWay
from omnidraft.app.race_job import RaceJob
from omnidraft.app.race_view import RacePlan
from omnidraft.app.waiting import StillAnswering
from omnidraft.errors import ModelError

if TYPE_CHECKING:
    from omnidraft.app.session import Session


class Races:
    """latest: the one under way, or the last one."""

    def __init__(self, session: Session) -> None:
        self.latest: RaceJob | None = None
        self._session, self._way = session, GivingWay()
        self._beginning = threading.Lock()

    @property
    def running(self) -> bool:
        return self.latest is not None and self.latest.running

    def begin(self, plan: RacePlan) -> RaceJob:
        """Race; the session's models leave memory for it. StillAnswering while an answer or a race is under way."""
        session = self._session
        with self._beginning:
            self._make_room()
            job = RaceJob(plan, session.assistant, self._way, lambda: session.lent(plan.target) if plan.kept else None)
            if self.latest is not None:
                job.take_over(self.latest)
            self.latest = job
            return job.start()

    def teach(self, prompts: int) -> RaceJob:
        """Teach the drafter of the last race the first prompts of its lesson, and race again. ModelError if there was
        no race to teach for."""
        with self._beginning:
            self._make_room()
            if self.latest is None or not self.latest.can_teach:
                raise ModelError("There is no race to teach for; start one first.")
            return self.latest.teach(prompts)

    def _make_room(self) -> None:
        if self.running:
            raise StillAnswering("A race is under way; stop it in the Drift lab or wait for it.")
        self._session.unload()

    def aside(self) -> AbstractContextManager[None]:
        """It stands still in the block."""
        return self._way.ahead()

    def free(self) -> bool:
        """Whether a race that stands still had memory to release, and did."""
        if self.latest is None or not self.running:
            return False
        self.latest.free()
        return True

    def close(self) -> None:
        if self.latest is not None:
            self.latest.close()
