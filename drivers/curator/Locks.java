import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.framework.recipes.locks.InterProcessMultiLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreMutex;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;

/** Declares and creates the locks. */
final class Locks {
    private Locks() {}

    static void declare(ObjectNode locks) {
        declare(locks, "InterProcessMutex", true, "Curator's own InterProcessMutex");
        declare(locks, "InterProcessSemaphoreMutex", false, "Curator's own InterProcessSemaphoreMutex");
        declare(locks, "InterProcessReadWriteLock", true, "Curator's own InterProcessReadWriteLock").putArray("modes").add("read").add("write");
        ObjectNode semaphore = declare(locks, "InterProcessSemaphoreV2", false, "Curator's own InterProcessSemaphoreV2");
        semaphore.put("leases", "leases");
        parameter(semaphore, "leases", "Maximum number of holders.").put("default", 1);
        ObjectNode multi = declare(locks, "InterProcessMultiLock", true, "Curator's own InterProcessMultiLock of mutexes `member-0`, `member-1` ...");
        parameter(multi, "members", "Number of mutexes, which are acquired one after the other.").put("default", 3);
        ObjectNode mutex = (ObjectNode) locks.get("InterProcessMutex");
        mutex.put("token", "czxid");
        parameter(mutex, "token", "Whether to report the token, which takes one more request after each acquire, to read the node.").put("default", false);
        declare(locks, "Baton", false, "writes a grant into the next waiter's node at a release (Baton.java)").put("token", "czxid");
        declare(locks, "Count", false, "like Baton, but an uncontended acquire takes one request (Count.java)").put("token", "czxid");
    }

    private static ObjectNode declare(ObjectNode locks, String name, boolean reentrant, String summary) {
        ObjectNode lock = locks.putObject(name).put("summary", summary);
        lock.put("timeout", "native").put("cancel", "native").put("order", "fifo").put("lost", true).put("reentrant", reentrant);
        parameter(lock, "retry_times", "Maximum number of retries after a lost connection.").put("default", 3);
        parameter(lock, "retry_sleep", "First pause of ExponentialBackoffRetry.").put("default", "1s");
        return lock;
    }

    private static ObjectNode parameter(ObjectNode lock, String name, String doc) {
        return lock.withObject("/parameters").putObject(name).put("doc", doc);
    }

    static InterProcessLock make(String name, CuratorFramework client, String path, String mode, JsonNode parameters) {
        return switch (name) {
            case "InterProcessSemaphoreMutex" -> new InterProcessSemaphoreMutex(client, path);
            case "InterProcessReadWriteLock" -> {
                var sides = new InterProcessReadWriteLock(client, path);
                yield mode.equals("read") ? sides.readLock() : sides.writeLock();
            }
            case "InterProcessSemaphoreV2" -> new OneLease(new InterProcessSemaphoreV2(client, path, parameters.path("leases").asInt(1)));
            case "InterProcessMultiLock" -> {
                var members = IntStream.range(0, parameters.path("members").asInt(3)).mapToObj(member -> path + "/member-" + member);
                yield new InterProcessMultiLock(client, members.toList());
            }
            case "Baton" -> new Baton(client, path);
            case "Count" -> new Count(client, path);
            default -> new KnownMutex(client, path);
        };
    }

    /** Returns a holder's fencing token and node as a JSON object, which is empty if the lock does not report them. */
    static String tell(InterProcessLock lock, CuratorFramework client, JsonNode parameters) throws Exception {
        String node;
        long token;
        if (lock instanceof Baton baton) {
            node = baton.node();
            token = baton.token();
        } else if (lock instanceof KnownMutex mutex && parameters.path("token").asBoolean()) {
            node = mutex.node();
            token = client.checkExists().forPath(node).getCzxid();
        } else {
            return "{}";
        }
        return "{\"token\":" + token + ",\"node\":\"" + node + "\"}";
    }

    /** Exposes the node's path, which only subclasses can read. */
    private static final class KnownMutex extends InterProcessMutex {
        KnownMutex(CuratorFramework client, String path) {
            super(client, path);
        }

        String node() {
            return getLockPath();
        }
    }

    /** Semaphore with at most one lease per contender. */
    private static final class OneLease implements InterProcessLock {
        private final InterProcessSemaphoreV2 semaphore;
        private Lease lease;

        OneLease(InterProcessSemaphoreV2 semaphore) {
            this.semaphore = semaphore;
        }

        @Override
        public void acquire() throws Exception {
            lease = semaphore.acquire();
        }

        @Override
        public boolean acquire(long time, TimeUnit unit) throws Exception {
            lease = semaphore.acquire(time, unit);
            return lease != null;
        }

        @Override
        public void release() throws Exception {
            semaphore.returnLease(lease);
            lease = null;
        }

        @Override
        public boolean isAcquiredInThisProcess() {
            return lease != null;
        }
    }
}
