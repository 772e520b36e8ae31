"""A queue whose waiters watch their predecessors, with the defect that DEFECT names."""

import os
import threading

from kazoo.client import KazooClient
from kazoo.exceptions import SessionExpiredError

from contenders import Contender, Lost, now, say, serve

READY = {
    "driver": "defective queue 1",
    "locks": {"Queue": {"timeout": "none", "cancel": "none", "order": "fifo", "lost": True}},
}


class Queue(Contender):
    def open(self, request):
        self.client = KazooClient(request["connect"], timeout=request["session_ms"] / 1000)
        self.client.add_listener(self.told)
        self.client.start(timeout=10)
        return {"session": self.session(), "password": self.client.client_id[1].hex()}

    def session(self):
        return hex(self.client.client_id[0] & (1 << 64) - 1)

    def told(self, state):
        what = {"CONNECTED": "connected", "SUSPENDED": "suspended", "LOST": "expired"}[state]
        new = {"session": self.session()} if what == "connected" else {}
        say({"t": "event", "c": self.number, "what": what, "at": now(), **new})

    def acquire(self, on, _deadline):
        self.node = self.client.create(on + "/n-", ephemeral=True, sequence=True).rsplit("/", 1)[1]
        while not self.is_first(on):
            pass

    def is_first(self, on):
        names = sorted(self.client.get_children(on))
        if self.node not in names:
            raise Lost(repr(SessionExpiredError()))
        at = names.index(self.node)
        if at == 0:
            return True
        gone = threading.Event()
        if self.client.exists(f"{on}/{names[at - 1]}", watch=lambda _event: gone.set()) is None:
            return os.environ["DEFECT"] == "enters-if-the-node-ahead-is-gone"
        gone.wait()
        return os.environ["DEFECT"] == "enters-after-any-event"

    def release(self, on):
        self.client.delete(f"{on}/{self.node}")

    def close(self):
        self.client.remove_listener(self.told)
        self.client.stop()
        self.client.close()


serve(READY, Queue)
