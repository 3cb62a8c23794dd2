"""The app's pages. They sit on top of `omnidraft`, which knows nothing of them. Gradio is imported here, as they want
it."""

from ui import gradio_ways  # noqa: F401
