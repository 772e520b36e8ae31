// Edit this file to define how your lock opens a session, acquires and releases. driver.js implements the protocol.
"use strict";

const { CreateMode, Exception, State, createClient } = require("node-zookeeper-client");

// Declares the features of your lock; zklockbench's docs/testing-your-client.md describes each field.
exports.abilities = { timeout: "native", cancel: "none", order: "fifo", lost: true };

// A contender's session and its locks: a queue of nodes, in which each waiter watches the node before its own.
exports.MyLock = class {
  nodes = new Map();
  expired = false;
  // Functions that fail the calls in progress.
  failing = new Set();

  // Opens a session. `tell` reports an event.
  async open({ connect, session_ms: sessionMs, auth }, tell) {
    this.sessionMs = sessionMs;
    const client = (this.client = createClient(connect, { sessionTimeout: sessionMs }));
    // The client shuffles the servers, but sessions should be spread as `connect` says.
    const place = ({ host, port }) => connect.split("/")[0].split(",").indexOf(`${host}:${port}`);
    client.connectionManager.servers.sort((one, other) => place(one) - place(other));
    if (auth) client.addAuthInfo("digest", Buffer.from(auth));
    client.on("connected", () => tell("connected"));
    client.on("disconnected", () => this.expired || tell("suspended"));
    client.on("expired", () => {
      this.expired = true;
      tell("expired");
      this.failing.forEach((fail) => fail());
    });
    const opened = this.event("connected", Math.max(sessionMs, 10_000));
    client.connect();
    if (!(await opened)) {
      client.close();
      throw failure("connection", "could not open a session in time");
    }
    const [id, password] = [client.getSessionId(), client.getSessionPassword()].map((bytes) => bytes.toString("hex"));
    return { session: `0x${id}`, password, session_ms: client.getSessionTimeout() };
  }

  // Acquires the lock in the directory `on`; returns false after the timeout. 0 never waits; Infinity waits forever.
  // `mode` is "write", or "read" if your lock declares readers.
  async acquire(on, mode, timeoutMs) {
    const deadline = performance.now() + timeoutMs;
    const node = await this.request("create", `${on}/lock-`, CreateMode.EPHEMERAL_SEQUENTIAL);
    for (;;) {
      const names = (await this.request("getChildren", on)).sort();
      const place = names.indexOf(node.slice(on.length + 1));
      if (place < 0) throw failure("session", `${node} is gone`);
      if (place === 0) {
        this.nodes.set(on, node);
        return true;
      }
      const left = deadline - performance.now();
      if (left <= 0 || !(await this.gone(`${on}/${names[place - 1]}`, left))) {
        await this.leave(node);
        return false;
      }
    }
  }

  async release(on) {
    await this.leave(this.nodes.get(on));
  }

  async close() {
    this.client.removeAllListeners("connected").removeAllListeners("disconnected");
    try {
      // Without a connection, close() would leave the session and its nodes to the server until the session times out.
      if (this.client.getState() !== State.SYNC_CONNECTED) await this.event("connected");
      this.client.close();
      await this.event("disconnected");
    } catch (error) {
      if (!this.expired) throw error;
    }
  }

  // Deletes a node, unless it is gone already, like all nodes of an expired session.
  async leave(node) {
    try {
      await this.request("remove", node);
    } catch (error) {
      if (!this.expired && error.code !== Exception.NO_NODE) throw error;
    }
  }

  // Waits until a node is gone or changed; returns false after the timeout.
  gone(path, timeoutMs) {
    return this.call(timeoutMs, (resolve, reject) => {
      const isGone = (error) => (error.code === Exception.NO_NODE ? resolve(true) : reject(error));
      this.client.getData(path, () => resolve(true), (error) => error && isGone(error));
    });
  }

  // Waits for an event of the client; returns false after the timeout.
  event(name, timeoutMs = this.sessionMs) {
    return this.call(timeoutMs, (resolve) => this.client.once(name, () => resolve(true)));
  }

  // Sends a request. The client does not notice if a connection falls silent, so the answer has a time limit.
  async request(method, ...args) {
    const answer = await this.call(this.sessionMs, (resolve, reject) => {
      this.client[method](...args, (error, value) => (error ? reject(error) : resolve(value ?? true)));
    });
    if (!answer) throw failure("connection", `no answer to ${method} within the session timeout`);
    return answer;
  }

  // Starts a call and waits for its result; returns false after the timeout. Fails once the session has expired: the
  // client no longer answers.
  call(timeoutMs, start) {
    let fail, timer;
    const ended = new Promise((resolve, reject) => {
      fail = () => reject(failure("session", "the session has expired"));
      if (this.expired) return fail();
      // Node.js fires a timer with a longer delay at once.
      timer = setTimeout(resolve, Math.min(timeoutMs, 2 ** 31 - 1), false);
      start(resolve, reject);
    });
    this.failing.add(fail);
    return ended.finally(() => {
      clearTimeout(timer);
      this.failing.delete(fail);
    });
  }
};

// Returns an error with the protocol's word for it.
function failure(word, message) {
  return Object.assign(new Error(message), { word });
}

const WORDS = { [Exception.CONNECTION_LOSS]: "connection", [Exception.SESSION_EXPIRED]: "session" };

// Returns the protocol's word for an error.
exports.wordFor = (error) => error.word ?? WORDS[error.code] ?? "crash";
