"""Profiles: one person's settings, conversations, caches and adapters, as a folder, and as one file to carry away.

Knows where things live and how to copy them consistently; what they mean is their packages' business.
"""
