import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreMutex;
import org.apache.curator.retry.ExponentialBackoffRetry;
import org.apache.zookeeper.data.Stat;

/**
 * Contenders that use Java's Curator, for a lock that other clients also use.
 *
 * <p>Holders send the requests that tests/support/inside.rs describes, and detect violations in the same way.
 *
 * <p>Arguments: connect string, lock, owner node, kind of lock (mutex, semaphore-mutex, read-write), number of
 * contenders. Runs until a line arrives on stdin or stdin is closed, then prints {@code acquired violations
 * crossings}. The exit code is 0 even if there were violations.
 */
public final class CuratorContenders {
    private static final AtomicInteger ACQUIRED = new AtomicInteger();
    private static final AtomicInteger VIOLATIONS = new AtomicInteger();
    private static final AtomicInteger CROSSINGS = new AtomicInteger();
    private static final AtomicInteger FAILURES = new AtomicInteger();
    /** Version of the owner node at the last counted crossing. */
    private static final AtomicInteger COUNTED = new AtomicInteger(-1);

    private static volatile boolean over;

    public static void main(String[] args) throws Exception {
        List<Thread> threads = new ArrayList<>();
        for (int i = 0; i < Integer.parseInt(args[4]); i++) {
            Thread thread = new Thread(() -> {
                try (CuratorFramework client = client(args[0])) {
                    contend(client, args[3], args[1], args[2]);
                } catch (Exception why) {
                    why.printStackTrace();
                    FAILURES.incrementAndGet();
                }
            });
            thread.start();
            threads.add(thread);
        }
        new BufferedReader(new InputStreamReader(System.in)).readLine();
        over = true;
        for (Thread thread : threads) {
            thread.join();
        }
        System.out.println(ACQUIRED.get() + " " + VIOLATIONS.get() + " " + CROSSINGS.get());
        System.exit(FAILURES.get() == 0 ? 0 : 1);
    }

    private static void contend(CuratorFramework client, String kind, String path, String owner) throws Exception {
        InterProcessLock write = writer(client, kind, path);
        InterProcessLock read = kind.equals("read-write") ? new InterProcessReadWriteLock(client, path).readLock() : null;
        while (!over) {
            boolean reads = read != null && ThreadLocalRandom.current().nextBoolean();
            InterProcessLock lock = reads ? read : write;
            lock.acquire();
            ACQUIRED.incrementAndGet();
            boolean undisturbed = reads ? look(client, owner) : mark(client, owner);
            if (!undisturbed) {
                VIOLATIONS.incrementAndGet();
            }
            lock.release();
        }
    }

    private static CuratorFramework client(String connect) throws InterruptedException {
        CuratorFramework client =
                CuratorFrameworkFactory.newClient(connect, 30_000, 15_000, new ExponentialBackoffRetry(100, 5));
        client.start();
        client.blockUntilConnected();
        return client;
    }

    private static InterProcessLock writer(CuratorFramework client, String kind, String path) {
        switch (kind) {
            case "mutex":
                return new InterProcessMutex(client, path);
            case "semaphore-mutex":
                return new InterProcessSemaphoreMutex(client, path);
            case "read-write":
                return new InterProcessReadWriteLock(client, path).writeLock();
            default:
                throw new IllegalArgumentException("unknown kind of lock: " + kind);
        }
    }

    /** Sends a writer's requests; returns whether they revealed no violation. */
    private static boolean mark(CuratorFramework client, String owner) throws Exception {
        int found = enter(client, owner);
        int entered = client.setData().forPath(owner, bytes("in java")).getVersion();
        int left = client.setData().forPath(owner, bytes("out java")).getVersion();
        return found >= 0 && entered == found + 1 && left == entered + 1;
    }

    /** Sends a reader's requests; returns whether they revealed no violation. */
    private static boolean look(CuratorFramework client, String owner) throws Exception {
        int found = enter(client, owner);
        return found >= 0 && client.checkExists().forPath(owner).getVersion() == found;
    }

    /** Returns the owner node's version, or -1 if a writer is inside. */
    private static int enter(CuratorFramework client, String owner) throws Exception {
        Stat stat = new Stat();
        String found = new String(client.getData().storingStatIn(stat).forPath(owner), StandardCharsets.UTF_8);
        int version = stat.getVersion();
        if (found.equals("out rust") && COUNTED.getAndAccumulate(version, Math::max) < version) {
            CROSSINGS.incrementAndGet();
        }
        return found.startsWith("in ") ? -1 : version;
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }
}
