"""An answer in the store: there from its first second on, so that a crash loses a second of it, and whole in the end.

Knows what is kept of an answer; who starts one, and with which messages, is conversing.py's business.
"""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from omnidraft.app import models_list
from omnidraft.app.answer_job import ENDED, AnswerJob, Listener
from omnidraft.app.live import PlainSpeed
from omnidraft.app.session import Session
from omnidraft.chats import Message
from omnidraft.chats.records import steps_meta
from omnidraft.decoding.events import Event, Round
from omnidraft.decoding.request import AnswerRequest
from omnidraft.errors import StorageError
from omnidraft.prompting.own_ids import Spelled
from omnidraft.prompting.prompted_model import Continued
from omnidraft.settings.config import SamplingSettings

SAVE_EVERY = 1.0  # seconds


class KeptAnswer(Listener):
    """Stores one answer while it grows and when it is done. continued: what of it was there before, None for a new
    one."""

    def __init__(self, session: Session, message: Message, continued: Continued | None = None) -> None:
        self.session, self.message, self.continued = session, message, continued
        self._goes_on = continued is not None or bool(message.steps)
        self._target = session.assistant.target_name
        self._saved = time.monotonic()

    @classmethod
    def of_new(cls, session: Session, question: Message, sampling: SamplingSettings) -> KeptAnswer:
        """An empty answer to `question`, in the store."""
        switched = session.switched.pop(question.chat, None)
        first = not any(message.role == "assistant" for message in session.store.path(question.chat))
        # Above the first answer of a chat nothing is said of a switch: there was no other model before.
        note = (None if first else switched) or session.switched.pop(None, None)
        template = AnswerRequest((), sampling).told(session.assistant.need_engine().target.template)
        meta = _said({
            "target": session.assistant.target_name, "note": note, "seed": sampling.seed,
            "thinks": template.opens_thoughts or None, "marks": template.thought_marks, "partial": True,
        })  # fmt: skip
        message = session.store.append(question.chat, "assistant", "", parent=question.id, meta=meta)
        return cls(session, message)

    @classmethod
    def of_begun(cls, session: Session, message: Message) -> KeptAnswer:
        ended, text, own = message.meta.get("finish_reason") in ENDED, message.content, message.own_ids
        if steps := message.steps:  # it goes on behind the last of them, where perhaps nothing was said yet
            text, own = text[steps[-1].at :], own.part(steps[-1].ids)
            if not text:
                return cls(session, message)
        ids = own.ids if own.vocabulary == _vocabulary(session) else ()
        return cls(session, message, Continued(text, ids, ended))

    def stepped(self, job: AnswerJob) -> None:
        """What functions did stays known, also behind a crash."""
        meta = {**self.message.meta, "steps": steps_meta(job.steps)}
        self.session.store.save_partial(self.message.id, job.spoken, meta)

    def event(self, job: AnswerJob, event: Event) -> None:
        if not isinstance(event, Round):
            return
        now = time.monotonic()
        if now - self._saved >= SAVE_EVERY:
            self._saved = now
            self.session.store.save_partial(self.message.id, job.spoken)

    def over(self, job: AnswerJob) -> None:
        """Store the answer. Its conversation goes on with the model it began with: by what name is found out now, not
        before the answer."""
        self._finish(job)
        session, chat = self.session, self.message.chat
        try:
            settled = session.store.get(chat).target is not None
        except StorageError:  # it was deleted meanwhile
            return
        if session.loaded is not None and not settled:
            keep_target(session, chat, session.loaded)

    def _finish(self, job: AnswerJob) -> None:
        live = job.live
        if self._goes_on:
            if job.text == job.begun and (job.error or live.finish_reason is None):  # the model said nothing
                meta = {**self.message.meta, **({"steps": steps_meta(job.steps)} if job.steps else {})}
                self.session.store.save_partial(self.message.id, job.text, meta, final=True)
                return
            live.add_earlier(self.message.statistics)
        plain = live.plain(self.session.plain_rounds) or stored_plain(self.message)
        live.settled_plain = plain  # another target's rounds, or its own again, must not change it
        begun = self.message.meta
        meta = _said({
            "statistics": asdict(live.statistics),
            "token_ids": [*(own := self.own_before()).ids, *live.ids],
            "vocabulary": own.vocabulary or None,
            "origins": [origin for _, origin in live.pieces],
            "target": self._target,
            "seed": live.seed if live.seed is not None else begun.get("seed"),
            "finish_reason": "failed" if job.error else live.finish_reason,
            "pieces": [text for text, _ in live.pieces],
            "notices": live.notices,
            "error": job.error,
            **{name: begun.get(name) for name in ("note", "thinks", "marks")},
            **({"plain": plain.speed, "plain_error": plain.error} if plain is not None else {}),
            "disabled": live.disabled_reason,
            "steps": steps_meta(job.steps),
        })  # fmt: skip
        self.session.store.save_partial(self.message.id, job.text, meta, final=True)

    def own_before(self) -> Spelled:
        """Ids of the part that was there, as the engine read them, and the vocabulary of the answer's; "" if they are
        of several."""
        engine, steps = self.session.assistant.engine, self.message.steps
        if engine is None:
            return Spelled("", ())
        now = _vocabulary(self.session)
        # In the vocabulary of the answer's own ids steps count theirs.
        called = self.message.own_ids.part(0, steps[-1].ids) if steps else Spelled(now, ())
        same = called.vocabulary == now
        return Spelled(now if same else "", (*called.ids, *engine.written_ids(self.continued)))


def _vocabulary(session: Session) -> str:
    """The fingerprint of the loaded target's; "" while none is."""
    engine = session.assistant.engine
    return engine.target.model.vocabulary.fingerprint if engine is not None else ""


def _said(meta: dict[str, Any]) -> dict[str, Any]:
    """Without what there is nothing to say of."""
    return {name: value for name, value in meta.items() if value is not None and value != []}


def keep_target(session: Session, chat: str, target: Path) -> None:
    """Let this model answer in this conversation from now on. By its name: paths mean nothing elsewhere."""
    name = models_list.name_of(models_list.targets(session.assistant), target)
    if name is None:
        return
    session.named_targets[name] = target
    if session.store.get(chat).target != name:
        session.store.update(chat, target=name)


def stored_plain(message: Message) -> PlainSpeed | None:
    """The speed an answer would have had plainly, if it is known how well that is known."""
    speed, error = message.meta.get("plain"), message.meta.get("plain_error")
    return PlainSpeed(speed, error) if speed and error is not None else None
