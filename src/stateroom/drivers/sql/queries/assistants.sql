-- name: insert
insert into stateroom.assistant (assistant_id, version, latest, graph_id, name, created_at, updated_at)
values (:assistant_id, 1, 1, :graph_id, :name, :now, :now)
on conflict (assistant_id) do nothing
returning created_at;

-- name: insert_version
insert into stateroom.assistant_version
    (assistant_id, version, graph_id, name, description, config, context, metadata, created_at)
values (
    :assistant_id, cast(:version as integer), :graph_id, :name, cast(:description as text),
    :config, :context, :metadata, :created_at
);

-- name: get
select a.assistant_id, v.graph_id, v.name, v.version, a.created_at, a.updated_at,
    v.description, v.config, v.context, v.metadata
from stateroom.assistant a
join stateroom.assistant_version v on v.assistant_id = a.assistant_id and v.version = a.version
where a.assistant_id = :assistant_id;

-- name: lock
-- By itself, before anything else is read: a row that was waited for is read anew, what is joined to it is not.
select version, created_at from stateroom.assistant where assistant_id = :assistant_id {lock};

-- name: columns
select graph_id, name, description, config, context, metadata
from stateroom.assistant_version
where assistant_id = :assistant_id and version = cast(:version as integer);

-- name: make_latest
update stateroom.assistant set
    version = latest + 1, latest = latest + 1, graph_id = :graph_id, name = :name, updated_at = :now
where assistant_id = :assistant_id
returning latest, updated_at;

-- name: activate
update stateroom.assistant set version = cast(:version as integer), graph_id = :graph_id, name = :name
where assistant_id = :assistant_id;

-- name: version
select assistant_id, graph_id, name, version, created_at, created_at, description, config, context, metadata
from stateroom.assistant_version
where assistant_id = :assistant_id and version = cast(:version as integer);

-- name: versions
select assistant_id, graph_id, name, version, created_at, created_at, description, config, context, metadata
from stateroom.assistant_version
where assistant_id = :assistant_id
order by version desc
limit :limit offset :offset;

-- name: crons
-- In this order, so that two who remove crons do not wait for each other.
select cron_id from stateroom.cron where assistant_id = :assistant_id order by cron_id {lock};

-- name: delete_cron_terms
delete from stateroom.cron_term where id in (select value from {each :crons});

-- name: delete_crons
delete from stateroom.cron where cron_id in (select value from {each :crons});

-- name: delete_versions
delete from stateroom.assistant_version where assistant_id = :assistant_id;

-- name: delete_terms
delete from stateroom.assistant_term where id = :assistant_id;

-- name: delete
delete from stateroom.assistant where assistant_id = :assistant_id;
