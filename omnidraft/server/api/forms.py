"""One choice of a completion as its form has it. Of a chat: its message or the deltas of it, with calls of tools where
they were offered; of the older kind: a text that goes on where the prompt ended. Log probabilities come with the text
they belong to, in the two forms that OpenAI's format knows."""

from __future__ import annotations

import codecs
import uuid
from collections.abc import Sequence
from typing import Any

from omnidraft.app.answer_job import AnswerJob, Listener
from omnidraft.decoding.events import Event as Decoded
from omnidraft.decoding.events import Finished, Prefill, Token
from omnidraft.prompting.formats.chat_format import Call, Content, Event, Thoughts, collect
from omnidraft.prompting.formats.reader import AnswerReader
from omnidraft.vocab import Vocabulary

# Log probabilities of an answer's tokens as they become showable. A token's entry comes with the text it belongs to:
# not before, and not at all where a stop text cut it off. What the numbers mean is told in decoding/topk.py.


Entry = tuple[Token, int]  # and the byte of the answer it begins at


class Logprobs(Listener):
    """prefix: what the answer's text leaves out at its beginning (see `answer_prefix`); echo: the prompt, where it
    stands in front of the answer's text, its tokens in front of the answer's."""

    def __init__(self, vocabulary: Vocabulary, prefix: str, echo: str) -> None:
        self._vocabulary = vocabulary
        self._prefix, self._echo = prefix.encode(), echo.encode("utf-8", "replace")
        self._entries: list[Entry] = []
        self._spelled = self._shown = self._read = 0
        self._cut = self._ended = False

    def event(self, job: AnswerJob, event: Decoded) -> None:
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

    def told(self, chat: bool, always: bool) -> dict[str, Any] | None:
        """What became showable since the last look, as a choice of a chat, or of the older kind, holds it; None for
        nothing, unless `always`."""
        entries = self.news()
        if not entries and not always:
            return None
        if chat:
            return {"content": [self._described(token) for token, _ in entries], "refusal": None}
        return self._of_text(entries)

    def _of_text(self, entries: Sequence[Entry]) -> dict[str, Any]:
        """What was said is always among the likeliest named."""
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
        scores = token.scores
        assert scores is not None
        likeliest = [self._named(i, value) for i, value in zip(scores.ids, scores.logprobs, strict=True)]
        return {**self._named(token.id, scores.logprob), "top_logprobs": likeliest}

    def _named(self, token: int, logprob: float) -> dict[str, Any]:
        return {"token": self._text(token), "logprob": logprob, "bytes": list(self._bytes(token))}

    def _text(self, token: int) -> str:
        return self._bytes(token).decode("utf-8", "replace")

    def _bytes(self, token: int) -> bytes:
        """A control token stands for no text; it is told by its name."""
        return self._vocabulary.pieces[token] or self._vocabulary.control_texts.get(token, b"")


# The forms.


class _Form:
    """logprobs: None where they were not asked."""

    def __init__(self, job: AnswerJob, logprobs: Logprobs | None) -> None:
        self._job, self._logprobs, self._read = job, logprobs, 0

    def _written(self) -> str:
        """What was written since the last look."""
        text = self._job.text
        new, self._read = text[self._read :], len(text)
        return new

    def _scores(self, always: bool = False) -> dict[str, Any] | None:
        return self._logprobs.told(isinstance(self, ChatForm), always) if self._logprobs is not None else None


class ChatForm(_Form):
    """reader: parts thoughts and calls from the text; one: only one call was asked for."""

    kind, prefix = "chat.completion", "chatcmpl"

    def __init__(self, job: AnswerJob, reader: AnswerReader, one: bool, logprobs: Logprobs | None) -> None:
        super().__init__(job, logprobs)
        self._reader, self._one = reader, one
        self._calls = 0
        self.called = False  # whether a tool was called, and that call is whole

    def whole(self) -> dict[str, Any]:
        """The choice, when the job is over."""
        read = collect(self._news(True))
        calls = [_described(call.name, call.arguments) for call in read.calls]
        content = read.content or (None if calls else "")
        message: dict[str, Any] = {"role": "assistant", "content": content, "refusal": None}
        if read.reasoning:
            message["reasoning_content"] = read.reasoning
        if calls:
            message["tool_calls"] = calls
        return {"message": message, "logprobs": self._scores(always=True)}

    def opening(self) -> list[dict[str, Any]]:
        return [{"delta": {"role": "assistant", "content": ""}, "logprobs": None}]

    def closing(self) -> dict[str, Any]:
        return {"delta": {}, "logprobs": None}

    def news(self, over: bool) -> list[dict[str, Any]]:
        """What a stream tells of what is new; the log probabilities come with the first part of it."""
        deltas, scores = self._deltas(over), self._scores()
        if scores is not None and not deltas:
            deltas = [{"content": ""}]
        return [{"delta": delta, "logprobs": None if at else scores} for at, delta in enumerate(deltas)]

    def _news(self, over: bool) -> list[Event]:
        """What was read since the last look."""
        cut = self._job.live.finish_reason != "stop"
        found: list[Event] = []
        for event in [*self._reader.feed(self._written()), *(self._reader.finish(cut) if over else [])]:
            if isinstance(event, Call):
                self._calls += 1
                self.called = self.called or event.whole
                if self._one and self._calls > 1:
                    continue
            found.append(event)
        return found

    def _deltas(self, over: bool) -> list[dict[str, Any]]:
        deltas: list[dict[str, Any]] = []
        at = self._calls
        for event in self._news(over):
            if isinstance(event, Thoughts):
                deltas.append({"reasoning_content": event.text})
            elif isinstance(event, Content):
                deltas.append({"content": event.text})
            else:
                deltas.append({"tool_calls": [{"index": at, **_described(event.name, event.arguments)}]})
                at += 1
        return deltas


def _described(name: str, arguments: str) -> dict[str, Any]:
    # Nine letters or digits: the only form Mistral's templates accept.
    return {"id": uuid.uuid4().hex[:9], "type": "function", "function": {"name": name, "arguments": arguments}}


class TextForm(_Form):
    """echo: the prompt, where it is to stand before what was written."""

    kind, prefix = "text_completion", "cmpl"
    called = False

    def __init__(self, job: AnswerJob, echo: str, logprobs: Logprobs | None) -> None:
        super().__init__(job, logprobs)
        self._echo = echo

    def whole(self) -> dict[str, Any]:
        return {"text": self._echo + self._job.text, "logprobs": self._scores(always=True)}

    def opening(self) -> list[dict[str, Any]]:
        """The prompt; where its tokens are scored it comes with them, once it was read."""
        return [{"text": self._echo, "logprobs": None}] if self._echo and self._logprobs is None else []

    def closing(self) -> dict[str, Any]:
        return {"text": "", "logprobs": None}

    def news(self, over: bool) -> list[dict[str, Any]]:
        new, scores = self._written(), self._scores()
        if scores is not None and self._echo:
            new, self._echo = self._echo + new, ""
        return [{"text": new, "logprobs": scores}] if new or scores else []
