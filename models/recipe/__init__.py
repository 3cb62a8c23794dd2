"""Makes the bundled drafter of a small instruction model: some of its layers, the first part of its vocabulary.

`cut` reads the parts from the model's GGUF, `answers` has targets write what the drafter shall foresee, `rows` makes
training rows of that, `train` trains. `python -m models.recipe` does it all and goes on where it was stopped.
"""
