// Locks with node-redlock over several servers, one pass after another: see `src/node_redlock.rs`.
//
// The first line names the servers. Each further line is an order, and is answered by a line.

"use strict";

const readline = require("node:readline");
const { performance } = require("node:perf_hooks");
const Redis = require("ioredis");
const { default: Redlock } = require("redlock");

async function main() {
  const lines = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]();
  const plan = JSON.parse((await lines.next()).value);
  const clients = plan.urls.map((url) => {
    const client = new Redis(url);
    // A failed connection reports here, and is retried without a call.
    client.on("error", () => {});
    return client;
  });
  const redlock = new Redlock(clients);
  for (;;) {
    const { done, value } = await lines.next();
    if (done) {
      process.exit(0);
    }
    console.log(JSON.stringify(await passes(redlock, JSON.parse(value))));
  }
}

async function passes(redlock, { key, lease, millis, limit }) {
  const outcome = { times: [], failed: 0, trouble: null };
  const begin = performance.now();
  do {
    const start = performance.now();
    try {
      await within(limit, pass(redlock, key, lease));
      outcome.times.push(Math.round((performance.now() - start) * 1e6));
    } catch (error) {
      outcome.failed += 1;
      outcome.trouble ??= String(error.message);
    }
  } while (performance.now() - begin < millis);
  return outcome;
}

async function pass(redlock, key, lease) {
  const lock = await redlock.acquire([key], lease);
  await lock.release();
}

async function within(limit, work) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`not within ${limit} ms`)), limit);
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}

main();
