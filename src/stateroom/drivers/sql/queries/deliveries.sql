-- name: insert
insert into stateroom.delivery
    (delivery_id, run_id, thread_id, url, payload, status, attempts, due_at, error, created_at, updated_at)
values (:delivery_id, :run_id, :thread_id, :url, :payload, 'pending', 0, :now, null, :now, :now)
on conflict (delivery_id) do nothing;

-- name: get
select delivery_id, run_id, thread_id, url, payload, status, attempts, due_at, error, created_at, updated_at
from stateroom.delivery
where delivery_id = :delivery_id;

-- name: of_run
select delivery_id, run_id, thread_id, url, payload, status, attempts, due_at, error, created_at, updated_at
from stateroom.delivery
where run_id = :run_id
order by created_at desc, delivery_id desc;

-- name: due
-- One that is delivering is due when its lease has ended.
select delivery_id
from stateroom.delivery
where status in ('pending', 'delivering') and due_at <= :now
order by due_at, delivery_id
limit :limit {lock skipping};

-- name: claim
update stateroom.delivery set
    status = 'delivering', attempts = attempts + 1, due_at = :now + cast(:lease as bigint), updated_at = :now
where delivery_id in (select value from {each :ids})
returning delivery_id, run_id, thread_id, url, payload, status, attempts, due_at, error, created_at, updated_at;

-- name: succeed
update stateroom.delivery set status = 'delivered', payload = null, updated_at = :now
where delivery_id = :delivery_id and status = 'delivering' and attempts = :attempts;

-- name: fail
-- A dead one keeps when it was due.
update stateroom.delivery set
    status = case when cast(:retry_in as bigint) is null then 'dead' else 'pending' end,
    due_at = coalesce(:now + cast(:retry_in as bigint), due_at), error = :error, updated_at = :now
where delivery_id = :delivery_id and status = 'delivering' and attempts = :attempts;

-- name: retry
update stateroom.delivery set status = 'pending', attempts = 0, due_at = :now, updated_at = :now
where delivery_id = :delivery_id and payload is not null
returning delivery_id, run_id, thread_id, url, payload, status, attempts, due_at, error, created_at, updated_at;

-- name: next_due_at
select due_at
from stateroom.delivery
where status in ('pending', 'delivering')
order by due_at
limit 1;

-- name: done
select delivery_id
from stateroom.delivery
where status in ('delivered', 'dead') and updated_at < :before
order by updated_at
limit :limit {lock skipping};

-- name: remove
delete from stateroom.delivery where delivery_id in (select value from {each :ids});
