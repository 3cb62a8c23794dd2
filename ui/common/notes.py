"""Small parts of all pages as HTML: good or bad news, which screen readers announce, words explained, tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path

from omnidraft.errors import Damaged, OmniDraftError
from omnidraft.format import percent, size
from omnidraft.processes.progress import Progress
from omnidraft.profiles.folders import Part


def note(text: str, bad: bool = False, undo: str = "", more: str = "", recover: bool = False) -> str:
    """undo: by what to take back what is told, with a button, as recover is for damaged conversations; they work where
    the page has the event for them. more: what few want to know, on hover and on tap."""
    if not text:
        return ""
    mark = escape(undo)
    button = f' <button type="button" class="od-undo" data-kind="undo" data-mark="{mark}">Undo</button>' if undo else ""
    button += ' <button type="button" class="od-undo" data-kind="recover">Recover</button>' if recover else ""
    button += f' <button type="button" class="od-tip" data-tip="{escape(more)}">In numbers</button>' if more else ""
    kind, role = (" od-bad", "alert") if bad else ("", "status")
    return f'<div class="od-note{kind}" role="{role}">{escape(text)}{button}</div>'


def refused(error: OmniDraftError) -> str:
    """What was refused and why; damaged conversations can be recovered where that is told."""
    return note(str(error), bad=True, recover=isinstance(error, Damaged))


# A click on a button with a `data-kind`, or a choice in a list with one, becomes the event `act`, which carries all
# that its `data-` attributes say.
CLICKS = """
element.addEventListener('click', (event) => {
  const button = event.target.closest('button[data-kind]');
  if (button) trigger('act', {...button.dataset});
});
element.addEventListener('change', ({target}) => {
  if (target.matches('select[data-kind]')) trigger('act', {...target.dataset, value: target.value});
});
"""


def refusal_of(act: Callable[[], object]) -> str:
    """Why `act` was refused, as bad news; "" where it was not."""
    try:
        act()
    except OmniDraftError as error:
        return note(str(error), bad=True)
    return ""


def loading(progress: Progress) -> str:
    """What is being done while a model is loaded, and how much of that is."""
    doing = progress.doing or "waiting for its turn"
    share = f", {percent(progress.share)}" if progress.share is not None else ""
    return f"Loading {progress.path.stem}: {doing}{share}."


# The words of the field, each explained in one sentence where it stands, on hover and on tap.


MEANINGS = {
    "target": "The model whose answers you read; whatever guesses for it, the words are its own.",
    "drafter": "The small model that guesses the next few tokens, for the target to check in a single pass.",
    "n-gram cache": "Rows of the drafter's pieces that are one token of the target's, learned as answers are written.",
    "draft": "Time the drafter took to guess.",
    "translate": "Time it took to turn the drafter's pieces into tokens of the target's vocabulary.",
    "verify": "Time the target took to check guesses and to add the token behind them.",
    "passes of the model": "Time the target took, for a token in each pass.",
    "passes without guesses": "Time the target took where nothing was guessed, for a token in each pass.",
    "other": "Time for choosing tokens and for everything else between two passes.",
    "target alone": "Tokens the target wrote where no guess was right, or none was made.",
    "drafted, direct": "Guesses kept whose bytes are a token in both vocabularies.",
    "drafted, n-gram": "Guesses kept that the n-gram cache put together: several pieces of the drafter's, one token.",
    "drafted, split": "Guesses kept where one piece of the drafter's is several tokens of the target's.",
    "copied from the text": "Guesses kept that were copied from earlier text, without the drafter.",
    "forced by the grammar": "Tokens that the wanted form left no choice about.",
    "recovered after": "Prompts until acceptance was at 95% of what it had been before the change.",
    "n-grams learned": "Rows of pieces the n-gram cache has learned to read as one token of the target's.",
    "plain decoding": "The same model without a drafter: one token in each pass, measured in the answer itself.",
    "version": "What the drafter had learned when it was last taken into use; the Learning page has all versions.",
    "tokens per pass": "Tokens that one pass of the target brought; plain decoding has one.",
    "accepted": "Of the tokens proposed to the target, how many it would have written itself.",
}  # fmt: skip


def tip(word: str, shown: str | None = None) -> str:
    """A word with its explanation, as HTML; a word that needs none stays as it is."""
    meaning = MEANINGS.get(word)
    text = escape(shown or word)
    if meaning is None:
        return text
    return f'<button type="button" class="od-tip" data-tip="{escape(meaning)}">{text}</button>'


# Tables as HTML, in a frame that scrolls sideways where the page is narrow, and lists of files.


def table(names: Sequence[str], rows: str) -> str:
    """`rows` are made of `cells`; the names of the columns stand above them."""
    head = "".join(f'<th scope="col">{name}</th>' for name in names)
    body = f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
    return f'<div class="od-scroll" tabindex="0">{body}</div>'


def cells(values: Sequence[str]) -> str:
    return "".join(f"<td>{value}</td>" for value in values)


def files(parts: Sequence[Part], root: Path) -> str:
    """Where each part lives, and how large it is; paths inside `root` without it."""
    rows = "".join(
        f"<li><span>{escape(part.what)}</span><b>{size(part.bytes) if part.bytes else '–'}</b>"
        f"<code>{escape(str(part.path.relative_to(root) if part.path.is_relative_to(root) else part.path))}</code></li>"
        for part in parts
    )
    return f'<p class="od-path">In {escape(str(root))}:</p><ul class="od-files">{rows}</ul>'
