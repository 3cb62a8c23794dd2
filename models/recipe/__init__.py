"""Makes the bundled drafter of a small instruction model: some of its layers, the first part of its vocabulary.

`answers` has targets write what the drafter shall foresee, `cut` reads the parts from the model's GGUF, `train` trains
them. `python -m models.recipe` does it all and goes on where it was stopped.
"""
