"""A queue whose waiters watch their predecessors, with the defect that DEFECT names."""

import os
import threading

from kazoo.exceptions import SessionExpiredError


class Queue:
    def __init__(self, client, on):
        self.client, self.on = client, on

    def acquire(self, blocking, timeout):
        self.node = self.client.create(self.on + "/n-", ephemeral=True, sequence=True).rsplit("/", 1)[1]
        while not self.is_first():
            pass
        return True

    def is_first(self):
        names = sorted(self.client.get_children(self.on))
        if self.node not in names:
            raise SessionExpiredError
        at = names.index(self.node)
        if at == 0:
            return True
        gone = threading.Event()
        if self.client.exists(f"{self.on}/{names[at - 1]}", watch=lambda _event: gone.set()) is None:
            return os.environ["DEFECT"] == "enters-if-the-node-ahead-is-gone"
        gone.wait()
        return os.environ["DEFECT"] == "enters-after-any-event"

    def release(self):
        self.client.delete(f"{self.on}/{self.node}")
