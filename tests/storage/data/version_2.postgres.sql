-- What schema version 2 left behind: items, files, times to live, words and vectors.
-- Made once with the code of that version; expected.json holds what it read back. Never edit.
CREATE SCHEMA old_schema;
CREATE TABLE old_schema.item (
    address uuid NOT NULL,
    namespace_id bigint NOT NULL,
    key text NOT NULL,
    revision bigint NOT NULL,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL,
    ttl double precision,
    expires_at bigint,
    paths text[],
    length integer DEFAULT 0 NOT NULL,
    raw bytea NOT NULL,
    value jsonb NOT NULL,
    terms bigint[],
    counts integer[],
    file_size bigint,
    file_modified_at text
);
CREATE TABLE old_schema.migration (
    version integer NOT NULL,
    applied_at timestamp with time zone DEFAULT now() NOT NULL
);
CREATE TABLE old_schema.namespace (
    id bigint NOT NULL,
    digest uuid NOT NULL,
    labels text[] NOT NULL,
    path bytea NOT NULL,
    path_reversed bytea NOT NULL
);
ALTER TABLE old_schema.namespace ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME old_schema.namespace_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE SEQUENCE old_schema.revision
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
CREATE TABLE old_schema.setting (
    name text NOT NULL,
    value text NOT NULL
);
CREATE TABLE old_schema.vector (
    revision bigint NOT NULL,
    updated_at bigint NOT NULL,
    address uuid NOT NULL,
    ordinal integer NOT NULL,
    indexed boolean,
    digest bytea NOT NULL,
    embedding public.vector(4) NOT NULL
);
ALTER TABLE ONLY old_schema.vector ALTER COLUMN embedding SET STORAGE MAIN;
INSERT INTO old_schema.item VALUES ('b476f9e5-d04f-255f-f736-f3c151c10f2f', 1, 'harbour', 1, 1800000001000000, 1800000001000000, NULL, NULL, NULL, 5, '\x7b2274657874223a2274686520686172626f7572206174206c6f772074696465222c226e223a317d', '{"n": 1, "text": "the harbour at low tide"}', '{6834963867258796590,359356526591091938,-5689596593789253413,-8424445224320668315,-2932402821314333978}', '{1,1,1,1,1}', NULL, NULL);
INSERT INTO old_schema.item VALUES ('b476f9e5-df64-0bd2-c039-783a71308a7b', 1, 'lantern', 4, 1800000002000000, 1800000003000000, NULL, NULL, NULL, 7, '\x207b2274657874223a2261206c616e7465726e20666f72207468652070696c6f7420626f6174732c207265706c61636564222c226e223a332c2264656570223a7b2261223a5b312c6e756c6c2c313030303030303030303030303030303030303030303030303030303030305d7d7d', '{"n": 3, "deep": {"a": [1, null, 1000000000000000000000000000000]}, "text": "a lantern for the pilot boats, replaced"}', '{4681665781835383343,310043621738222588,2371658415451963965,6834963867258796590,-869140551552792247,6159379067483512395,-3909160727802035280}', '{1,1,1,1,1,1,1}', NULL, NULL);
INSERT INTO old_schema.item VALUES ('b476f9e5-fea0-3403-b52e-3cfa989babfb', 1, 'café 灯台', 6, 1800000006000000, 1800000006000000, NULL, NULL, NULL, 5, '\x7b2274657874223a22756e20636166c3a9207072c3a87320647520706f7274222c226e223a357d', '{"n": 5, "text": "un café près du port"}', '{2932018637419422058,6355573225834878276,6154469320274175858,952865836791846580,2275337369279512434}', '{1,1,1,1,1}', NULL, NULL);
INSERT INTO old_schema.item VALUES ('b476f9e5-67e2-9b80-a3f6-7f90f22433a3', 1, 'aside', 7, 1800000007000000, 1800000007000000, NULL, NULL, '{}', 0, '\x7b2274657874223a22686172626f75722c20627574206e6f7420696e6465786564222c226e223a367d', '{"n": 6, "text": "harbour, but not indexed"}', '{}', '{}', NULL, NULL);
INSERT INTO old_schema.item VALUES ('4469b3eb-d116-a856-63eb-0cb3f3b16065', 2, 'brief', 8, 1800000008000000, 1800000008000000, 60, 1800003608000000, NULL, 4, '\x7b2274657874223a227469646520666f7220616e20686f7572222c226e223a377d', '{"n": 7, "text": "tide for an hour"}', '{-2932402821314333978,2371658415451963965,4531567662604126946,7700900361785820221}', '{1,1,1,1}', NULL, NULL);
INSERT INTO old_schema.item VALUES ('4469b3eb-5ddc-7a4a-9886-754cacd084aa', 2, 'long', 9, 1800000009000000, 1800000009000000, 525600, 1831536009000000, NULL, 4, '\x7b2274657874223a227469646520666f7220612079656172222c226e223a387d', '{"n": 8, "text": "tide for a year"}', '{-2932402821314333978,2371658415451963965,4681665781835383343,7280676884067649902}', '{1,1,1,1}', NULL, NULL);
INSERT INTO old_schema.item VALUES ('c80deed5-f9b6-7f14-3963-c8ddb27698d6', 3, '/notes/a.md', 10, 1800000009000000, 1800000009000000, NULL, NULL, NULL, 0, '\x7b22636f6e74656e74223a5b226f6e652074696465222c2274776f222c22225d2c22637265617465645f6174223a22323032372d30312d31355430383a30303a30392b30303a3030222c226d6f6469666965645f6174223a22323032372d30312d31355430383a30303a30392b30303a3030227d', '{"content": ["one tide", "two", ""], "created_at": "2027-01-15T08:00:09+00:00", "modified_at": "2027-01-15T08:00:09+00:00"}', '{}', '{}', 13, '2027-01-15T08:00:09+00:00');
INSERT INTO old_schema.item VALUES ('c80deed5-cd3d-8dd4-5057-71a68c11b62f', 3, '/notes/b.bin', 11, 1800000010000000, 1800000010000000, NULL, NULL, NULL, 0, '\x7b22636f6e74656e74223a222f2f34416132566c62413d3d222c22656e636f64696e67223a22626173653634222c22637265617465645f6174223a22323032372d30312d31355430383a30303a31302b30303a3030222c226d6f6469666965645f6174223a22323032372d30312d31355430383a30303a31302b30303a3030227d', '{"content": "//4Aa2VlbA==", "encoding": "base64", "created_at": "2027-01-15T08:00:10+00:00", "modified_at": "2027-01-15T08:00:10+00:00"}', '{}', '{}', 7, '2027-01-15T08:00:10+00:00');
INSERT INTO old_schema.item VALUES ('c80deed5-1a90-e614-7f26-52b1cddf6a40', 3, '/c.md', 13, 1800000010000000, 1800000010000001, NULL, NULL, NULL, 0, '\x7b22636f6e74656e74223a5b22616e63686f72222c22225d2c22637265617465645f6174223a22323032372d30312d31355430383a30303a31302b30303a3030222c226d6f6469666965645f6174223a22323032372d30312d31355430383a30303a31302b30303a3030227d', '{"content": ["anchor", ""], "created_at": "2027-01-15T08:00:10+00:00", "modified_at": "2027-01-15T08:00:10+00:00"}', '{}', '{}', 7, '2027-01-15T08:00:10+00:00');
INSERT INTO old_schema.migration VALUES (1, '2026-12-01 03:21:51.778165+00');
INSERT INTO old_schema.migration VALUES (2, '2026-12-01 03:21:51.788394+00');
INSERT INTO old_schema.namespace OVERRIDING SYSTEM VALUE VALUES (1, '2354a380-38d0-c445-50df-d449db65a909', '{notes,ana}', '\x6e6f74657300616e6100', '\x616e61006e6f74657300');
INSERT INTO old_schema.namespace OVERRIDING SYSTEM VALUE VALUES (2, '8ee4742a-892b-ee91-3296-f89decaca162', '{notes,bob}', '\x6e6f74657300626f6200', '\x626f62006e6f74657300');
INSERT INTO old_schema.namespace OVERRIDING SYSTEM VALUE VALUES (3, 'fa796743-f61c-48cf-15e4-1b04fcdede3e', '{ana,filesystem}', '\x616e610066696c6573797374656d00', '\x66696c6573797374656d00616e6100');
INSERT INTO old_schema.setting VALUES ('updated_at', '0');
INSERT INTO old_schema.setting VALUES ('text_signature', '1:english:snowball-3.1.0|text');
INSERT INTO old_schema.vector VALUES (1, 1800000001000000, 'b476f9e5-d04f-255f-f736-f3c151c10f2f', 0, true, '\x65d348b2d413d00538010673c51faef5', '[8,4,6,0]');
INSERT INTO old_schema.vector VALUES (4, 1800000003000000, 'b476f9e5-df64-0bd2-c039-783a71308a7b', 0, true, '\x164ee7113f484114e561344d0a2fdca5', '[12,5,11,0]');
INSERT INTO old_schema.vector VALUES (6, 1800000006000000, 'b476f9e5-fea0-3403-b52e-3cfa989babfb', 0, true, '\xf3f4ae49b42b6823827541e00d67f1cc', '[4,3,4,0]');
INSERT INTO old_schema.vector VALUES (8, 1800000008000000, '4469b3eb-d116-a856-63eb-0cb3f3b16065', 0, true, '\xb2c72cdc63079706a638fe9acf3b8d55', '[6,3,3,0]');
INSERT INTO old_schema.vector VALUES (9, 1800000009000000, '4469b3eb-5ddc-7a4a-9886-754cacd084aa', 0, true, '\x67b0b0eaf8e01f9a63bd01841a178728', '[6,2,3,0]');
SELECT pg_catalog.setval('old_schema.namespace_id_seq', 3, true);
SELECT pg_catalog.setval('old_schema.revision', 13, true);
ALTER TABLE ONLY old_schema.item
    ADD CONSTRAINT item_pkey PRIMARY KEY (address);
ALTER TABLE ONLY old_schema.migration
    ADD CONSTRAINT migration_pkey PRIMARY KEY (version);
ALTER TABLE ONLY old_schema.namespace
    ADD CONSTRAINT namespace_digest_key UNIQUE (digest);
ALTER TABLE ONLY old_schema.namespace
    ADD CONSTRAINT namespace_pkey PRIMARY KEY (id);
ALTER TABLE ONLY old_schema.setting
    ADD CONSTRAINT setting_pkey PRIMARY KEY (name);
ALTER TABLE ONLY old_schema.vector
    ADD CONSTRAINT vector_pkey PRIMARY KEY (revision, ordinal);
CREATE INDEX item_expiry ON old_schema.item USING btree (expires_at) WHERE (expires_at IS NOT NULL);
CREATE INDEX item_in_namespace ON old_schema.item USING btree (namespace_id, updated_at DESC, revision DESC) INCLUDE (expires_at, address, length);
CREATE INDEX item_key_5dba33a5971e98b4_number ON old_schema.item USING btree ((
CASE jsonb_typeof((value -> 'n'::text))
    WHEN 'number'::text THEN ((value -> 'n'::text))::numeric
    ELSE NULL::numeric
END), updated_at DESC, revision DESC) WHERE (
CASE jsonb_typeof((value -> 'n'::text))
    WHEN 'number'::text THEN ((value -> 'n'::text))::numeric
    ELSE NULL::numeric
END IS NOT NULL);
CREATE INDEX item_key_5dba33a5971e98b4_string ON old_schema.item USING btree ("left"(
CASE jsonb_typeof((value -> 'n'::text))
    WHEN 'string'::text THEN (value ->> 'n'::text)
    ELSE NULL::text
END, 200) COLLATE "C", updated_at DESC, revision DESC) WHERE (("left"(
CASE jsonb_typeof((value -> 'n'::text))
    WHEN 'string'::text THEN (value ->> 'n'::text)
    ELSE NULL::text
END, 200) COLLATE "C") IS NOT NULL);
CREATE INDEX item_latest ON old_schema.item USING btree (updated_at DESC, revision DESC) INCLUDE (namespace_id, expires_at, address);
CREATE INDEX item_not_analysed ON old_schema.item USING btree (address) WHERE (terms IS NULL);
CREATE INDEX item_path ON old_schema.item USING btree (namespace_id, "left"(key, 500) COLLATE "C") WHERE ("left"(key, 1) = '/'::text);
CREATE INDEX item_terms ON old_schema.item USING gin (terms) WITH (gin_pending_list_limit='512') WHERE (length > 0);
CREATE INDEX item_value ON old_schema.item USING gin (value jsonb_path_ops) WITH (gin_pending_list_limit='512');
CREATE INDEX namespace_path ON old_schema.namespace USING btree (SUBSTRING(path FROM 1 FOR 1000));
CREATE INDEX namespace_path_reversed ON old_schema.namespace USING btree (SUBSTRING(path_reversed FROM 1 FOR 1000));
CREATE INDEX vector_not_indexed ON old_schema.vector USING btree (indexed, revision) WHERE (indexed IS NOT TRUE);
CREATE INDEX vector_of_item ON old_schema.vector USING btree (address);
CREATE STATISTICS old_schema.item_key_5dba33a5971e98b4_number ON (CASE jsonb_typeof(value -> 'n'::text) WHEN 'number'::text THEN (value -> 'n'::text)::numeric ELSE NULL::numeric END) FROM old_schema.item;
CREATE STATISTICS old_schema.item_key_5dba33a5971e98b4_string ON ("left"(CASE jsonb_typeof(value -> 'n'::text) WHEN 'string'::text THEN value ->> 'n'::text ELSE NULL::text END, 200) COLLATE "C") FROM old_schema.item;
