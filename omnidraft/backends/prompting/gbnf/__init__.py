"""Grammars in GBNF: read (parse.py), compiled (program.py) and followed byte by byte (machine.py), all under limits.

Nothing of a grammar reaches llama.cpp: its own reader and sampler end the process, or never end, on texts that are
easily written. Knows nothing of tokens or vocabularies.
"""

from omnidraft.backends.prompting.gbnf.limits import GrammarError

__all__ = ["GrammarError"]
