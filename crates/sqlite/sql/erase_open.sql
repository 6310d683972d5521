-- From here on SQLite overwrites what it frees in the file.
PRAGMA secure_delete = ON
