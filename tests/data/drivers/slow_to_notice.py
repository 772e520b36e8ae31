# The session timeout is 20 s. The third release is answered after 17 s, as if the server had dropped the request.
import json, sys, threading
releases = 0
for line in sys.stdin:
    asked = json.loads(line)
    if asked["t"] == "hello":
        told = {"t": "ready", "v": 1, "driver": "slow", "locks": {"Lock": {"timeout": "none", "cancel": "none"}}}
    else:
        told = {"id": asked["id"], "ok": {"session": hex(asked.get("c", 0) + 1), "session_ms": 20000}}
    releases += asked["t"] == "release"
    if asked["t"] == "release" and releases == 3:
        threading.Timer(17, print, [json.dumps(told)], {"flush": True}).start()
    else:
        print(json.dumps(told), flush=True)
