-- Statements on LangGraph's tables: portable SQL as drivers/sql/dialect.py has it, but for Postgres alone.
-- {held} is a query that has a row if, and only if, the rest may be done. {keys} are rows that name checkpoints.

-- name: insert
with held as materialized ({held}), blobs as (
    insert into stateroom.checkpoint_blobs (thread_id, checkpoint_ns, channel, version, type, blob)
    select cast(:thread_id as text), cast(:ns as text), u.channel, u.version, u.type, u.blob
    from held, unnest(:channels::text[], :versions::text[], :types::text[], :blobs::bytea[])
        u(channel, version, type, blob)
    on conflict do nothing
), checkpoint as (
    insert into stateroom.checkpoints
        (thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, checkpoint, metadata)
    select cast(:thread_id as text), cast(:ns as text), cast(:checkpoint_id as text),
        cast(:parent_id as text), cast(:type as text), cast(:checkpoint as jsonb), cast(:metadata as jsonb)
    from held
    on conflict (thread_id, checkpoint_ns, checkpoint_id)
    do update set checkpoint = excluded.checkpoint, metadata = excluded.metadata
)
select 1 from held;

-- name: insert_writes
with held as materialized ({held}), written as (
    insert into stateroom.checkpoint_writes
        (thread_id, checkpoint_ns, checkpoint_id, task_id, task_path, idx, channel, type, blob)
    select cast(:thread_id as text), cast(:ns as text), cast(:checkpoint_id as text),
        u.task_id, u.task_path, u.idx, u.channel, u.type, u.blob
    from held, unnest(:task_ids::text[], :task_paths::text[], :idxs::integer[], :channels::text[],
        :types::text[], :blobs::bytea[]) u(task_id, task_path, idx, channel, type, blob)
    on conflict (thread_id, checkpoint_ns, checkpoint_id, task_id, idx) do nothing
)
select 1 from held;

-- name: replace_writes
with held as materialized ({held}), written as (
    insert into stateroom.checkpoint_writes
        (thread_id, checkpoint_ns, checkpoint_id, task_id, task_path, idx, channel, type, blob)
    select cast(:thread_id as text), cast(:ns as text), cast(:checkpoint_id as text),
        u.task_id, u.task_path, u.idx, u.channel, u.type, u.blob
    from held, unnest(:task_ids::text[], :task_paths::text[], :idxs::integer[], :channels::text[],
        :types::text[], :blobs::bytea[]) u(task_id, task_path, idx, channel, type, blob)
    on conflict (thread_id, checkpoint_ns, checkpoint_id, task_id, idx)
    do update set channel = excluded.channel, type = excluded.type, blob = excluded.blob
)
select 1 from held;

-- name: load
-- Values are looked up one by one: a join would be planned from how many a thread has on average.
select c.thread_id, c.checkpoint_ns, c.checkpoint_id, (
        select p.checkpoint_id from stateroom.checkpoints p
        where p.thread_id = c.thread_id and p.checkpoint_ns = c.checkpoint_ns
        and p.checkpoint_id = c.parent_checkpoint_id
    ), c.type, c.checkpoint::text, c.metadata::text,
    v.channels, v.versions, v.types, v.blobs,
    w.task_ids, w.task_paths, w.idxs, w.channels, w.types, w.blobs
from {keys} k(thread_id, ns, checkpoint_id, place)
join stateroom.checkpoints c on c.thread_id = k.thread_id and c.checkpoint_ns = k.ns
    and c.checkpoint_id = coalesce(k.checkpoint_id, (
        select l.checkpoint_id from stateroom.checkpoints l
        where l.thread_id = k.thread_id and l.checkpoint_ns = k.ns order by l.checkpoint_id desc limit 1
    ))
cross join lateral (
    select array_agg(e.channel) as channels, array_agg(e.version) as versions,
        array_agg(b.type) as types, array_agg(b.blob) as blobs
    from jsonb_each_text(c.checkpoint -> 'channel_versions') e(channel, version)
    cross join lateral (
        select s.type, s.blob from stateroom.checkpoint_blobs s
        where s.thread_id = c.thread_id and s.checkpoint_ns = c.checkpoint_ns
        and s.channel = e.channel and s.version = e.version limit 1
    ) b
) v
cross join lateral (
    select array_agg(s.task_id) as task_ids, array_agg(s.task_path) as task_paths,
        array_agg(s.idx) as idxs, array_agg(s.channel) as channels,
        array_agg(s.type) as types, array_agg(s.blob) as blobs
    from stateroom.checkpoint_writes s
    where s.thread_id = c.thread_id and s.checkpoint_ns = c.checkpoint_ns
    and s.checkpoint_id = c.checkpoint_id
) w
order by k.place;

-- name: writes_to
select w.checkpoint_id, w.task_id, w.task_path, w.idx, w.channel, w.type, w.blob
from stateroom.checkpoint_writes w
where w.thread_id = :thread_id and w.checkpoint_ns = :ns and w.checkpoint_id = any(:checkpoint_ids::text[])
and w.channel = any(:channels::text[])
order by w.checkpoint_id, w.task_path collate "C", w.task_id collate "C", w.idx;

-- name: writes
select w.task_id, w.task_path, w.idx, w.channel, w.type, w.blob
from stateroom.checkpoint_writes w
where w.thread_id = :thread_id and w.checkpoint_ns = :ns and w.checkpoint_id = :checkpoint_id
order by w.task_path collate "C", w.task_id collate "C", w.idx;

-- name: keys
select c.thread_id, c.checkpoint_ns, c.checkpoint_id, case when :wants_metadata then c.metadata::text end
from stateroom.checkpoints c
where (cast(:thread_id as text) is null or c.thread_id = :thread_id)
and (cast(:ns as text) is null or c.checkpoint_ns = :ns)
and (cast(:checkpoint_id as text) is null or c.checkpoint_id = :checkpoint_id)
and (cast(:before as text) is null or c.checkpoint_id < :before)
and (cast(:contains as jsonb) is null or c.metadata @> cast(:contains as jsonb))
and (cast(:after_id as text) is null or c.checkpoint_id <= :after_id and (
    c.checkpoint_id < :after_id or (c.thread_id, c.checkpoint_ns) > (:after_thread, :after_ns)
))
order by c.checkpoint_id desc, c.thread_id, c.checkpoint_ns
limit :limit;

-- name: namespaces
with recursive c(ns) as (
    select (
        select f.checkpoint_ns from stateroom.checkpoints f
        where f.thread_id = :thread_id order by f.checkpoint_ns limit 1
    )
    union all
    select (
        select f.checkpoint_ns from stateroom.checkpoints f
        where f.thread_id = :thread_id and f.checkpoint_ns > c.ns order by f.checkpoint_ns limit 1
    )
    from c where c.ns is not null
), w(ns) as (
    select (
        select f.checkpoint_ns from stateroom.checkpoint_writes f
        where f.thread_id = :thread_id order by f.checkpoint_ns limit 1
    )
    union all
    select (
        select f.checkpoint_ns from stateroom.checkpoint_writes f
        where f.thread_id = :thread_id and f.checkpoint_ns > w.ns order by f.checkpoint_ns limit 1
    )
    from w where w.ns is not null
)
select c.ns from c where c.ns is not null union select w.ns from w where w.ns is not null order by 1;

-- name: newest
select c.checkpoint_id, (
    select p.checkpoint_id from stateroom.checkpoints p
    where p.thread_id = c.thread_id and p.checkpoint_ns = c.checkpoint_ns
    and p.checkpoint_id = c.parent_checkpoint_id
)
from stateroom.checkpoints c
where c.thread_id = :thread_id and c.checkpoint_ns = :ns
order by c.checkpoint_id desc limit :count;

-- name: newest_not_of
select c.checkpoint_id from stateroom.checkpoints c
where c.thread_id = :thread_id and c.checkpoint_ns = :ns
and c.metadata ->> 'run_id' is distinct from cast(:run_id as text)
order by c.checkpoint_id desc limit 1;

-- name: parent
select p.checkpoint_id from stateroom.checkpoints c
join stateroom.checkpoints p on p.thread_id = c.thread_id and p.checkpoint_ns = c.checkpoint_ns
    and p.checkpoint_id = c.parent_checkpoint_id
where c.thread_id = :thread_id and c.checkpoint_ns = :ns and c.checkpoint_id = :checkpoint_id;

-- name: lineage
with recursive line(checkpoint_id, parent_id, metadata, place) as (
    select c.checkpoint_id, c.parent_checkpoint_id, c.metadata, 1
    from stateroom.checkpoints c
    where c.thread_id = :thread_id and c.checkpoint_ns = :ns and c.checkpoint_id = :checkpoint_id
    union all
    select p.checkpoint_id, p.parent_checkpoint_id, p.metadata, line.place + 1
    from line join stateroom.checkpoints p on p.thread_id = :thread_id and p.checkpoint_ns = :ns
        and p.checkpoint_id = line.parent_id
    where line.place < cast(:most as bigint)
)
select line.checkpoint_id, line.metadata::text from line order by line.place;

-- name: children
select c.checkpoint_id from stateroom.checkpoints c
where c.thread_id = :thread_id and c.checkpoint_ns = :ns
and c.parent_checkpoint_id = any(:checkpoint_ids::text[])
and c.checkpoint_id <> all(:checkpoint_ids::text[])
order by c.checkpoint_id;

-- name: others
-- Writes may have come after their checkpoint had gone.
select c.checkpoint_id from stateroom.checkpoints c
where c.thread_id = :thread_id and c.checkpoint_ns = :ns and c.checkpoint_id < :before
and c.checkpoint_id <> all(:kept::text[])
union
select w.checkpoint_id from stateroom.checkpoint_writes w
where w.thread_id = :thread_id and w.checkpoint_ns = :ns and w.checkpoint_id < :before
and w.checkpoint_id <> all(:kept::text[])
order by 1 limit :limit;

-- name: exists
select 1 from stateroom.checkpoints c
where c.thread_id = :thread_id and c.checkpoint_ns = :ns and c.checkpoint_id = :checkpoint_id;

-- name: of_run
select c.thread_id, c.checkpoint_ns, c.checkpoint_id from stateroom.checkpoints c
where (c.metadata ->> 'run_id') = :run_id;

-- name: remove
with written as (
    delete from stateroom.checkpoint_writes w
    where w.thread_id = :thread_id and w.checkpoint_ns = :ns
    and w.checkpoint_id = any(:checkpoint_ids::text[])
), gone as (
    delete from stateroom.checkpoints c
    where c.thread_id = :thread_id and c.checkpoint_ns = :ns
    and c.checkpoint_id = any(:checkpoint_ids::text[])
    returning c.checkpoint -> 'channel_versions' as versions
), unused as (
    select v.key, v.value from gone cross join lateral jsonb_each_text(gone.versions) v
    except
    select v.key, v.value from stateroom.checkpoints k
    cross join lateral jsonb_each_text(k.checkpoint -> 'channel_versions') v
    where k.thread_id = :thread_id and k.checkpoint_ns = :ns
    and k.checkpoint_id <> all(:checkpoint_ids::text[])
)
delete from stateroom.checkpoint_blobs where ctid = any(array(
    select b.ctid from unused cross join lateral (
        select s.ctid from stateroom.checkpoint_blobs s
        where s.thread_id = :thread_id and s.checkpoint_ns = :ns
        and s.channel = unused.key and s.version = unused.value limit 1
    ) b
));

-- name: erase
-- One table after the other, so that each gets what the ones before left of the limit.
with w as (
    select x.ctid from stateroom.checkpoint_writes x
    where x.thread_id = :thread_id and (cast(:ns as text) is null or x.checkpoint_ns = :ns)
    limit :limit
), b as (
    select x.ctid from stateroom.checkpoint_blobs x
    where x.thread_id = :thread_id and (cast(:ns as text) is null or x.checkpoint_ns = :ns)
    limit cast(:limit as bigint) - (select count(*) from w)
), c as (
    select x.ctid from stateroom.checkpoints x
    where x.thread_id = :thread_id and (cast(:ns as text) is null or x.checkpoint_ns = :ns)
    limit cast(:limit as bigint) - (select count(*) from w) - (select count(*) from b)
), gone_w as (
    delete from stateroom.checkpoint_writes where ctid = any(array(select w.ctid from w)) returning 1
), gone_b as (
    delete from stateroom.checkpoint_blobs where ctid = any(array(select b.ctid from b)) returning 1
), gone_c as (
    delete from stateroom.checkpoints where ctid = any(array(select c.ctid from c)) returning 1
)
select (select count(*) from gone_w) + (select count(*) from gone_b) + (select count(*) from gone_c),
    (select count(*) from w) + (select count(*) from b) + (select count(*) from c);

-- name: copy
with w as (
    insert into stateroom.checkpoint_writes
        (thread_id, checkpoint_ns, checkpoint_id, task_id, task_path, idx, channel, type, blob)
    select cast(:new_id as text), x.checkpoint_ns, x.checkpoint_id, x.task_id, x.task_path, x.idx,
        x.channel, x.type, x.blob
    from stateroom.checkpoint_writes x where x.thread_id = :thread_id
), b as (
    insert into stateroom.checkpoint_blobs (thread_id, checkpoint_ns, channel, version, type, blob)
    select cast(:new_id as text), x.checkpoint_ns, x.channel, x.version, x.type, x.blob
    from stateroom.checkpoint_blobs x where x.thread_id = :thread_id
)
insert into stateroom.checkpoints
    (thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, checkpoint, metadata)
select cast(:new_id as text), x.checkpoint_ns, x.checkpoint_id, x.parent_checkpoint_id, x.type,
    x.checkpoint, x.metadata
from stateroom.checkpoints x where x.thread_id = :thread_id;

-- name: measure_inline
select v.key, sum(octet_length(v.value::text))::bigint
from stateroom.checkpoints c cross join lateral jsonb_each(c.checkpoint -> 'channel_values') v
where c.thread_id = :thread_id and jsonb_typeof(c.checkpoint -> 'channel_values') = 'object' group by v.key;

-- name: measure
select count(*), coalesce(sum(octet_length(c.checkpoint::text) + octet_length(c.metadata::text)), 0)::bigint
from stateroom.checkpoints c where c.thread_id = :thread_id;

-- name: measure_writes
select count(*), coalesce(sum(octet_length(w.blob)), 0)::bigint
from stateroom.checkpoint_writes w where w.thread_id = :thread_id;

-- name: measure_values
select b.channel, coalesce(sum(octet_length(b.blob)), 0)::bigint
from stateroom.checkpoint_blobs b where b.thread_id = :thread_id group by b.channel order by b.channel;

-- name: starts
-- The checkpoint from which a run is about to start, and those of subgraphs on which it may write: the
-- newest of each namespace, if it was interrupted there or is one that outlives its calls.
with recursive start as (
    select coalesce(cast(:checkpoint_id as text), (
        select l.checkpoint_id from stateroom.checkpoints l
        where l.thread_id = :thread_id and l.checkpoint_ns = '' order by l.checkpoint_id desc limit 1
    )) as checkpoint_id
), namespace(ns) as (
    select (
        select f.checkpoint_ns from stateroom.checkpoints f
        where f.thread_id = :thread_id and f.checkpoint_ns > '' order by f.checkpoint_ns limit 1
    )
    union all
    select (
        select f.checkpoint_ns from stateroom.checkpoints f
        where f.thread_id = :thread_id and f.checkpoint_ns > namespace.ns order by f.checkpoint_ns limit 1
    )
    from namespace where namespace.ns is not null
)
select '', start.checkpoint_id from start where start.checkpoint_id is not null
union all
select namespace.ns, head.checkpoint_id from namespace cross join start cross join lateral (
    select c.checkpoint_id, c.metadata from stateroom.checkpoints c
    where c.thread_id = :thread_id and c.checkpoint_ns = namespace.ns
    order by c.checkpoint_id desc limit 1
) head
where namespace.ns is not null
and (strpos(namespace.ns, ':') = 0 or head.metadata -> 'parents' ->> '' = start.checkpoint_id);

-- name: made_by
select c.checkpoint_ns, c.checkpoint_id from stateroom.checkpoints c
where c.thread_id = :thread_id and (c.metadata ->> 'run_id') = :run_id
order by c.checkpoint_ns, c.checkpoint_id;

-- name: remove_writes
delete from stateroom.checkpoint_writes w
where w.thread_id = :thread_id and w.checkpoint_ns = :ns and w.checkpoint_id = :checkpoint_id;

-- name: remove_strays
-- Writes whose checkpoint never came to be.
delete from stateroom.checkpoint_writes w
where w.thread_id = :thread_id and not exists (
    select 1 from stateroom.checkpoints c
    where c.thread_id = w.thread_id and c.checkpoint_ns = w.checkpoint_ns
    and c.checkpoint_id = w.checkpoint_id
);
