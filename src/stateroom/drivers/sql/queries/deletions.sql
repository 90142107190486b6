-- name: locked
select expires_at from stateroom.thread where thread_id = :thread_id {lock};

-- name: is_begun
select 1 from stateroom.deletion where thread_id = :thread_id;

-- name: begin
insert into stateroom.deletion (thread_id, created_at) values (:thread_id, :now)
on conflict (thread_id) do nothing;

-- name: thread
delete from stateroom.thread where thread_id = :thread_id;

-- name: state
delete from stateroom.thread_state where thread_id = :thread_id;

-- name: terms
delete from stateroom.thread_term where id = :thread_id;

-- name: cron_terms
delete from stateroom.cron_term
where id in (select cron_id from stateroom.cron where thread_id = :thread_id);

-- name: crons
delete from stateroom.cron where thread_id = :thread_id;

-- name: idempotency
delete from stateroom.idempotency where thread_id = :thread_id;

-- name: deliveries
delete from stateroom.delivery where thread_id = :thread_id;

-- name: executing
-- Under its fence its worker could go on writing.
delete from stateroom.run where thread_id = :thread_id and status = 'running' returning run_id;

-- name: waiting
select run_id from stateroom.run where thread_id = :thread_id and status = 'pending' order by seq limit :limit;

-- name: first_runs
-- The place up to which so many of its runs are, null when none is left.
select max(seq) from (
    select seq from stateroom.run where thread_id = :thread_id and seq > :after order by seq limit :limit
) as first;

-- name: idempotency_of_runs
delete from stateroom.idempotency
where run_id in (
    select run_id from stateroom.run where thread_id = :thread_id and seq > :after and seq <= :until
);

-- name: runs
delete from stateroom.run where thread_id = :thread_id and seq > :after and seq <= :until;

-- name: pending
select thread_id from stateroom.deletion order by created_at, thread_id limit :limit;

-- name: end
delete from stateroom.deletion where thread_id = :thread_id;
