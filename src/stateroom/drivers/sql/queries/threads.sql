-- name: insert
insert into stateroom.thread (
    thread_id, status, created_at, updated_at, state_updated_at, metadata, config,
    ttl_minutes, ttl_strategy, expires_at
)
values (
    :thread_id, :status, :now, :now, :now, :metadata, :config,
    cast(:minutes as double precision), cast(:strategy as text), :now + cast(:lifetime as bigint)
)
on conflict (thread_id) do nothing
returning created_at, expires_at;

-- name: is_being_deleted
select 1 from stateroom.deletion where thread_id = :thread_id;

-- name: locked
select created_at, status, metadata, ttl_minutes, ttl_strategy from stateroom.thread
where thread_id = :thread_id {lock};

-- name: update
-- Null is what stays, except of the time to live.
update stateroom.thread set
    status = coalesce(cast(:status as text), status),
    updated_at = :now,
    state_updated_at = case when cast(:sets_values as integer) = 1 then :now else state_updated_at end,
    metadata = coalesce(:metadata, metadata),
    config = coalesce(:config, config),
    ttl_minutes = cast(:minutes as double precision),
    ttl_strategy = cast(:strategy as text),
    expires_at = :now + cast(:lifetime as bigint)
where thread_id = :thread_id;

-- name: set_state
-- Null is what stays, except of the error.
insert into stateroom.thread_state as s (thread_id, "values", interrupts, error)
values (:thread_id, :values, :interrupts, :error)
on conflict (thread_id) do update set
    "values" = coalesce(excluded."values", s."values"),
    interrupts = coalesce(excluded.interrupts, s.interrupts),
    error = case when cast(:sets_error as integer) = 1 then excluded.error else s.error end;

-- name: terms
select term from stateroom.thread_term where id = :thread_id;

-- name: original
-- Shared, so that what is copied is of one moment.
select metadata, config from stateroom.thread where thread_id = :thread_id {exists};

-- name: interrupts
select interrupts from stateroom.thread_state where thread_id = :thread_id;

-- name: copy_state
insert into stateroom.thread_state (thread_id, "values", interrupts, error)
select cast(:new_id as text), "values", interrupts, null from stateroom.thread_state
where thread_id = :thread_id;

-- name: copy_terms
-- Those of the values; those of the metadata are there.
insert into stateroom.thread_term (term, created_at, id)
select term, cast(:created_at as bigint), cast(:new_id as text) from stateroom.thread_term
where id = :thread_id
on conflict do nothing;

-- name: expiring
select ttl_minutes from stateroom.thread
where thread_id = :thread_id and expires_at = :expires_at {lock};

-- name: rearm
update stateroom.thread set expires_at = :now + cast(:lifetime as bigint) where thread_id = :thread_id;
