-- What is said to LangGraph's tables of checkpoints. Their names and columns are those that its savers expect.

-- name: checkpoints
create table if not exists checkpoints (
    thread_id text not null,
    checkpoint_ns text not null default '',
    checkpoint_id text not null,
    parent_checkpoint_id text,
    type text,
    checkpoint blob,
    metadata blob,
    primary key (thread_id, checkpoint_ns, checkpoint_id)
);

-- name: writes
create table if not exists writes (
    thread_id text not null,
    checkpoint_ns text not null default '',
    checkpoint_id text not null,
    task_id text not null,
    task_path text not null default '',
    idx integer not null,
    channel text not null,
    type text,
    value blob,
    primary key (thread_id, checkpoint_ns, checkpoint_id, task_id, idx)
);

-- name: task_path
alter table writes add column task_path text not null default '';

-- name: stateroom_checkpoint_run
-- Ours, as the next; LangGraph's savers keep them up to date without knowing. Metadata that they wrote may
-- hold NaN, which is no JSON to SQLite and would fail their statement.
create index if not exists stateroom_checkpoint_run on checkpoints (
    case when json_valid(cast(metadata as text)) then json_extract(cast(metadata as text), '$.run_id') end
);

-- name: stateroom_checkpoint_root
create index if not exists stateroom_checkpoint_root on checkpoints (
    thread_id,
    case when json_valid(cast(metadata as text)) then json_extract(cast(metadata as text), '$.parents.""') end
) where checkpoint_ns <> '';

-- name: names
select name from sqlite_master;

-- name: columns
select name from pragma_table_info('writes');

-- name: load
select c.thread_id, c.checkpoint_ns, c.checkpoint_id, (
        select p.checkpoint_id from checkpoints p
        where p.thread_id = c.thread_id and p.checkpoint_ns = c.checkpoint_ns
            and p.checkpoint_id = c.parent_checkpoint_id
    ), c.type, c.checkpoint, cast(c.metadata as blob)
from checkpoints c where thread_id = :thread_id and checkpoint_ns = :ns and checkpoint_id = :checkpoint_id;

-- name: newest
select c.checkpoint_id, (
        select p.checkpoint_id from checkpoints p
        where p.thread_id = c.thread_id and p.checkpoint_ns = c.checkpoint_ns
            and p.checkpoint_id = c.parent_checkpoint_id
    )
from checkpoints c where thread_id = :thread_id and checkpoint_ns = :ns
order by checkpoint_id desc limit :count;

-- name: newest_not_of
select checkpoint_id from checkpoints
where thread_id = :thread_id and checkpoint_ns = :ns
    and case when json_valid(cast(metadata as text)) then json_extract(cast(metadata as text), '$.run_id') end
    is not :run_id
order by checkpoint_id desc limit 1;

-- name: pending
select task_id, task_path, idx, channel, type, value from writes
where thread_id = :thread_id and checkpoint_ns = :ns and checkpoint_id = :checkpoint_id
order by task_path, task_id, idx;

-- name: writes_to
select checkpoint_id, task_id, task_path, idx, channel, type, value from writes
where thread_id = :thread_id and checkpoint_ns = :ns
    and checkpoint_id in (select value from {each :ids}) and channel in (select value from {each :channels})
order by checkpoint_id, task_path, task_id, idx;

-- name: lineage
-- The joins say which table comes first, since the planner might read the whole thread for each step.
with recursive line(place, checkpoint_id, parent_id) as (
    select 1, checkpoint_id, parent_checkpoint_id from checkpoints
    where thread_id = :thread_id and checkpoint_ns = :ns and checkpoint_id = :checkpoint_id
    union all
    select place + 1, c.checkpoint_id, c.parent_checkpoint_id
    from line l cross join checkpoints c on c.checkpoint_id = l.parent_id
    where c.thread_id = :thread_id and c.checkpoint_ns = :ns and place < :count
)
select l.checkpoint_id, l.parent_id, cast(c.metadata as blob)
from line l cross join checkpoints c on c.checkpoint_id = l.checkpoint_id
where c.thread_id = :thread_id and c.checkpoint_ns = :ns order by place;

-- name: parent
select p.checkpoint_id from checkpoints c cross join checkpoints p on p.checkpoint_id = c.parent_checkpoint_id
where c.thread_id = :thread_id and c.checkpoint_ns = :ns and c.checkpoint_id = :checkpoint_id
    and p.thread_id = :thread_id and p.checkpoint_ns = :ns;

-- name: children
select checkpoint_id from checkpoints
where thread_id = :thread_id and checkpoint_ns = :ns
    and parent_checkpoint_id in (select value from {each :ids})
    and checkpoint_id not in (select value from {each :ids});

-- name: exists
select 1 from checkpoints
where thread_id = :thread_id and checkpoint_ns = :ns and checkpoint_id = :checkpoint_id;

-- name: of_run
select thread_id, checkpoint_ns, checkpoint_id from checkpoints
where case when json_valid(cast(metadata as text)) then json_extract(cast(metadata as text), '$.run_id') end
    = :run_id;

-- name: made_in
select checkpoint_ns, checkpoint_id from checkpoints
where thread_id = :thread_id and checkpoint_ns <> ''
    and case when json_valid(cast(metadata as text)) then json_extract(cast(metadata as text), '$.parents.""') end
    = :root;

-- name: checkpoints_namespaces
-- The next namespace is looked up from the one before, without reading the rows in between.
with recursive found(ns) as (
    select min(checkpoint_ns) from checkpoints where thread_id = :thread_id
    union all
    select (select min(checkpoint_ns) from checkpoints where thread_id = :thread_id and checkpoint_ns > ns)
    from found where ns is not null
)
select ns from found where ns is not null;

-- name: writes_namespaces
with recursive found(ns) as (
    select min(checkpoint_ns) from writes where thread_id = :thread_id
    union all
    select (select min(checkpoint_ns) from writes where thread_id = :thread_id and checkpoint_ns > ns)
    from found where ns is not null
)
select ns from found where ns is not null;

-- name: others
-- Writes may have come after their checkpoint had gone.
select checkpoint_id from checkpoints
where thread_id = :thread_id and checkpoint_ns = :ns
    and checkpoint_id < :before and checkpoint_id not in (select value from {each :kept})
union
select checkpoint_id from writes
where thread_id = :thread_id and checkpoint_ns = :ns
    and checkpoint_id < :before and checkpoint_id not in (select value from {each :kept})
order by 1 limit :limit;

-- name: checkpoints_measure
select count(*),
    coalesce(sum(
        coalesce(length(cast(checkpoint as blob)), 0) + coalesce(length(cast(metadata as blob)), 0)
    ), 0)
from checkpoints where thread_id = :thread_id;

-- name: writes_measure
select count(*), coalesce(sum(coalesce(length(cast(value as blob)), 0)), 0)
from writes where thread_id = :thread_id;

-- name: checkpoints_copy
insert into checkpoints
    (thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, checkpoint, metadata)
select :new_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, checkpoint, metadata
from checkpoints where thread_id = :thread_id;

-- name: writes_copy
insert into writes
    (thread_id, checkpoint_ns, checkpoint_id, task_id, task_path, idx, channel, type, value)
select :new_id, checkpoint_ns, checkpoint_id, task_id, task_path, idx, channel, type, value
from writes where thread_id = :thread_id;

-- name: insert
insert or replace into checkpoints
    (thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, checkpoint, metadata)
values (:thread_id, :ns, :checkpoint_id, :parent_id, :type, :checkpoint, :metadata);

-- name: add_write
insert or ignore into writes
    (thread_id, checkpoint_ns, checkpoint_id, task_id, task_path, idx, channel, type, value)
values (:thread_id, :ns, :checkpoint_id, :task_id, :task_path, :idx, :channel, :type, :blob);

-- name: replace_write
insert or replace into writes
    (thread_id, checkpoint_ns, checkpoint_id, task_id, task_path, idx, channel, type, value)
values (:thread_id, :ns, :checkpoint_id, :task_id, :task_path, :idx, :channel, :type, :blob);

-- name: checkpoints_remove
delete from checkpoints
where thread_id = :thread_id and checkpoint_ns = :ns and checkpoint_id in (select value from {each :ids});

-- name: writes_remove
delete from writes
where thread_id = :thread_id and checkpoint_ns = :ns and checkpoint_id in (select value from {each :ids});

-- name: remove_stray
delete from writes where thread_id = :thread_id and not exists (
    select 1 from checkpoints c
    where c.thread_id = writes.thread_id and c.checkpoint_ns = writes.checkpoint_ns
        and c.checkpoint_id = writes.checkpoint_id
);

-- name: checkpoints_erase
delete from checkpoints
where rowid in (select rowid from checkpoints where thread_id = :thread_id limit :limit);

-- name: writes_erase
delete from writes where rowid in (select rowid from writes where thread_id = :thread_id limit :limit);

-- name: checkpoints_erase_namespace
delete from checkpoints where rowid in (
    select rowid from checkpoints where thread_id = :thread_id and checkpoint_ns = :ns limit :limit
);

-- name: writes_erase_namespace
delete from writes where rowid in (
    select rowid from writes where thread_id = :thread_id and checkpoint_ns = :ns limit :limit
);
