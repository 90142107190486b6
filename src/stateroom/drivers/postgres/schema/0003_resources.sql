-- What a server keeps beside the items: assistants, threads, runs, crons and what goes with them.
-- Times are microseconds since 1970 UTC; metadata, config and the like are JSON as bytes.

create table stateroom.assistant (
    assistant_id text collate "C" primary key,
    version integer not null,
    latest integer not null,
    graph_id text collate "C" not null,
    name text collate "C" not null,
    created_at bigint not null,
    updated_at bigint not null
);
create index assistant_created on stateroom.assistant (created_at, assistant_id);
create index assistant_updated on stateroom.assistant (updated_at, assistant_id);
create index assistant_graph on stateroom.assistant (graph_id, created_at, assistant_id);
-- A name may be longer than what an index in order takes.
create index assistant_name on stateroom.assistant using hash (name);

create table stateroom.assistant_version (
    assistant_id text collate "C" not null,
    version integer not null,
    graph_id text collate "C" not null,
    name text collate "C" not null,
    description text collate "C",
    config bytea not null,
    context bytea not null,
    metadata bytea not null,
    created_at bigint not null,
    primary key (assistant_id, version)
);

-- What metadata hold, one row for each leaf, in the order in which what it describes was made.
create table stateroom.assistant_term (
    term bigint not null,
    created_at bigint not null,
    id text collate "C" not null,
    primary key (term, created_at, id)
);
create index assistant_term_id on stateroom.assistant_term (id);

create table stateroom.thread (
    thread_id text collate "C" primary key,
    status text collate "C" not null,
    created_at bigint not null,
    updated_at bigint not null,
    state_updated_at bigint not null,
    metadata bytea not null,
    config bytea not null,
    ttl_minutes double precision,
    ttl_strategy text collate "C",
    expires_at bigint,
    -- When its next run can be claimed; null while one is executing, or none is pending.
    next_at bigint
);
create index thread_created on stateroom.thread (created_at, thread_id);
create index thread_updated on stateroom.thread (updated_at, thread_id);
create index thread_state_updated on stateroom.thread (state_updated_at, thread_id);
create index thread_status on stateroom.thread (status, created_at, thread_id);
create index thread_status_id on stateroom.thread (status, thread_id);
create index thread_expires on stateroom.thread (expires_at) where expires_at is not null;
create index thread_next on stateroom.thread (next_at, thread_id) where next_at is not null;

-- Apart from the thread, which changes often and is small; null values are none.
create table stateroom.thread_state (
    thread_id text collate "C" primary key,
    "values" bytea,
    interrupts bytea,
    error bytea
);

create table stateroom.thread_term (
    term bigint not null,
    created_at bigint not null,
    id text collate "C" not null,
    primary key (term, created_at, id)
);
create index thread_term_id on stateroom.thread_term (id);

-- Threads that are gone, of which something may be left.
create table stateroom.deletion (
    thread_id text collate "C" primary key,
    created_at bigint not null
);

create table stateroom.run (
    seq bigint generated always as identity,
    run_id text collate "C" primary key,
    thread_id text collate "C" not null,
    assistant_id text collate "C" not null,
    assistant_version integer not null,
    status text collate "C" not null,
    created_at bigint not null,
    updated_at bigint not null,
    available_at bigint not null,
    started_at bigint,
    ended_at bigint,
    multitask text collate "C" not null,
    metadata bytea not null,
    kwargs bytea not null,
    private bytea,
    -- What a roll-back returns to.
    mark bytea,
    attempt integer not null default 0,
    fence bigint not null default 0,
    lease_owner text collate "C",
    lease_until bigint,
    cancel text collate "C",
    cancel_reason text collate "C",
    error bytea
);
-- The only one that begins with the thread's id alone: no plan can walk all of a thread for one status.
create index run_status on stateroom.run (thread_id, status, seq);
create index run_waiting on stateroom.run (thread_id, available_at, seq) where status = 'pending';
create unique index run_seq on stateroom.run (seq);
create index run_by_status on stateroom.run (status, seq);
-- No two runs of a thread are executing.
create unique index run_executing on stateroom.run (thread_id) where status = 'running';
create index run_lease on stateroom.run (lease_until) where status = 'running';

-- The stream of each run: which frames are kept, and how many bytes they have. It stays when all have been
-- swept, to know which there were. updated_at is in whole seconds, so that its index seldom changes.
create table stateroom.stream (
    run_id text collate "C" primary key,
    thread_id text collate "C" not null,
    first bigint not null,
    last bigint not null,
    bytes bigint not null,
    updated_at bigint not null
);
create index stream_thread on stateroom.stream (thread_id, run_id);
create index stream_kept on stateroom.stream (updated_at, run_id) where first <= last;

create table stateroom.frame (
    run_id text collate "C" not null,
    seq bigint not null,
    event text collate "C" not null,
    data bytea not null,
    primary key (run_id, seq)
);

create table stateroom.cron (
    cron_id text collate "C" primary key,
    assistant_id text collate "C" not null,
    thread_id text collate "C",
    schedule text collate "C" not null,
    timezone text collate "C",
    enabled boolean not null,
    payload bytea not null,
    metadata bytea not null,
    on_run_completed text collate "C" not null,
    user_id text collate "C",
    private bytea,
    next_run_at bigint,
    end_at bigint,
    occurrence bigint not null,
    error text collate "C",
    created_at bigint not null,
    updated_at bigint not null
);
create index cron_due on stateroom.cron (next_run_at, cron_id) where enabled and next_run_at is not null;
create index cron_assistant on stateroom.cron (assistant_id, created_at, cron_id);
create index cron_thread on stateroom.cron (thread_id, created_at, cron_id) where thread_id is not null;
create index cron_created on stateroom.cron (created_at, cron_id);

create table stateroom.cron_term (
    term bigint not null,
    created_at bigint not null,
    id text collate "C" not null,
    primary key (term, created_at, id)
);
create index cron_term_id on stateroom.cron_term (id);

create table stateroom.idempotency (
    scope text collate "C" not null,
    key text collate "C" not null,
    fingerprint text collate "C" not null,
    claim_id text collate "C" not null,
    response bytea,
    thread_id text collate "C",
    run_id text collate "C",
    created_at bigint not null,
    expires_at bigint not null,
    primary key (scope, key)
);
create index idempotency_expires on stateroom.idempotency (expires_at, scope, key);
create index idempotency_thread on stateroom.idempotency (thread_id) where thread_id is not null;
create index idempotency_run on stateroom.idempotency (run_id) where run_id is not null;

create table stateroom.delivery (
    delivery_id text collate "C" primary key,
    run_id text collate "C" not null,
    thread_id text collate "C" not null,
    url text collate "C" not null,
    payload bytea,
    status text collate "C" not null,
    attempts integer not null,
    due_at bigint not null,
    error text collate "C",
    created_at bigint not null,
    updated_at bigint not null
);
create index delivery_due on stateroom.delivery (due_at, delivery_id) where status in ('pending', 'delivering');
create index delivery_done on stateroom.delivery (updated_at) where status in ('delivered', 'dead');
create index delivery_run on stateroom.delivery (run_id, created_at);
create index delivery_thread on stateroom.delivery (thread_id);
