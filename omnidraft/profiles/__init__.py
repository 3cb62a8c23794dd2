"""Profiles: one person's settings, conversations, caches and adapters, as a folder, and as one file to carry away.

Knows where things live and how to copy them consistently; what they mean is their packages' business.
"""

from omnidraft.profiles.backups import back_up
from omnidraft.profiles.exporting import export_profile
from omnidraft.profiles.folders import (
    Part,
    Profile,
    create_profile,
    delete_profile,
    describe_profile,
    in_use,
    list_profiles,
    profile_size,
    rename_profile,
)
from omnidraft.profiles.importing import import_profile

__all__ = [
    "Part",
    "Profile",
    "back_up",
    "create_profile",
    "delete_profile",
    "describe_profile",
    "export_profile",
    "import_profile",
    "in_use",
    "list_profiles",
    "profile_size",
    "rename_profile",
]
