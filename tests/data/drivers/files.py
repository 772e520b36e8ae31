# A driver without ZooKeeper: file locks (flock), which the kernel releases when the process ends.
import fcntl, json, os, queue, sys, threading
output = threading.Lock()

def say(message):
    with output:
        print(json.dumps(message), flush=True)

def contender(requests):
    held = None
    while True:
        request = requests.get()
        if request["t"] == "acquire":
            held = os.open(os.path.join(sys.argv[1], request["on"].replace("/", "_")), os.O_CREAT | os.O_RDWR)
            fcntl.flock(held, fcntl.LOCK_EX)
        elif request["t"] == "release":
            os.close(held)
        say({"id": request["id"], "ok": {}})

contenders = {}
for line in sys.stdin:
    request = json.loads(line)
    if request["t"] == "hello":
        lock = {"timeout": "none", "cancel": "none"}
        say({"t": "ready", "v": 1, "driver": "files 1", "system": "files", "locks": {"Flock": lock}})
    elif request["t"] == "echo":
        say({"id": request["id"], "ok": {}})
    else:
        if request["t"] == "open":
            contenders[request["c"]] = queue.Queue()
            threading.Thread(target=contender, args=(contenders[request["c"]],), daemon=True).start()
        contenders[request["c"]].put(request)
