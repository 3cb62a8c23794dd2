"""Conversations exported by other programs: ChatGPT, Open WebUI, LM Studio."""
