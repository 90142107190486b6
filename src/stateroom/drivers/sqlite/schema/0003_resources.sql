-- What a server keeps beside the items: assistants, threads, runs, crons and what goes with them.
-- Times are microseconds since 1970 UTC; metadata, config and the like are JSON as bytes.

create table stateroom_assistant (
    assistant_id text primary key,
    version integer not null,
    latest integer not null,
    graph_id text not null,
    name text not null,
    created_at integer not null,
    updated_at integer not null
) without rowid;
create index stateroom_assistant_created on stateroom_assistant (created_at, assistant_id);
create index stateroom_assistant_updated on stateroom_assistant (updated_at, assistant_id);
create index stateroom_assistant_graph on stateroom_assistant (graph_id, created_at, assistant_id);
create index stateroom_assistant_name on stateroom_assistant (name, created_at, assistant_id);

create table stateroom_assistant_version (
    assistant_id text not null,
    version integer not null,
    graph_id text not null,
    name text not null,
    description text,
    config blob not null,
    context blob not null,
    metadata blob not null,
    created_at integer not null,
    primary key (assistant_id, version)
);

-- What metadata hold, one row for each leaf, in the order in which what it describes was made.
create table stateroom_assistant_term (
    term integer not null,
    created_at integer not null,
    id text not null,
    primary key (term, created_at, id)
) without rowid;
create index stateroom_assistant_term_id on stateroom_assistant_term (id);

create table stateroom_thread (
    thread_id text primary key,
    status text not null,
    created_at integer not null,
    updated_at integer not null,
    state_updated_at integer not null,
    metadata blob not null,
    config blob not null,
    ttl_minutes real,
    ttl_strategy text,
    expires_at integer,
    -- When its next run can be claimed; null while one is executing, or none is pending.
    next_at integer
) without rowid;
create index stateroom_thread_created on stateroom_thread (created_at, thread_id);
create index stateroom_thread_updated on stateroom_thread (updated_at, thread_id);
create index stateroom_thread_state_updated on stateroom_thread (state_updated_at, thread_id);
create index stateroom_thread_status on stateroom_thread (status, created_at, thread_id);
create index stateroom_thread_status_id on stateroom_thread (status, thread_id);
create index stateroom_thread_expires on stateroom_thread (expires_at) where expires_at is not null;
create index stateroom_thread_next on stateroom_thread (next_at, thread_id) where next_at is not null;

-- Apart from the thread, which changes often and is small; null values are none.
create table stateroom_thread_state (
    thread_id text primary key,
    "values" blob,
    interrupts blob,
    error blob
);

create table stateroom_thread_term (
    term integer not null,
    created_at integer not null,
    id text not null,
    primary key (term, created_at, id)
) without rowid;
create index stateroom_thread_term_id on stateroom_thread_term (id);

-- Threads that are gone, of which something may be left.
create table stateroom_deletion (
    thread_id text primary key,
    created_at integer not null
) without rowid;

create table stateroom_run (
    seq integer primary key autoincrement,
    run_id text not null unique,
    thread_id text not null,
    assistant_id text not null,
    assistant_version integer not null,
    status text not null,
    created_at integer not null,
    updated_at integer not null,
    available_at integer not null,
    started_at integer,
    ended_at integer,
    multitask text not null,
    metadata blob not null,
    kwargs blob not null,
    private blob,
    -- What a roll-back returns to.
    mark blob,
    attempt integer not null default 0,
    fence integer not null default 0,
    lease_owner text,
    lease_until integer,
    cancel text,
    cancel_reason text,
    error blob
);
-- The only one that begins with the thread's id alone: no plan can walk all of a thread for one status.
create index stateroom_run_status on stateroom_run (thread_id, status, seq);
create index stateroom_run_waiting on stateroom_run (thread_id, available_at, seq) where status = 'pending';
create index stateroom_run_by_status on stateroom_run (status, seq);
-- No two runs of a thread are executing.
create unique index stateroom_run_executing on stateroom_run (thread_id) where status = 'running';
create index stateroom_run_lease on stateroom_run (lease_until) where status = 'running';

-- The stream of each run: which frames are kept, and how many bytes they have. It stays when all have been
-- swept, to know which there were. updated_at is in whole seconds, so that its index seldom changes.
create table stateroom_stream (
    run_id text primary key,
    thread_id text not null,
    first integer not null,
    last integer not null,
    bytes integer not null,
    updated_at integer not null
) without rowid;
create index stateroom_stream_thread on stateroom_stream (thread_id);
create index stateroom_stream_kept on stateroom_stream (updated_at, run_id) where first <= last;

create table stateroom_frame (
    run_id text not null,
    seq integer not null,
    event text not null,
    data blob not null,
    primary key (run_id, seq)
) without rowid;

create table stateroom_cron (
    cron_id text primary key,
    assistant_id text not null,
    thread_id text,
    schedule text not null,
    timezone text,
    enabled boolean not null,
    payload blob not null,
    metadata blob not null,
    on_run_completed text not null,
    user_id text,
    private blob,
    next_run_at integer,
    end_at integer,
    occurrence integer not null,
    error text,
    created_at integer not null,
    updated_at integer not null
);
create index stateroom_cron_due on stateroom_cron (next_run_at, cron_id) where enabled and next_run_at is not null;
create index stateroom_cron_assistant on stateroom_cron (assistant_id, created_at, cron_id);
create index stateroom_cron_thread on stateroom_cron (thread_id, created_at, cron_id) where thread_id is not null;
create index stateroom_cron_created on stateroom_cron (created_at, cron_id);

create table stateroom_cron_term (
    term integer not null,
    created_at integer not null,
    id text not null,
    primary key (term, created_at, id)
) without rowid;
create index stateroom_cron_term_id on stateroom_cron_term (id);

create table stateroom_idempotency (
    scope text not null,
    key text not null,
    fingerprint text not null,
    claim_id text not null,
    response blob,
    thread_id text,
    run_id text,
    created_at integer not null,
    expires_at integer not null,
    primary key (scope, key)
);
create index stateroom_idempotency_expires on stateroom_idempotency (expires_at, scope, key);
create index stateroom_idempotency_thread on stateroom_idempotency (thread_id) where thread_id is not null;
create index stateroom_idempotency_run on stateroom_idempotency (run_id) where run_id is not null;

create table stateroom_delivery (
    delivery_id text primary key,
    run_id text not null,
    thread_id text not null,
    url text not null,
    payload blob,
    status text not null,
    attempts integer not null,
    due_at integer not null,
    error text,
    created_at integer not null,
    updated_at integer not null
);
create index stateroom_delivery_due on stateroom_delivery (due_at, delivery_id) where status in ('pending', 'delivering');
create index stateroom_delivery_done on stateroom_delivery (updated_at) where status in ('delivered', 'dead');
create index stateroom_delivery_run on stateroom_delivery (run_id, created_at);
create index stateroom_delivery_thread on stateroom_delivery (thread_id);
