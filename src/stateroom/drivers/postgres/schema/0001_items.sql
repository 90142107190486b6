-- Times are microseconds since 1970 UTC, ttl is minutes.

-- Namespaces that hold, or have held, an item. The path is the labels' UTF-8, each ended by 0x00, so that
-- a prefix of labels is a range of bytes and byte order is label order; path_reversed is that of the
-- labels from the last to the first. Indexes hold the first 1,000 bytes, since entries of a B-tree are
-- bounded and paths are not; the digest finds a whole path.
create table stateroom.namespace (
    id bigint generated always as identity primary key,
    digest uuid not null unique,
    labels text[] not null,
    path bytea not null,
    path_reversed bytea not null
);

create index namespace_path on stateroom.namespace (substring(path for 1000));
create index namespace_path_reversed on stateroom.namespace (substring(path_reversed for 1000));

-- Gives each put a number that is greater than those of all puts that ended before it began.
create sequence stateroom.revision;

-- One row an item. The address is a digest of namespace and key, which may be of any length; its first
-- bytes are the namespace's, so that items of one are neighbours in the index. raw is the
-- JSON as it was put, value the same for filters to look at. terms are the distinct terms of the text as
-- 64-bit digests, counts how often each occurs, length the sum of those; terms is null until analysed.
create table stateroom.item (
    address uuid primary key,
    namespace_id bigint not null,
    key text not null,
    revision bigint not null,
    created_at bigint not null,
    updated_at bigint not null,
    ttl double precision,
    expires_at bigint,
    paths text[],
    length integer not null default 0,
    raw bytea not null,
    value jsonb not null,
    terms bigint[],
    counts integer[]
);

create index item_in_namespace on stateroom.item (namespace_id, updated_at desc, revision desc)
    include (expires_at, address, length);
create index item_latest on stateroom.item (updated_at desc, revision desc)
    include (namespace_id, expires_at, address);
create index item_expiry on stateroom.item (expires_at) where expires_at is not null;
create index item_not_analysed on stateroom.item (address) where terms is null;
-- A search reads what has not been merged into a GIN index from a list, which therefore is kept short.
create index item_value on stateroom.item using gin (value jsonb_path_ops)
    with (gin_pending_list_limit = 512);
create index item_terms on stateroom.item using gin (terms) with (gin_pending_list_limit = 512)
    where length > 0;

create table stateroom.setting (
    name text primary key,
    value text not null
);

-- The greatest time of an item that was removed, should the clock run back behind it.
insert into stateroom.setting (name, value) values ('updated_at', '0');
