-- name: thread
-- Who deletes it waits, and then removes the cron too.
select 1 from stateroom.thread where thread_id = :thread_id {exists};

-- name: assistant
select 1 from stateroom.assistant where assistant_id = :assistant_id {exists};

-- name: insert
insert into stateroom.cron (
    cron_id, assistant_id, thread_id, schedule, timezone, enabled, payload, metadata, on_run_completed,
    user_id, private, next_run_at, end_at, occurrence, error, created_at, updated_at
)
values (
    :cron_id, :assistant_id, cast(:thread_id as text), :schedule, cast(:timezone as text), :enabled, :payload,
    :metadata, :on_run_completed, cast(:user_id as text), :private, cast(:next_run_at as bigint),
    cast(:end_at as bigint), 0, null, :now, :now
)
on conflict (cron_id) do nothing
returning created_at;

-- name: get
select cron_id, assistant_id, thread_id, schedule, timezone, enabled, payload, metadata, on_run_completed,
    user_id, null, next_run_at, end_at, occurrence, error, created_at, updated_at
from stateroom.cron
where cron_id = :cron_id;

-- name: lock
select schedule, timezone, enabled, payload, metadata, on_run_completed, next_run_at, end_at, private,
    created_at
from stateroom.cron
where cron_id = :cron_id {lock};

-- name: update
update stateroom.cron set
    schedule = :schedule, timezone = cast(:timezone as text), enabled = :enabled, payload = :payload,
    metadata = :metadata, on_run_completed = :on_run_completed, next_run_at = cast(:next_run_at as bigint),
    end_at = cast(:end_at as bigint), private = :private, occurrence = occurrence + 1, error = null,
    updated_at = :now
where cron_id = :cron_id;

-- name: delete
delete from stateroom.cron where cron_id = :cron_id;

-- name: delete_terms
delete from stateroom.cron_term where id = :cron_id;

-- name: due
select cron_id, assistant_id, thread_id, schedule, timezone, enabled, payload, metadata, on_run_completed,
    user_id, private, next_run_at, end_at, occurrence, error, created_at, updated_at
from stateroom.cron
where enabled and next_run_at is not null and next_run_at <= :now
order by next_run_at, cron_id
limit :limit;

-- name: next_run_at
select next_run_at
from stateroom.cron
where enabled and next_run_at is not null
order by next_run_at
limit 1;

-- name: move_on
update stateroom.cron set
    occurrence = occurrence + 1, next_run_at = cast(:next_run_at as bigint), error = null
where cron_id = :cron_id and enabled and occurrence = :occurrence;

-- name: fail
update stateroom.cron set
    occurrence = occurrence + 1, next_run_at = cast(:next_run_at as bigint), error = :error
where cron_id = :cron_id and occurrence = :occurrence;
