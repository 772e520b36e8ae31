"""Implements the driver protocol (docs/testing-your-client.md) for Python drivers whose calls block, with a thread per contender.

Drivers subclass `Contender` and call `serve`. The main thread reads requests, and answers only requests that never block.
"""

import json
import os
import queue
import sys
import threading
import time


class NotHeld(Exception):
    """Raised if the lock is certainly not held: `word` is `timeout`, `cancelled`, `busy` or `refused`."""

    def __init__(self, word, message=None):
        super().__init__(message or word)
        self.word, self.message = word, message


class Lost(Exception):
    """Raised if the session or lease has ended, so its locks are no longer held."""


output = threading.Lock()
# Requests to a contender with a session
CALLS = ("acquire", "release", "echo", "close")


def now():
    return time.monotonic_ns() // 1000


def say(message):
    line = (json.dumps(message, separators=(",", ":")) + "\n").encode()
    with output:
        os.write(1, line)


class Contender:
    """Base class: drivers override `open(request)`, `acquire(on, deadline)`, `release(on)`, `close()`, and `wake()` if setting
    `self.cancelled` alone does not end a wait. Everything except `wake` runs on the contender's own thread. `deadline` is a
    time.monotonic() or None; `self.mode` is "write" or "read". The results of `open` and `acquire` are included in the reply.
    """

    def __init__(self, number):
        self.number = number
        self.requests = queue.SimpleQueue()
        self.cancelled = threading.Event()
        self.waits_in = None
        self.guard = threading.Lock()
        threading.Thread(target=self.serve, daemon=True).start()

    def wake(self):
        pass

    def tell(self, what):
        say({"t": "event", "c": self.number, "what": what, "at": now()})

    def serve(self):
        while True:
            request = self.requests.get()
            kind = request["t"]
            self.answer(request, getattr(self, f"do_{kind}"))
            if kind == "close":
                return

    def answer(self, request, do):
        began = now()
        try:
            answer = {"ok": do(request) or {}}
        except NotHeld as error:
            answer = {"err": error.word, "message": str(error)}
        except Lost as error:
            answer = {"err": "session", "held": "no", "message": str(error)}
        except OSError as error:
            answer = {"err": "connection", "held": "maybe", "message": repr(error)}
        except Exception as error:
            answer = {"err": "crash", "held": "maybe", "message": repr(error)}
        say({"id": request["id"], **answer, "from": began, "to": now()})

    def do_open(self, request):
        return self.open(request)

    def do_acquire(self, request):
        # "read" if the lock declares readers
        self.mode = request.get("mode", "write")
        timeout = request.get("timeout_ms")
        deadline = None if timeout is None else time.monotonic() + timeout / 1000
        try:
            if self.cancelled.is_set():
                raise NotHeld("cancelled")
            return self.acquire(request["on"], deadline)
        finally:
            # A late cancellation must not end the next wait.
            with self.guard:
                self.waits_in = None
                self.cancelled.clear()

    def do_release(self, request):
        return self.release(request["on"])

    def do_echo(self, _):
        return {"now": now()}

    def do_close(self, _):
        return self.close()

    def pause(self, seconds, deadline):
        """Sleeps; raises NotHeld at the deadline or on cancellation."""
        if deadline is not None:
            left = deadline - time.monotonic()
            if left <= 0:
                raise NotHeld("timeout")
            seconds = min(seconds, left)
        if self.cancelled.wait(seconds):
            raise NotHeld("cancelled")

    def will_acquire(self, number):
        with self.guard:
            self.waits_in = number

    def cancel(self, number):
        with self.guard:
            if self.waits_in == number:
                self.cancelled.set()
                self.wake()


def serve(ready, contender):
    if os.environ.get("ZKLOCKBENCH_DRIVER") != "1":
        sys.exit("this program is a driver for zklockbench; use it with --driver (docs/testing-your-client.md)")
    # Other output must not appear between the lines of the protocol.
    sys.stdout = sys.stderr
    contenders = {}
    for line in sys.stdin:
        request = json.loads(line)
        kind, number = request["t"], request.get("c")
        if kind == "hello":
            about = {"t": "ready", "v": 1, "clock": "monotonic", **ready}
            say(about if 1 in request["v"] else {"t": "refused", "why": "speaks version 1 only"})
        elif kind == "echo" and number is None:
            say({"id": request["id"], "ok": {"now": now()}})
        elif kind == "cancel":
            for waiting in [each for each in contenders.values() if each.waits_in == request["of"]]:
                waiting.cancel(request["of"])
            say({"id": request["id"], "ok": {}})
        elif kind == "open" or (kind in CALLS and number in contenders):
            if kind == "open":
                contenders[number] = contender(number)
            elif kind == "acquire":
                contenders[number].will_acquire(request["id"])
            contenders[number].requests.put(request)
            if kind == "close":
                del contenders[number]
        else:
            say({"id": request["id"], "err": "bad-request" if kind in CALLS else "unsupported", "message": kind})
