"""The tables of a conversation store. Migrations are only ever appended; a released one is never edited.

Messages form a tree by `parent`. Among the messages with one parent exactly one is active: following the active ones
from the first turn gives the conversation as shown. `seq` orders siblings by age.
"""

from __future__ import annotations

from omnidraft.storage.database import Migration

APPLICATION_ID = 0x4F44_4331  # "ODC1" in the SQLite header

MIGRATIONS: tuple[Migration, ...] = (
    (
        "conversations and messages",
        """
        CREATE TABLE conversations (
            id TEXT PRIMARY KEY,
            title TEXT NOT NULL,
            named INTEGER NOT NULL,
            created REAL NOT NULL,
            updated REAL NOT NULL,
            system TEXT NOT NULL,
            sampling TEXT,
            target TEXT,
            speculation INTEGER NOT NULL
        );
        CREATE TABLE messages (
            seq INTEGER PRIMARY KEY AUTOINCREMENT,
            id TEXT NOT NULL UNIQUE,
            chat TEXT NOT NULL REFERENCES conversations(id),
            parent TEXT REFERENCES messages(id),
            role TEXT NOT NULL,
            content TEXT NOT NULL,
            created REAL NOT NULL,
            active INTEGER NOT NULL,
            meta TEXT NOT NULL
        );
        CREATE INDEX messages_by_parent ON messages(chat, parent);
        CREATE INDEX messages_by_parent_alone ON messages(parent);
        CREATE UNIQUE INDEX one_active_version ON messages(chat, ifnull(parent, '')) WHERE active;
        """,
    ),
    (
        "what is still to be done",
        # 'erase': a deletion was killed before the file was cleaned; 'index': the search index misses messages.
        "CREATE TABLE chores (name TEXT PRIMARY KEY);",
    ),
    (
        "conversations kept at the top of the list",
        "ALTER TABLE conversations ADD COLUMN pinned INTEGER NOT NULL DEFAULT 0;",
    ),
    (
        "presets and prompts of one's own",
        # kind: 'preset' or 'prompt'; body: its values as JSON.
        "CREATE TABLE library (kind TEXT NOT NULL, name TEXT NOT NULL, body TEXT NOT NULL, PRIMARY KEY (kind, name));",
    ),
    (
        "tags on conversations",
        "ALTER TABLE conversations ADD COLUMN tags TEXT NOT NULL DEFAULT '[]';",
    ),
    (
        "functions that a model may ask for",
        # JSON: the names of those that run without a question; NULL: none are offered.
        "ALTER TABLE conversations ADD COLUMN tools TEXT;",
    ),
    (
        "conversations put away",
        "ALTER TABLE conversations ADD COLUMN archived INTEGER NOT NULL DEFAULT 0;",
    ),
    (
        "pictures in messages",
        # data: base64 of a PNG or JPEG file; digest: the SHA-256 of that file, by which messages name it.
        "CREATE TABLE pictures (digest TEXT PRIMARY KEY, data TEXT NOT NULL);",
    ),
)
