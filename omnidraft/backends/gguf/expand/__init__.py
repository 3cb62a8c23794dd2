"""Function-preserving enlargement of a small Llama GGUF and of its LoRA adapters.

The large model says what the small one says and costs what a model of its own shape costs, so that speed can be
measured at realistic cost offline. It knows files only: no model is loaded here, no text is produced. Training on an
expanded model would train another model than the small one: learn at the small size, time at the large one.
"""
