"""Log probabilities of an answer's tokens as they become showable, in the two forms that OpenAI's format knows.

A token's entry comes with the text it belongs to: not before, and not at all where a stop text cut it off. What the
numbers mean is told in decoding/topk.py.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Sequence
from typing import Any

from omnidraft.app.answer_job import AnswerJob, Listener
from omnidraft.decoding.events import Event, Finished, Prefill, Token
from omnidraft.decoding.topk import Scores
from omnidraft.vocab import Vocabulary

Entry = tuple[Token, int]  # and the byte of the answer it begins at


class Logprobs(Listener):
    """prefix: what the answer's text leaves out at its beginning (see `answer_prefix`); echo: the prompt, where it
    stands in front of the answer's text, its tokens in front of the answer's."""

    def __init__(self, vocabulary: Vocabulary, prefix: str = "", echo: str = "") -> None:
        self._vocabulary = vocabulary
        self._prefix, self._echo = prefix.encode(), echo.encode("utf-8", "replace")
        self._entries: list[Entry] = []
        self._spelled = self._shown = self._read = 0
        self._cut = self._ended = False

    def event(self, job: AnswerJob, event: Event) -> None:
        if isinstance(event, Token):
            self._shown += len(event.text.encode())
            if event.id in self._vocabulary.eog:
                return
            if not self._entries and self._prefix and event.data.startswith(self._prefix):
                self._spelled = -len(self._prefix)
            self._entries.append((event, max(self._spelled, 0)))
            self._spelled += len(event.data)
        elif isinstance(event, Prefill) and event.scored:
            for token, scores in event.scored:
                data = self._spelling(token)
                self._entries.append((Token(token, data, "", "target", 0, None, scores), self._spelled))
                self._spelled += len(data)
            if event.done == event.total:  # ids that spell no text would set the answer's back
                self._spelled = len(self._echo)
            self._shown = self._spelled
        elif isinstance(event, Finished):
            self._shown += len(event.text.encode())
            self._cut, self._ended = event.reason == "stop_string", True

    def _spelling(self, token: int) -> bytes:
        """What a token of the prompt is of its text: a control token is nothing unless it is spelled out there, and the
        first may have a space in front that only its vocabulary needs."""
        data, rest = self._bytes(token), self._echo[self._spelled :]
        return next((each for each in (data, data[1:]) if each and rest.startswith(each)), b"")

    def news(self) -> list[Entry]:
        """What became showable since the last look."""
        whole = self._ended and not self._cut
        end = self._read
        while end < len(self._entries) and (whole or self._entries[end][1] < self._shown):
            end += 1
        found, self._read = self._entries[self._read : end], end
        return found

    def told(self, of: Callable[[Sequence[Entry]], dict[str, Any]], always: bool) -> dict[str, Any] | None:
        """What became showable since the last look, as `of` has it; None for nothing, unless `always`."""
        found = self.news()
        return of(found) if found or always else None

    def of_chat(self, entries: Sequence[Entry]) -> dict[str, Any]:
        """As a chat's choice holds them."""
        return {"content": [self._described(token) for token, _ in entries], "refusal": None}

    def of_text(self, entries: Sequence[Entry]) -> dict[str, Any]:
        """As a completion's choice holds them; what was said is always among the likeliest named."""
        decoder, at, offsets = codecs.getincrementaldecoder("utf-8")("ignore"), 0, list[int]()
        for token, _ in self._entries[: self._read]:
            offsets.append(at)
            at += len(decoder.decode(token.data))
        found = [(token, token.scores) for token, _ in entries]
        return {
            "tokens": [self._text(token.id) for token, _ in found],
            "token_logprobs": [scores.logprob if scores else None for _, scores in found],
            "top_logprobs": [
                {**{self._text(i): value for i, value in zip(scores.ids, scores.logprobs, strict=True)},
                 self._text(token.id): scores.logprob} if scores else None
                for token, scores in found
            ],
            "text_offset": offsets[len(offsets) - len(entries) :],
        }  # fmt: skip

    def _described(self, token: Token) -> dict[str, Any]:
        scores = _scores(token)
        likeliest = [self._named(i, value) for i, value in zip(scores.ids, scores.logprobs, strict=True)]
        return {**self._named(token.id, scores.logprob), "top_logprobs": likeliest}

    def _named(self, token: int, logprob: float) -> dict[str, Any]:
        return {"token": self._text(token), "logprob": logprob, "bytes": list(self._bytes(token))}

    def _text(self, token: int) -> str:
        return self._bytes(token).decode("utf-8", "replace")

    def _bytes(self, token: int) -> bytes:
        """A control token stands for no text; it is told by its name."""
        return self._vocabulary.pieces[token] or self._vocabulary.control_texts.get(token, b"")


def _scores(token: Token) -> Scores:
    assert token.scores is not None
    return token.scores
