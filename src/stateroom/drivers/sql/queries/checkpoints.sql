-- name: running
select 1 from stateroom.run
where run_id = :run_id and thread_id = :thread_id and status = 'running' and fence = :fence {share};

-- name: resting
-- Shared, so that no run of it is claimed until the commit.
select 1 from stateroom.thread where thread_id = :thread_id and status <> 'busy' {share};

-- name: thread
select 1 from stateroom.thread where thread_id = :thread_id {exists};
