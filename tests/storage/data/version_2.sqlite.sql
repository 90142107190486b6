-- What schema version 2 left behind: items, files, times to live, words and vectors.
-- Made once with the code of that version; expected.json holds what it read back. Never edit.
CREATE TABLE stateroom_migration (version integer primary key);
insert into stateroom_migration values (1);
insert into stateroom_migration values (2);
CREATE TABLE stateroom_namespace (
    id integer primary key,
    path blob not null unique
);
insert into stateroom_namespace values (1,X'6E6F74657300616E6100');
insert into stateroom_namespace values (2,X'6E6F74657300626F6200');
insert into stateroom_namespace values (3,X'616E610066696C6573797374656D00');
CREATE TABLE stateroom_item (
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
, file_size integer, file_modified_at text);
insert into stateroom_item values (1,1,'harbour',1800000001000000,1800000001000000,NULL,NULL,NULL,0,'{"text":"the harbour at low tide","n":1}',NULL,NULL);
insert into stateroom_item values (3,1,'lantern',1800000002000000,1800000003000000,NULL,NULL,NULL,1,' {"text":"a lantern for the pilot boats, replaced","n":3,"deep":{"a":[1,null,1000000000000000000000000000000]}}',NULL,NULL);
insert into stateroom_item values (5,1,'café 灯台',1800000006000000,1800000006000000,NULL,NULL,NULL,0,'{"text":"un café près du port","n":5}',NULL,NULL);
insert into stateroom_item values (6,1,'aside',1800000007000000,1800000007000000,NULL,NULL,'[]',0,'{"text":"harbour, but not indexed","n":6}',NULL,NULL);
insert into stateroom_item values (7,2,'brief',1800000008000000,1800000008000000,60.0,1800003608000000,NULL,0,'{"text":"tide for an hour","n":7}',NULL,NULL);
insert into stateroom_item values (8,2,'long',1800000009000000,1800000009000000,525600.0,1831536009000000,NULL,0,'{"text":"tide for a year","n":8}',NULL,NULL);
insert into stateroom_item values (9,3,'/notes/a.md',1800000009000000,1800000009000000,NULL,NULL,NULL,0,'{"content":["one tide","two",""],"created_at":"2027-01-15T08:00:09+00:00","modified_at":"2027-01-15T08:00:09+00:00"}',13,'2027-01-15T08:00:09+00:00');
insert into stateroom_item values (10,3,'/notes/b.bin',1800000010000000,1800000010000000,NULL,NULL,NULL,0,'{"content":"//4Aa2VlbA==","encoding":"base64","created_at":"2027-01-15T08:00:10+00:00","modified_at":"2027-01-15T08:00:10+00:00"}',7,'2027-01-15T08:00:10+00:00');
insert into stateroom_item values (12,3,'/c.md',1800000010000000,1800000010000001,NULL,NULL,NULL,0,'{"content":["anchor",""],"created_at":"2027-01-15T08:00:10+00:00","modified_at":"2027-01-15T08:00:10+00:00"}',7,'2027-01-15T08:00:10+00:00');
CREATE TABLE stateroom_vector (
    id integer primary key,
    digest blob not null,
    embedding blob not null
);
insert into stateroom_vector values (65536,X'65D348B2D413D00538010673C51FAEF5',X'00000041000080400000C04000000000');
insert into stateroom_vector values (196608,X'164EE7113F484114E561344D0A2FDCA5',X'000040410000A0400000304100000000');
insert into stateroom_vector values (327680,X'F3F4AE49B42B6823827541E00D67F1CC',X'00008040000040400000804000000000');
insert into stateroom_vector values (458752,X'B2C72CDC63079706A638FE9ACF3B8D55',X'0000C040000040400000404000000000');
insert into stateroom_vector values (524288,X'67B0B0EAF8E01F9A63BD01841A178728',X'0000C040000000400000404000000000');
CREATE TABLE stateroom_removal (
    sequence integer primary key,
    revision integer not null
);
insert into stateroom_removal values (1,2);
insert into stateroom_removal values (2,4);
CREATE TABLE stateroom_text_document (
    revision integer primary key,
    scope text not null,
    terms text not null,
    length integer not null
);
CREATE VIRTUAL TABLE stateroom_text_index using fts5 (
    scope, terms,
    content = 'stateroom_text_document',
    content_rowid = 'revision',
    tokenize = "ascii tokenchars '!""#$%&()*+,-./:;<=>?@[\]^_`{|}~'"
);
CREATE TABLE stateroom_text_scope (
    id integer primary key,
    path blob not null unique,
    documents integer not null,
    length integer not null
);
CREATE TABLE stateroom_setting (
    name text primary key,
    value not null
) without rowid;
insert into stateroom_setting values ('namespaces_forgotten',0);
insert into stateroom_setting values ('revision',11);
insert into stateroom_setting values ('text_removal',0);
insert into stateroom_setting values ('text_revision',0);
insert into stateroom_setting values ('text_signature','1:english:snowball-3.1.0|text');
insert into stateroom_setting values ('updated_at',1800000010000000);
insert into stateroom_setting values ('vector_dims',4);
delete from stateroom_text_index_data;
insert into stateroom_text_index_data values (1,X'000000');
insert into stateroom_text_index_data values (10,X'00000001000000');
delete from stateroom_text_index_idx;
delete from stateroom_text_index_docsize;
delete from stateroom_text_index_config;
insert into stateroom_text_index_config values ('rank','bm25(0.0, 1.0)');
insert into stateroom_text_index_config values ('version',4);
CREATE UNIQUE INDEX stateroom_item_address on stateroom_item (namespace_id, key);
CREATE INDEX stateroom_item_in_namespace on stateroom_item (namespace_id, revision, expires_at);
CREATE INDEX stateroom_item_expiry on stateroom_item (expires_at) where expires_at is not null;
CREATE INDEX stateroom_item_exotic on stateroom_item (exotic) where exotic = 1;
CREATE TRIGGER stateroom_item_removed after delete on stateroom_item
when exists (select 1 from stateroom_text_document where revision = old.revision)
or exists (
    select 1 from stateroom_vector where id between old.revision << 16 and (old.revision << 16) + 65535
)
begin
    insert into stateroom_removal (revision) values (old.revision);
    delete from stateroom_vector where id between old.revision << 16 and (old.revision << 16) + 65535;
end;
CREATE TRIGGER stateroom_item_last_removed after delete on stateroom_item
when not exists (select 1 from stateroom_item where revision > old.revision)
begin
    update stateroom_setting set value = old.revision where name = 'revision' and value < old.revision;
    update stateroom_setting set value = old.updated_at where name = 'updated_at' and value < old.updated_at;
end;
CREATE TRIGGER stateroom_namespace_forgotten after delete on stateroom_namespace begin
    update stateroom_setting set value = value + 1 where name = 'namespaces_forgotten';
end;
CREATE INDEX stateroom_item_path on stateroom_item
(namespace_id, key, file_size, file_modified_at, updated_at, expires_at) where substr(key, 1, 1) = '/';
CREATE INDEX stateroom_item_key_5dba33a5971e98b4 on stateroom_item (json_extract(value, '$."n"'), revision);
