"""A queue lock whose waiters watch their predecessors, with the defect selected by DEFECT."""

import os
import threading

from kazoo.exceptions import ConnectionLoss, NodeExistsError, NoNodeError, SessionExpiredError

DEFECT = os.environ["DEFECT"]


class Queue:
    def __init__(self, client, on, lost):
        self.client, self.on, self.lost, self.holds = client, on, lost, False
        if DEFECT == "exits-when-suspended":
            client.add_listener(lambda state: state == "SUSPENDED" and os._exit(1))
        if DEFECT in ("cleans-up-after-a-reconnect", "none-but-gives-up-after-a-reconnect"):
            client.add_listener(self.clean_up)

    def acquire(self, blocking, timeout):
        if DEFECT == "never-grants" or (DEFECT == "refuses-if-not-first" and self.client.get_children(self.on)):
            return False
        if self.holds and DEFECT == "still-holds-after-a-retried-release":
            return True
        if DEFECT == "serves-in-any-order":
            return self.races(timeout)
        if DEFECT == "leaves-a-node-in-each-acquire":
            self.client.create(self.on + "/seen-", ephemeral=True, sequence=True)
        self.node = self.client.create(self.on + "/n-", ephemeral=True, sequence=True).rsplit("/", 1)[1]
        while True:
            there = self.is_first(timeout)
            if there is not None:
                break
        if there:
            self.holds = True
        elif DEFECT != "keeps-its-node-after-a-timeout":
            self.client.delete(f"{self.on}/{self.node}")
        return there

    def races(self, timeout):
        """Takes the lock as soon as it is free. All waiters try at once."""
        self.node = "held"
        while True:
            gone = threading.Event()
            try:
                self.client.create(f"{self.on}/held", ephemeral=True)
                return True
            except NodeExistsError:
                there = self.client.exists(f"{self.on}/held", watch=lambda _event, gone=gone: gone.set())
                if there and not gone.wait(timeout):
                    return False

    def is_first(self, timeout):
        """Returns True if first in the queue, False after a timeout, None to list again."""
        names = sorted(self.client.get_children(self.on))
        if self.node not in names:
            raise SessionExpiredError
        at = names.index(self.node)
        if at == 0:
            return True
        gone = threading.Event()
        if self.client.exists(f"{self.on}/{names[at - 1]}", watch=lambda _event: gone.set()) is None:
            return True if DEFECT == "enters-if-the-node-ahead-is-gone" else None
        if not gone.wait(timeout):
            return False
        return True if DEFECT == "enters-after-any-event" else None

    def release(self):
        if DEFECT == "none-but-deletes-in-the-background":
            threading.Timer(0.05, self.delete, [self.node]).start()
        else:
            self.delete(self.node)
        if DEFECT == "fails-its-release":
            raise ValueError("no such node")

    def clean_up(self, state):
        if state == "CONNECTED" and self.holds:
            if DEFECT == "none-but-gives-up-after-a-reconnect":
                self.lost()
            self.client.delete_async(f"{self.on}/{self.node}")

    def delete(self, node):
        while True:
            try:
                self.client.delete(f"{self.on}/{node}")
                self.holds = False
            except NoNodeError:
                pass
            except ConnectionLoss:
                if DEFECT == "deletes-the-first-node":
                    node = min(self.client.get_children(self.on), default=node)
                continue
            return
