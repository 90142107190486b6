-- name: current
select r.run_id, r.fence, r.thread_id from stateroom.run r
where r.run_id in (select value from {each :run_ids}) and r.status = 'running'
    and exists (select 1 from stateroom.thread t where t.thread_id = r.thread_id)
order by r.run_id
{share};

-- name: current_at_once
select r.run_id, r.fence, r.thread_id from stateroom.run r
where r.run_id in (select value from {each :run_ids}) and r.status = 'running'
    and exists (select 1 from stateroom.thread t where t.thread_id = r.thread_id)
order by r.run_id
{share skipping};

-- name: lengths
select length(data) from stateroom.frame
where run_id = :run_id and seq >= :first
order by seq
limit :most;

-- name: drop_frames
delete from stateroom.frame where run_id = :run_id and seq < :first
returning length(data);

-- name: drop_counted
update stateroom.stream set first = :first, bytes = bytes - :dropped where run_id = :run_id;

-- name: read
select r.status, s.first, s.last, f.seq, f.event, f.data
from (select cast(:run_id as text) as run_id) asked
left join stateroom.run r on r.run_id = asked.run_id
    and exists (select 1 from stateroom.thread t where t.thread_id = r.thread_id)
left join stateroom.stream s on s.run_id = asked.run_id
left join (
    select seq, event, data from stateroom.frame
    where run_id = :run_id and seq > :after
    order by seq
    limit :limit
) f on true
order by f.seq;

-- name: read_enough
-- Sizes are summed before any data are touched, which may be large.
select r.status, s.first, s.last, f.seq, f.event, f.data
from (select cast(:run_id as text) as run_id) asked
left join stateroom.run r on r.run_id = asked.run_id
    and exists (select 1 from stateroom.thread t where t.thread_id = r.thread_id)
left join stateroom.stream s on s.run_id = asked.run_id
left join (
    select g.seq, g.event, g.data
    from (
        select seq, sum(size) over (order by seq) - size as before from (
            select seq, length(data) as size from stateroom.frame
            where run_id = :run_id and seq > :after
            order by seq
            limit :limit
        ) sized
    ) summed
    join stateroom.frame g on g.run_id = :run_id and g.seq = summed.seq
    where summed.before < :enough_bytes
) f on true
order by f.seq;

-- name: last
select f.seq, f.event, f.data from stateroom.frame f
where f.run_id = :run_id and exists (
    select 1 from stateroom.run r join stateroom.thread t on t.thread_id = r.thread_id where r.run_id = f.run_id
)
order by f.seq desc
limit 1;

-- name: boundary
select s.updated_at, s.run_id from stateroom.stream s
where s.first <= s.last and exists (
    select 1 from stateroom.run r where r.run_id = s.run_id and r.status not in ('pending', 'running')
)
order by s.updated_at desc, s.run_id desc
limit 1 offset :retained;

-- name: beyond
select s.run_id from stateroom.stream s
where s.first <= s.last and (s.updated_at, s.run_id) <= (:updated_at, :run_id) and not exists (
    select 1 from stateroom.run r where r.run_id = s.run_id and r.status in ('pending', 'running')
)
order by s.updated_at, s.run_id
limit :limit;

-- name: orphans
select s.run_id from stateroom.stream s
where s.first <= s.last and (s.updated_at, s.run_id) > (:updated_at, :run_id) and not exists (
    select 1 from stateroom.run r where r.run_id = s.run_id
)
limit :limit;

-- name: kept
select first, last from stateroom.stream
where run_id = :run_id and first <= last
{lock skipping};

-- name: forget_orphan
delete from stateroom.stream
where run_id = :run_id and not exists (select 1 from stateroom.run r where r.run_id = :run_id);

-- name: streams_of_thread
select run_id, first, last from stateroom.stream
where thread_id = :thread_id
order by run_id
limit :limit
{lock};

-- name: erase_frames
delete from stateroom.frame where run_id in (select value from {each :run_ids});

-- name: erase_streams
delete from stateroom.stream where run_id in (select value from {each :run_ids});
