-- What a listing says of a file without reading it: its size in bytes and the time that it says for itself, as
-- they were put. Null for what is no file.
alter table stateroom.item add column file_size bigint, add column file_modified_at text;

-- Keys in code-point order, for those that are paths. An entry of a B-tree is bounded and a key is not: this
-- holds the first 500 characters, at most 2,000 bytes, and who reads a range of it looks at the whole keys.
create index item_path on stateroom.item (namespace_id, left(key, 500) collate "C") where left(key, 1) = '/';
