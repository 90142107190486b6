-- What is asked of runs, and of threads as the queues that they are. run_rows.py fills in
-- {run}: the columns of a run that anybody may read;
-- {status}: the status of a run that is found by its id;
-- {there}: that the thread of the run r is there;
-- {next_at}: when the next run of the thread t can be claimed, null while one is executing or none waits;
-- {expiry}: when the thread t expires if its clock is restarted.

-- name: lock_thread
select status from stateroom.thread where thread_id = :thread_id {lock};

-- name: lock_threads
select thread_id from stateroom.thread
where thread_id in (select value from {each :thread_ids})
order by thread_id {lock};

-- name: queue
-- After runs came or went.
update stateroom.thread as t set next_at = {next_at}
where t.thread_id in (select value from {each :thread_ids})
returning next_at;

-- name: enqueue
-- After runs were made, which keeps the thread alive.
update stateroom.thread as t set next_at = {next_at}, updated_at = :now, expires_at = {expiry}
where t.thread_id = :thread_id
returning next_at;

-- name: occupy
update stateroom.thread as t set status = 'busy', next_at = null, updated_at = :now, expires_at = {expiry}
where t.thread_id = :thread_id;

-- name: free
-- After the run that it was busy with has stopped.
update stateroom.thread as t set
    status = :status, next_at = {next_at}, updated_at = :now, expires_at = {expiry}
where t.thread_id = :thread_id
returning next_at;

-- name: interrupts
select interrupts from stateroom.thread_state where thread_id = :thread_id;

-- name: insert
insert into stateroom.run (
    run_id, thread_id, assistant_id, assistant_version, status, created_at, updated_at, available_at,
    multitask, metadata, kwargs, private
)
values (
    :run_id, :thread_id, :assistant_id, :assistant_version, 'pending', :at, :at, :available_at,
    :multitask, :metadata, :kwargs, :private
)
on conflict (run_id) do nothing;

-- name: is_active
-- Whether the thread has an executing run, or one that is due.
select 1 from stateroom.run where thread_id = :thread_id and status = 'running'
union all
select 1 from (
    select 1 as due from stateroom.run
    where thread_id = :thread_id and status = 'pending' and available_at <= :at limit 1
) as waiting
limit 1;

-- name: executing
select run_id, seq, thread_id, status, fence, mark from stateroom.run
where thread_id = :thread_id and status = 'running' {lock};

-- name: due
select run_id, seq, thread_id, status, fence, mark from stateroom.run
where thread_id = :thread_id and status = 'pending' and available_at <= :at
order by available_at, seq {lock};

-- name: stoppable
-- All who lock several runs do so in the order of their ids.
select run_id, seq, thread_id, status, fence, mark from stateroom.run
where run_id in (select value from {each :run_ids}) and {status} in (select value from {each :statuses})
order by run_id {lock};

-- name: interrupt
update stateroom.run set
    status = 'interrupted', cancel_reason = cast(:reason as text), private = null, mark = null,
    ended_at = :now, updated_at = :now
where run_id in (select value from {each :run_ids}) and {status} = 'pending';

-- name: ask
update stateroom.run set
    cancel = :action, cancel_reason = coalesce(cast(:reason as text), cancel_reason), updated_at = :now
where run_id in (select value from {each :run_ids}) and {status} = 'running'
    and (cancel is null or cancel = 'interrupt' and :action = 'rollback');

-- name: remove
delete from stateroom.run
where run_id in (select value from {each :run_ids}) and status <> 'running';

-- name: remove_idempotency
delete from stateroom.idempotency where run_id in (select value from {each :run_ids});

-- name: thread_of
select r.thread_id from stateroom.run r where r.run_id = :run_id and {there};

-- name: status_of
select status from stateroom.run where run_id = :run_id;

-- name: get
select {run} from stateroom.run r where r.run_id = :run_id and {there};

-- name: rows
select {run} from stateroom.run where seq in (select value from {each bigint :places}) order by seq desc;

-- name: newest
select r.seq from stateroom.run r
where r.seq < :before and {there}
order by r.seq desc limit :most;

-- name: newest_with_status
-- {one} is a status. Several are walked side by side. Spelled so that only an index that begins with the
-- status has the order: among all runs those with a rare status would be looked for too long.
select r.seq from stateroom.run r
where r.status >= {one} and (r.status, r.seq) < ({one}, :before) and {there}
order by r.status desc, r.seq desc limit :most;

-- name: newest_of_thread_with_status
select r.seq from stateroom.run r
where r.thread_id = :thread_id and r.status = {one} and r.seq < :before and {there}
order by r.seq desc limit :most;

-- name: newest_of_ids
select r.seq from stateroom.run r
where r.run_id in (select value from {each :run_ids})
    and {status} in (select value from {each :statuses})
    and (cast(:thread_id as text) is null or r.thread_id = cast(:thread_id as text))
    and r.seq < :before and {there}
order by r.seq desc limit :most;

-- name: oldest_with_status
select r.seq, r.run_id, r.thread_id from stateroom.run r
where r.status >= {one} and r.status <= {one} and {there}
order by r.status, r.seq limit :most;

-- name: oldest_of_thread_with_status
select r.seq, r.run_id, r.thread_id from stateroom.run r
where r.thread_id = :thread_id and r.status = {one} and {there}
order by r.seq limit :most;

-- name: oldest_of_ids
select r.seq, r.run_id, r.thread_id from stateroom.run r
where r.run_id in (select value from {each :run_ids})
    and {status} in (select value from {each :statuses})
    and (cast(:thread_id as text) is null or r.thread_id = cast(:thread_id as text))
    and {there}
order by r.seq limit :most;

-- name: claimable
select thread_id from stateroom.thread
where next_at <= :now
order by next_at, thread_id limit :most {lock skipping};

-- name: claim
-- No two attempts have one fence, not even those of two runs which had one id after each other.
update stateroom.run set
    status = 'running', attempt = attempt + 1,
    fence = case fence when 0 then seq * 16777216 else fence end + 1,
    lease_owner = :owner, lease_until = :now + cast(:lease as bigint),
    cancel = null, cancel_reason = null, started_at = coalesce(started_at, :now), updated_at = :now
where run_id = (
    select run_id from stateroom.run
    where thread_id = :thread_id and status = 'pending'
    order by available_at, seq limit 1
)
returning {run}, private;

-- name: leased
select r.run_id, r.thread_id, r.fence, r.cancel from stateroom.run r
where r.run_id in (select value from {each :run_ids}) and {status} = 'running' and {there}
order by r.run_id {lock};

-- name: renew
update stateroom.run set lease_until = :now + cast(:lease as bigint)
where run_id in (select value from {each :run_ids}) and {status} = 'running';

-- name: is_current
select 1 from stateroom.run r
where r.run_id = :run_id and r.thread_id = :thread_id and r.status = 'running' and r.fence = :fence and {there};

-- name: marked
select r.mark from stateroom.run r
where r.run_id = :run_id and r.thread_id = :thread_id and r.status = 'running' and r.fence = :fence and {there}
{lock};

-- name: mark
update stateroom.run set mark = :mark where run_id = :run_id and status = 'running' and fence = :fence;

-- name: settle
update stateroom.run set
    status = :status, error = :error, private = null, mark = null,
    -- Who was asked to cancel it does not know why.
    cancel_reason = case
        when :status = 'interrupted' then coalesce(cast(:reason as text), cancel_reason)
        else cast(:reason as text)
    end,
    lease_owner = null, lease_until = null, ended_at = :now, updated_at = :now
where run_id = :run_id and thread_id = :thread_id and status = 'running' and fence = :fence
returning {run};

-- name: release
update stateroom.run set
    status = case when cancel is null then 'pending' else 'interrupted' end,
    ended_at = case when cancel is null then null else :now end,
    private = case when cancel is null then private end,
    mark = case when cancel is null then mark end,
    attempt = attempt - 1, lease_owner = null, lease_until = null, updated_at = :now
where run_id = :run_id and thread_id = :thread_id and status = 'running' and fence = :fence
returning {run};

-- name: overdue
select run_id, thread_id from stateroom.run
where status = 'running' and lease_until <= :now
order by lease_until limit :most;

-- name: executed
select run_id, thread_id from stateroom.run where status = 'running' order by lease_until limit :most;

-- name: lost
-- Those that are still so; who renews a lease locks the run alone.
select run_id, thread_id, cancel, attempt from stateroom.run
where run_id in (select value from {each :run_ids}) and {status} = 'running'
    and (lease_until <= :now or cast(:everybody as boolean))
order by run_id {lock};

-- name: hand_back
update stateroom.run set status = 'pending', lease_owner = null, lease_until = null, updated_at = :now
where run_id = :run_id and status = 'running'
returning {run};

-- name: give_up
update stateroom.run set
    status = :status, error = :error, private = null, mark = null,
    lease_owner = null, lease_until = null, ended_at = :now, updated_at = :now
where run_id = :run_id and status = 'running'
returning {run};

-- name: next_available_at
select next_at from stateroom.thread where next_at is not null order by next_at limit 1;
