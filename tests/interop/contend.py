"""The part of Python's kazoo in tests/interop_kazoo.rs: sessions that contend for one lock.

usage: contend.py HOSTS LOCK OWNER SESSIONS ROUNDS [PATTERN ...]

Says `ready` when all sessions are open, begins at the first line on its input, and ends with three numbers:
times inside, times that somebody else was inside too, times that the one before was of the other kind.
"""

import sys
import threading
import time

from kazoo.client import KazooClient
from kazoo.exceptions import BadVersionError

HOLD = 0.001


def stay_inside(client, owner):
    """Marks the owner's node on the way in and on the way out; whoever is disturbed in between says so."""
    data, stat = client.get(owner)
    violations = int(data.startswith(b"in "))
    try:
        entered = client.set(owner, b"in kazoo", stat.version)
        time.sleep(HOLD)
        client.set(owner, b"out kazoo", entered.version)
    except BadVersionError:
        violations += 1
    return 1, violations, int(data == b"out rust")


def contend(client, lock, owner, rounds, tallies):
    for _ in range(rounds):
        with lock:
            tallies.append(stay_inside(client, owner))


def main():
    hosts, path, owner, sessions, rounds = sys.argv[1:6]
    clients = [KazooClient(hosts=hosts, timeout=10.0) for _ in range(int(sessions))]
    for client in clients:
        client.start()
    locks = [client.Lock(path, extra_lock_patterns=tuple(sys.argv[6:])) for client in clients]
    print("ready", flush=True)
    sys.stdin.readline()
    tallies = []
    threads = [
        threading.Thread(target=contend, args=(client, lock, owner, int(rounds), tallies))
        for client, lock in zip(clients, locks)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for client in clients:
        client.stop()
    print(*map(sum, zip(*tallies)), flush=True)


main()
