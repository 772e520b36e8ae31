"""A queue lock that is correct (`none`) or has one of two bugs. With `list`, a failed list counts as an empty
queue. With `watch`, any watch event, even a lost connection, grants the lock. PYTHONPATH must include drivers/python.
"""

import sys
import threading
import time

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NoNodeError

from contenders import Contender, NotHeld, now, say, serve

BUG = sys.argv[1]
READY = {"driver": "queue 1", "locks": {"Lock": {"timeout": "native", "cancel": "none", "order": "fifo", "token": "czxid"}}}


class Queue(Contender):
    def open(self, request):
        self.changed = threading.Event()
        auth = [("digest", request["auth"])] if "auth" in request else None
        timeout = request["session_ms"] / 1000
        self.client = KazooClient(request["connect"], auth_data=auth, timeout=timeout, randomize_hosts=False)
        self.client.add_listener(self.told)
        self.client.start()
        return {"session": self.session()}

    def session(self):
        return hex(self.client.client_id[0] & (1 << 64) - 1)

    def told(self, state):
        what = {"CONNECTED": "connected", "SUSPENDED": "suspended", "LOST": "expired"}[state]
        say({"t": "event", "c": self.number, "what": what, "at": now(), "session": self.session()})
        # kazoo does not notify watches of a lost connection, so this emulates a client that does.
        if BUG == "watch" and state == "SUSPENDED":
            self.changed.set()

    def acquire(self, on, deadline):
        path, stat = self.client.create(on + "/n-", ephemeral=True, sequence=True, include_data=True)
        own, self.path = path.rsplit("/", 1)[1], path
        granted = {"node": own, "token": str(stat.czxid)}
        while True:
            try:
                ahead = sorted(name for name in self.client.get_children(on) if name < own)
            except KazooException:
                if BUG == "list":
                    return granted
                raise
            if not ahead:
                return granted
            self.changed.clear()
            try:
                self.client.get(f"{on}/{ahead[-1]}", watch=lambda _: self.changed.set())
            except NoNodeError:
                continue
            except KazooException:
                if BUG == "watch":
                    return granted
                raise
            left = None if deadline is None else max(deadline - time.monotonic(), 0)
            if not self.changed.wait(left):
                self.client.delete(path)
                raise NotHeld("timeout")
            if BUG == "watch":
                return granted

    def release(self, _):
        self.client.delete(self.path)

    def close(self):
        self.client.remove_listener(self.told)
        self.client.stop()
        self.client.close()


serve(READY, Queue)
