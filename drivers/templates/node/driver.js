// Implements version 1 of the zklockbench driver protocol. The lock is in my_lock.js.
"use strict";

const { createInterface } = require("node:readline");
const { MyLock, abilities, wordFor } = require("./my_lock.js");

// Other output must not appear between the lines of the protocol.
console.log = console.info = console.debug = console.error;
if (process.env.ZKLOCKBENCH_DRIVER !== "1") {
  console.error("this program is a driver for zklockbench; use: zklockbench driver check ./run");
  process.exit(2);
}
// An exception in a client's callback must not end the other contenders.
process.on("uncaughtException", (error) => console.error(error));

const contenders = new Map();

// Returns the time of CLOCK_MONOTONIC in microseconds.
function now() {
  return Number(process.hrtime.bigint() / 1000n);
}

function say(message) {
  process.stdout.write(`${JSON.stringify(message)}\n`);
}

function receive(request) {
  const { t: kind, id, c } = request;
  switch (kind) {
    case "hello":
      return say({ t: "ready", v: 1, driver: "my lock 1", clock: "monotonic", locks: { MyLock: abilities } });
    case "echo":
      return say({ id, ok: { now: now() } });
    case "open":
    case "acquire":
    case "release":
    case "close": {
      if (kind === "open") contenders.set(c, new MyLock());
      const lock = contenders.get(c);
      if (kind === "close") contenders.delete(c);
      return lock ? serve(lock, request) : say({ id, err: "bad-request" });
    }
    default:
      return say({ id, err: "unsupported" });
  }
}

// Handles a request of one contender.
async function serve(lock, { t: kind, id, c, on, mode, timeout_ms: timeoutMs, ...session }) {
  const from = now();
  let answer = { ok: {} };
  try {
    if (kind === "open") answer.ok = await lock.open(session, (what) => say({ t: "event", c, what, at: now() }));
    else if (kind === "release") await lock.release(on);
    else if (kind === "close") await lock.close();
    else if (!(await lock.acquire(on, mode, timeoutMs ?? Infinity))) answer = { err: "timeout" };
  } catch (error) {
    answer = { err: wordFor(error), message: String(error) };
  }
  say({ id, ...answer, from, to: now() });
}

const lines = createInterface({ input: process.stdin });
lines.on("line", (line) => receive(JSON.parse(line)));
lines.on("close", () => process.exit());
