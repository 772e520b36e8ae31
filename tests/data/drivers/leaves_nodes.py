# A driver that leaves the node behind when an acquire times out.
# The tenth release of its first contender deletes nothing.
import sys
sys.path.insert(0, "DRIVERS/python")
import contenders
from kazoo.client import KazooClient

READY = {"driver": "leaves nodes", "locks": {"Lock": {"timeout": "emulated", "cancel": "emulated"}}}

class LeavesNodes(contenders.Contender):
    def open(self, request):
        self.releases = 0
        auth = [("digest", request["auth"])] if "auth" in request else None
        self.client = KazooClient(request["connect"], timeout=request["session_ms"] / 1000, auth_data=auth)
        self.client.start()
        session, password = self.client.client_id
        return {"session": hex(session & (1 << 64) - 1), "password": password.hex()}

    def acquire(self, on, deadline):
        self.node = self.client.create(f"{on}/n-", ephemeral=True, sequence=True)
        while min(self.client.get_children(on)) != self.node.rsplit("/", 1)[1]:
            self.pause(0.02, deadline)
        return {}

    def release(self, on):
        self.releases += 1
        if self.number != 0 or self.releases != 10:
            self.client.delete(self.node)

    def close(self):
        self.client.stop()

contenders.serve(READY, LeavesNodes)
