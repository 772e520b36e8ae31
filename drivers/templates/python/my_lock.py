"""Edit this file to define how your lock opens a session, acquires and releases. contenders.py implements the protocol."""

import time

from kazoo.client import KazooClient
from kazoo.exceptions import LockTimeout, SessionExpiredError

from contenders import Contender, Lost, NotHeld, now, say, serve

READY = {
    "driver": "my lock 1",
    # Features of your lock; zklockbench's docs/testing-your-client.md describes each field.
    "locks": {"MyLock": {"timeout": "native", "cancel": "none", "order": "fifo", "lost": True}},
}


class MyContender(Contender):
    """Contender with its own session and locks. Everything except `told` runs on its own thread."""

    def open(self, request):
        self.locks, self.expired = {}, False
        self.session_s = request["session_ms"] / 1000
        auth = [("digest", request["auth"])] if "auth" in request else None
        self.client = KazooClient(
            request["connect"], timeout=self.session_s, auth_data=auth, randomize_hosts=False)
        self.client.add_listener(self.told)
        self.client.start(timeout=max(self.session_s, 10))
        return {"session": self.session(), "password": self.client.client_id[1].hex()}

    def session(self):
        return hex(self.client.client_id[0] & (1 << 64) - 1)

    def told(self, state):
        what = {"CONNECTED": "connected", "SUSPENDED": "suspended", "LOST": "expired"}[state]
        self.expired |= state == "LOST"
        # After an expiry, kazoo opens another session, which also belongs to this contender.
        new = {"session": self.session()} if what == "connected" else {}
        say({"t": "event", "c": self.number, "what": what, "at": now(), **new})

    def acquire(self, on, deadline):
        """Acquires the lock in the directory `on`; `deadline` is a time.monotonic() or None. `self.mode` is "write" or "read"."""
        lock = self.locks.setdefault(on, self.client.Lock(on))
        left = None if deadline is None else deadline - time.monotonic()
        tries = left is not None and left <= 0.001
        try:
            got = lock.acquire(blocking=not tries, timeout=None if tries else left)
        except LockTimeout:
            got = False
        except SessionExpiredError as error:
            raise Lost(repr(error)) from error
        if not got:
            raise NotHeld("timeout")
        if self.expired:
            # kazoo acquired the lock in its next session.
            lock.release()
            raise Lost("the session has expired")

    def release(self, on):
        self.locks[on].release()

    def close(self):
        self.client.remove_listener(self.told)
        # Without a connection, stop() would leave the session and its nodes to the server until the session times out.
        until = time.monotonic() + self.session_s
        while not self.client.connected and time.monotonic() < until:
            time.sleep(0.02)
        self.client.stop()
        self.client.close()


serve(READY, MyContender)
