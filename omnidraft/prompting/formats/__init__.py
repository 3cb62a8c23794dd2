"""How models write their answers: found out from their chat templates, and read as the answers come.

`of_template` asks the template, `chat_format` has what it finds, `reader` reads. Knows nothing of tokens or models.
"""
