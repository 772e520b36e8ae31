"""Contenders that use Python's kazoo, for tests/locks/interop_kazoo.rs: sessions that contend for one lock.

usage: contend.py HOSTS LOCK OWNER SESSIONS KIND [PATTERN ...]

KIND is Lock or WriteLock. Runs until a line arrives on stdin or stdin is closed, then prints the numbers of
acquisitions, violations and crossings. Holders send the requests that tests/support/inside.rs describes.
"""

import sys
import threading

from kazoo.client import KazooClient

over = threading.Event()


def stay_inside(client, owner):
    """Sends a holder's requests; returns the counts of acquisitions, violations and crossings."""
    data, stat = client.get(owner)
    entered = client.set(owner, b"in kazoo").version
    left = client.set(owner, b"out kazoo").version
    undisturbed = not data.startswith(b"in ") and (entered, left) == (stat.version + 1, stat.version + 2)
    return 1, int(not undisturbed), int(data == b"out rust")


def contend(client, lock, owner, tallies):
    while not over.is_set():
        with lock:
            tallies.append(stay_inside(client, owner))


def main():
    hosts, path, owner, sessions, kind = sys.argv[1:6]
    clients = [KazooClient(hosts=hosts, timeout=10.0) for _ in range(int(sessions))]
    for client in clients:
        client.start()
    locks = [getattr(client, kind)(path, extra_lock_patterns=tuple(sys.argv[6:])) for client in clients]
    tallies = [(0, 0, 0)]
    threads = [
        threading.Thread(target=contend, args=(client, lock, owner, tallies))
        for client, lock in zip(clients, locks)
    ]
    for thread in threads:
        thread.start()
    sys.stdin.readline()
    over.set()
    for thread in threads:
        thread.join()
    for client in clients:
        client.stop()
    print(*map(sum, zip(*tallies)), flush=True)


main()
