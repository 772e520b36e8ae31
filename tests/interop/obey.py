"""Owners of kazoo's read and write locks that run the commands on stdin, one per line.

usage: obey.py HOSTS LOCK

Commands: `acquire OWNER SIDE` and `release OWNER SIDE`; a side is `read` or `write`. Prints `ready`, and then
events: `OWNER in SIDE`, `OWNER out SIDE`. Each owner has its own session and thread.
"""

import queue
import sys
import threading

from kazoo.client import KazooClient


class Owner(threading.Thread):
    def __init__(self, name, hosts, path):
        super().__init__(name=name, daemon=True)
        self.told = queue.Queue()
        self.client = KazooClient(hosts=hosts, timeout=10.0)
        self.client.start()
        self.sides = {"read": self.client.ReadLock(path), "write": self.client.WriteLock(path)}
        self.start()

    def run(self):
        while True:
            verb, side = self.told.get()
            if verb == "acquire":
                self.sides[side].acquire()
                print(self.name, "in", side, flush=True)
            else:
                self.sides[side].release()
                print(self.name, "out", side, flush=True)


def main():
    hosts, path = sys.argv[1:3]
    owners = {}
    print("ready", flush=True)
    for line in sys.stdin:
        verb, name, side = line.split()
        if name not in owners:
            owners[name] = Owner(name, hosts, path)
        owners[name].told.put((verb, side))


main()
