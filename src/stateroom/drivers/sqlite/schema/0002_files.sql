-- What a listing says of a file without reading it: its size in bytes and the time that it says for itself, as
-- they were put. Null for what is no file. They stand behind the value, which may be on many pages.
alter table stateroom_item add column file_size integer;
alter table stateroom_item add column file_modified_at text;

-- Holds all that a listing answers, so that it reads no row of the table. The condition compares no key: SQLite
-- would prove it from the keys between which a listing reads, and so compile each statement anew for each key.
create index stateroom_item_path on stateroom_item
(namespace_id, key, file_size, file_modified_at, updated_at, expires_at) where substr(key, 1, 1) = '/';
