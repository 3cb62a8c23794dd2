"""Functions that a model may ask to be called: built-in ones, local, without side effects, bounded in time and size;
and those of programs that the machine's owner named (MCP servers).

Knows nothing of models, pages or who allowed a call.
"""
