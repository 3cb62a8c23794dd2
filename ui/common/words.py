"""The words of the field, each explained in one sentence where it stands, on hover and on tap."""

from __future__ import annotations

from html import escape

MEANINGS = {
    "target": "The model whose answers you read; whatever guesses for it, the words are its own.",
    "drafter": "The small model that guesses the next few tokens, for the target to check in a single pass.",
    "n-gram cache": "Rows of the drafter's pieces that are one token of the target's, learned as answers are written.",
    "verification": "The target reads all guesses in one pass and keeps those that it would have written itself.",
    "draft": "Time the drafter took to guess.",
    "translate": "Time it took to turn the drafter's pieces into tokens of the target's vocabulary.",
    "verify": "Time the target took to check guesses and to add the token behind them.",
    "passes of the model": "Time the target took, for a token in each pass.",
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
