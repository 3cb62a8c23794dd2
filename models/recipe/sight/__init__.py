"""Teaches a bundled target to see: drawings, a small vision tower, and the projector file it becomes."""
