// What applications do with LangGraph's JavaScript SDK, against the server at STATEROOM_URL.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import test from "node:test";

import { Client } from "@langchain/langgraph-sdk";

const client = new Client({ apiUrl: process.env.STATEROOM_URL, callerOptions: { maxRetries: 0 } });
const HELLO = { messages: [{ role: "user", content: "hi" }] };

async function all(stream) {
  const found = [];
  for await (const each of stream) found.push(each);
  return found;
}

async function status(promise) {
  const error = await promise.then(
    (answer) => assert.fail(`no error, but ${JSON.stringify(answer)}`),
    (refused) => refused,
  );
  return error.status ?? error.response?.status;
}

test("assistants live through their versions", async () => {
  const made = await client.assistants.create({ graphId: "echo", name: "first", metadata: { from: "js" } });
  assert.equal(made.version, 1);
  const changed = await client.assistants.update(made.assistant_id, { graphId: "echo", name: "second" });
  assert.deepEqual([changed.version, changed.name], [2, "second"]);
  const versions = await client.assistants.getVersions(made.assistant_id);
  assert.deepEqual(versions.map((each) => each.version), [2, 1]);
  assert.equal((await client.assistants.setLatest(made.assistant_id, 1)).name, "first");
  const found = await client.assistants.search({ graphId: "echo", metadata: { from: "js" }, limit: 100 });
  assert.ok(found.some((each) => each.assistant_id === made.assistant_id));
  assert.ok((await client.assistants.count({ graphId: "echo" })) >= 2);
  assert.ok((await client.assistants.getGraph(made.assistant_id)).nodes.length > 0);
  assert.ok((await client.assistants.getSchemas(made.assistant_id)).input_schema);
  await client.assistants.getSubgraphs(made.assistant_id);
  await client.assistants.delete(made.assistant_id);
  assert.equal(await status(client.assistants.get(made.assistant_id)), 404);
});

test("threads are made, found, changed, copied and removed", async () => {
  const mark = randomUUID();
  const made = await client.threads.create({ metadata: { mark }, ttl: 5 });
  assert.deepEqual((await client.threads.get(made.thread_id, { include: ["ttl"] })).ttl.ttl_minutes ?? 5, 5);
  await client.threads.update(made.thread_id, { metadata: { more: true } });
  const [found] = await client.threads.search({ metadata: { mark }, sortBy: "created_at", sortOrder: "desc" });
  assert.deepEqual(found.metadata.more, true);
  assert.equal(await client.threads.count({ metadata: { mark } }), 1);
  await client.runs.wait(made.thread_id, "echo", { input: HELLO });
  const copy = await client.threads.copy(made.thread_id);
  assert.equal((await client.threads.getState(copy.thread_id)).values.messages.length, 2);
  await client.threads.delete(made.thread_id);
  assert.equal(await status(client.threads.get(made.thread_id)), 404);
  await client.threads.prune([copy.thread_id]);
  assert.equal(await status(client.threads.get(copy.thread_id)), 404);
});

test("state is read, changed and looked back on", async () => {
  const { thread_id } = await client.threads.create();
  await client.runs.wait(thread_id, "echo", { input: HELLO });
  await client.threads.updateState(thread_id, { values: { n: 9 }, asNode: "echo" });
  const state = await client.threads.getState(thread_id);
  assert.equal(state.values.n, 9);
  await client.threads.patchState(thread_id, { seen: true });
  const history = await client.threads.getHistory(thread_id, { limit: 2 });
  assert.equal(history.length, 2);
  const before = await client.threads.getHistory(thread_id, {
    before: { configurable: { thread_id, checkpoint_id: history[1].checkpoint.checkpoint_id } },
  });
  assert.ok(before.length > 0);
  const back = await client.threads.getState(thread_id, before[0].checkpoint.checkpoint_id);
  assert.equal(back.checkpoint.checkpoint_id, before[0].checkpoint.checkpoint_id);
});

test("a run streams in several modes, and is joined from any event on", async () => {
  const { thread_id } = await client.threads.create();
  const frames = await all(
    client.runs.stream(thread_id, "slow", {
      input: { steps: 3, delay: 0.01 },
      streamMode: ["values", "updates", "custom"],
      streamResumable: true,
    }),
  );
  const events = frames.map((each) => each.event);
  assert.equal(events[0], "metadata");
  assert.equal(events.filter((each) => each === "updates").length, 3);
  assert.equal(events.filter((each) => each === "custom").length, 3);
  const runId = frames[0].data.run_id;
  const again = await all(client.runs.joinStream(thread_id, runId, { lastEventId: "-1" }));
  assert.deepEqual(
    again.map((each) => each.event).filter((each) => each !== "end"),
    events.filter((each) => each !== "end"),
  );
  const middle = frames[3].id;
  const rest = await all(client.runs.joinStream(thread_id, runId, { lastEventId: middle, streamMode: "updates" }));
  assert.ok(rest.length > 0);
  assert.ok(rest.every((each) => ["updates", "metadata", "end"].includes(each.event)));
});

test("an interrupt is shown, and answered", async () => {
  const { thread_id } = await client.threads.create();
  const first = await client.runs.wait(thread_id, "hitl", { input: {} });
  assert.equal(first.__interrupt__.length, 1);
  const state = await client.threads.getState(thread_id);
  assert.deepEqual(state.next, ["ask"]);
  assert.equal(state.tasks[0].interrupts.length, 1);
  assert.equal((await client.threads.get(thread_id)).status, "interrupted");
  const last = await client.runs.wait(thread_id, "hitl", { command: { resume: "yes" } });
  assert.equal(last.answer, "yes");
});

test("runs are listed, cancelled, joined and removed", async () => {
  const { thread_id } = await client.threads.create();
  const run = await client.runs.create(thread_id, "slow", { input: { steps: 500, delay: 0.05 } });
  await client.runs.cancel(thread_id, run.run_id, true, "interrupt");
  assert.equal((await client.runs.get(thread_id, run.run_id)).status, "interrupted");
  const next = await client.runs.create(thread_id, "echo", { input: HELLO });
  assert.equal((await client.runs.join(thread_id, next.run_id)).messages.length, 2);
  assert.equal((await client.runs.list(thread_id)).length, 2);
  await client.runs.delete(thread_id, run.run_id);
  assert.equal((await client.runs.list(thread_id)).length, 1);
  const batch = await client.runs.createBatch([
    { assistantId: "echo", input: HELLO },
    { assistantId: "echo", input: HELLO },
  ]);
  assert.equal(batch.length, 2);
});

test("a run needs no thread", async () => {
  assert.equal((await client.runs.wait(null, "echo", { input: HELLO })).messages.length, 2);
  const events = (await all(client.runs.stream(null, "echo", { input: HELLO, streamMode: "updates" }))).map(
    (each) => each.event,
  );
  assert.ok(events.includes("updates"));
});

test("a failure says what failed", async () => {
  const { thread_id } = await client.threads.create();
  await assert.rejects(client.runs.wait(thread_id, "fail", { input: HELLO }), /boom/);
  assert.equal(await status(client.runs.wait(randomUUID(), "echo", { input: HELLO })), 404);
  assert.equal(await status(client.runs.wait(thread_id, "nope", { input: HELLO })), 422);
});

test("crons are kept", async () => {
  const cron = await client.crons.create("echo", { schedule: "0 9 * * *", timezone: "Europe/Berlin", input: HELLO });
  const found = await client.crons.search({ limit: 100 });
  assert.ok(found.some((each) => each.cron_id === cron.cron_id));
  assert.ok((await client.crons.count()) >= 1);
  assert.equal((await client.crons.update(cron.cron_id, { enabled: false })).enabled, false);
  await client.crons.delete(cron.cron_id);
});

test("memories are stored and found", async () => {
  const namespace = ["js", randomUUID()];
  await client.store.putItem(namespace, "a", { text: "apple pie and cream", n: 1 });
  await client.store.putItem(namespace, "b", { text: "red sports car", n: 2 }, { ttl: 10 });
  assert.equal((await client.store.getItem(namespace, "a")).value.n, 1);
  assert.equal(await client.store.getItem(namespace, "none"), null);
  const { items } = await client.store.searchItems(namespace, { query: "apple cream" });
  assert.equal(items[0].key, "a");
  assert.ok(items[0].score > 0);
  const filtered = await client.store.searchItems(namespace, { filter: { n: { $gt: 1 } } });
  assert.deepEqual(filtered.items.map((each) => each.key), ["b"]);
  const { namespaces } = await client.store.listNamespaces({ prefix: ["js"], maxDepth: 1 });
  assert.deepEqual(namespaces, [["js"]]);
  await client.store.deleteItem(namespace, "a");
  assert.equal(await client.store.getItem(namespace, "a"), null);
});

test("a thread streams the protocol, over a run, an interrupt and its answer", async () => {
  const thread = client.threads.stream({ assistantId: "hitl" });
  try {
    await thread.submitRun({ input: {} });
    await thread.output;
    assert.equal(thread.interrupted, true);
    const [asked] = thread.interrupts;
    assert.deepEqual(asked.payload, { question: "ok?" });
    const answered = await thread.subscribe(["values", "lifecycle"]);
    await thread.respondInput({ namespace: [], interrupt_id: asked.interruptId, response: "fine" });
    for await (const event of answered) {
      if (event.method === "lifecycle" && event.params.data.event === "completed") break;
    }
    const state = await client.threads.getState(thread.threadId);
    assert.equal(state.values.answer, "fine");
  } finally {
    await thread.close();
  }
});
