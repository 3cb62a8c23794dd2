"""The app's pages. They sit on top of `omnidraft`, which knows nothing of them."""
