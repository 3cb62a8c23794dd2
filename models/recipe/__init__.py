"""The recipe behind the bundled models: tokenizers, pretraining and GGUF export, from plain JSONL conversations.

    python -m models.recipe tiny-target-a --data DIR --out DIR --minutes 45

| module | what it holds |
|---|---|
| specs | the four models: architecture, vocabulary, chat template, training tasks |
| tokenizers | trains the three kinds of vocabulary |
| data | reads conversations, renders and encodes them, splits off held-out documents, packs rows |
| schedule | warm-up, constant and decay phases of the learning rate, and what ends a run early |
| start | starts a model from the layers and the vocabulary of another one |
| train, held_out | the training loop and its checkpoints; the loss on held-out documents |
| export, unpack, average | writes folders and GGUF files, reads a file back to train it further, averages two |
| sense, run_checks | right answers on held-out questions, answers that loop; functions run against their checks |
| aside | right answers on questions and conversations in words that `world` does not make |
| world | the generated text that the targets are trained on |

Nothing in here is needed to run the assistant.
"""
