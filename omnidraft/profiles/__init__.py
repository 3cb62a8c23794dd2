"""Profiles: one person's settings, conversations, caches and adapters, as a folder.

Knows where things live and what they take; what they mean is their packages' business.
"""
