"""Errors whose message is one clear sentence a user can act on.

The command line prints the message and exits with 2; the pages show it in place. Nothing above this
module catches `Exception` to hide a defect: only these are meant for display.
"""


class OmniDraftError(Exception):
    """Base of every error meant for display."""


class Defect(OmniDraftError):
    """What people are told of a mistake in the program itself; the traceback is in the log."""

    def __init__(self) -> None:
        super().__init__("Something went wrong inside the program; its log has the details.")


class ModelError(OmniDraftError):
    """A model file is missing, damaged, unsupported, or cannot do what was asked of it."""


class NoRoom(ModelError):
    """A model does not fit into the memory that is free now."""


class ContextFull(ModelError):
    """The last message and what has to stand before it are longer than the model's context."""


class PictureError(OmniDraftError):
    """A picture that cannot be used, or a model that cannot see it."""


class PromptRefused(ModelError):
    """The model's chat template cannot write this conversation."""


class GrammarError(OmniDraftError):
    """A grammar or schema that cannot be used; the message says why."""


class SettingsError(OmniDraftError):
    """A setting is outside its accepted range; the message names the setting and the range."""


class StorageError(OmniDraftError):
    """The data home or one of its files cannot be read, written or trusted."""


class Damaged(StorageError):
    """A file holds what nobody can read, or what is not ours."""


def first_line(error: BaseException) -> str:
    """What a library's error says, short enough for a sentence."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200].rstrip(".")
