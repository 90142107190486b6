-- Every name begins with stateroom_, since a file may be shared with other tables.

-- Namespaces that hold at least one row of item. The path is the labels' UTF-8, each ended by 0x00, so
-- that a prefix of labels is a range of bytes and byte order is label order.
create table stateroom_namespace (
    id integer primary key,
    path blob not null unique
);

-- One row an item. A put always makes a new row, so the revision is also the order of puts, and text and
-- vectors that are kept by revision can never belong to another value. A new revision is greater than
-- all here and than the setting revision, and its time not before theirs. Times are microseconds since 1970 UTC, ttl is minutes.
create table stateroom_item (
    revision integer primary key,
    namespace_id integer not null,
    key text not null,
    created_at integer not null,
    updated_at integer not null,
    ttl real,
    expires_at integer,
    paths text,
    exotic integer not null,
    value text not null
);

create unique index stateroom_item_address on stateroom_item (namespace_id, key);
create index stateroom_item_in_namespace on stateroom_item (namespace_id, revision, expires_at);
create index stateroom_item_expiry on stateroom_item (expires_at) where expires_at is not null;
create index stateroom_item_exotic on stateroom_item (exotic) where exotic = 1;

-- Embedded texts. The id is revision * 65536 + ordinal.
create table stateroom_vector (
    id integer primary key,
    digest blob not null,
    embedding blob not null
);

-- What was replaced or deleted, for those who keep something by revision: the text index, which removes
-- such documents when it next catches up, and the vectors in the memory of every process.
create table stateroom_removal (
    sequence integer primary key,
    revision integer not null
);

create trigger stateroom_item_removed after delete on stateroom_item
when exists (select 1 from stateroom_text_document where revision = old.revision)
or exists (
    select 1 from stateroom_vector where id between old.revision << 16 and (old.revision << 16) + 65535
)
begin
    insert into stateroom_removal (revision) values (old.revision);
    delete from stateroom_vector where id between old.revision << 16 and (old.revision << 16) + 65535;
end;

-- The settings keep the greatest revision and time ever when their row goes, so that no revision is given
-- out twice, and time does not run back.
create trigger stateroom_item_last_removed after delete on stateroom_item
when not exists (select 1 from stateroom_item where revision > old.revision)
begin
    update stateroom_setting set value = old.revision where name = 'revision' and value < old.revision;
    update stateroom_setting set value = old.updated_at where name = 'updated_at' and value < old.updated_at;
end;

-- Terms of the items up to the setting text_revision. scope lists the ids of all text_scope rows that
-- the item is in, the root's first.
create table stateroom_text_document (
    revision integer primary key,
    scope text not null,
    terms text not null,
    length integer not null
);

create virtual table stateroom_text_index using fts5 (
    scope, terms,
    content = 'stateroom_text_document',
    content_rowid = 'revision',
    tokenize = "ascii tokenchars '!""#$%&()*+,-./:;<=>?@[\]^_`{|}~'"
);

-- The scope column selects and does not rank.
insert into stateroom_text_index (stateroom_text_index, rank) values ('rank', 'bm25(0.0, 1.0)');

-- How many documents each namespace and each of its ancestors has below it, and their summed length.
create table stateroom_text_scope (
    id integer primary key,
    path blob not null unique,
    documents integer not null,
    length integer not null
);

create table stateroom_setting (
    name text primary key,
    value not null
) without rowid;

insert into stateroom_setting (name, value)
values ('revision', 0), ('updated_at', 0), ('text_revision', 0), ('text_removal', 0), ('namespaces_forgotten', 0);

-- Lets every process see that its list of namespaces is out of date; new ones show by their ids.
create trigger stateroom_namespace_forgotten after delete on stateroom_namespace begin
    update stateroom_setting set value = value + 1 where name = 'namespaces_forgotten';
end;
