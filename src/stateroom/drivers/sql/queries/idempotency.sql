-- name: claim
insert into stateroom.idempotency as held
    (scope, key, fingerprint, claim_id, response, thread_id, run_id, created_at, expires_at)
values (:scope, :key, :fingerprint, :claim_id, null, null, null, :now, :now + cast(:lifetime as bigint))
on conflict (scope, key) do update set
    fingerprint = excluded.fingerprint, claim_id = excluded.claim_id, response = null, thread_id = null,
    run_id = null, created_at = excluded.created_at, expires_at = excluded.expires_at
where held.expires_at <= :now
returning scope, key, fingerprint, claim_id, response, thread_id, run_id, created_at, expires_at;

-- name: holder
-- Whatever its expiry: a claim that found it has locked it, and it was alive then.
select scope, key, fingerprint, claim_id, response, thread_id, run_id, created_at, expires_at
from stateroom.idempotency
where scope = :scope and key = :key;

-- name: get
select scope, key, fingerprint, claim_id, response, thread_id, run_id, created_at, expires_at
from stateroom.idempotency
where scope = :scope and key = :key and expires_at > :now;

-- name: thread_of_run
select thread_id from stateroom.run where run_id = :run_id;

-- name: thread
-- Shared with others who note answers; who deletes the thread waits, and then removes the record too.
select 1 from stateroom.thread where thread_id = :thread_id {exists};

-- name: run
select 1 from stateroom.run where run_id = :run_id {exists};

-- name: record
update stateroom.idempotency set
    response = :response, thread_id = cast(:thread_id as text), run_id = cast(:run_id as text),
    expires_at = :now + cast(:lifetime as bigint)
where scope = :scope and key = :key and claim_id = :claim_id and expires_at > :now;

-- name: forget
delete from stateroom.idempotency
where scope = :scope and key = :key and claim_id = :claim_id;

-- name: release
delete from stateroom.idempotency
where scope = :scope and key = :key and claim_id = :claim_id and response is null and expires_at > :now;

-- name: expired
select expires_at, scope, key
from stateroom.idempotency
where expires_at <= :now
order by expires_at, scope, key
limit :limit;

-- name: sweep
-- Planned with its parameters: for any, Postgres would read the whole table.
delete from stateroom.idempotency where (expires_at, scope, key) <= (:expires_at, :scope, :key);
