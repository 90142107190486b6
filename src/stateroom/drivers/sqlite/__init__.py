"""Items in one SQLite file, through the standard library's ``sqlite3`` and without extensions.

Known limits: an undeclared filter that few items match reads every item of its scope; a text search
over more than a thousand documents ranks the best thousand of FTS5's own ranking before the others.
"""

from stateroom.drivers.sqlite.items import SqliteItems

__all__ = ["SqliteItems"]
