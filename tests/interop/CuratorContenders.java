import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreMutex;
import org.apache.curator.retry.ExponentialBackoffRetry;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;

/**
 * Java's Curator contending for a lock that others contend for, too.
 *
 * <p>In the critical section each holder creates the node {@code inside} and deletes it again: whoever finds it
 * there has met another holder. The node {@code last} tells which side was inside before.
 *
 * <p>Arguments: connect string, lock, directory of the two nodes, kind of lock (mutex, semaphore-mutex, write),
 * contenders, acquisitions in all. Prints {@code acquired violations crossings}. Exit code 0 also when
 * there were violations.
 */
public final class CuratorContenders {
    private static final byte[] SIDE = "java".getBytes(StandardCharsets.UTF_8);

    public static void main(String[] args) throws Exception {
        String lock = args[1];
        String scene = args[2];
        int contenders = Integer.parseInt(args[4]);
        AtomicInteger left = new AtomicInteger(Integer.parseInt(args[5]));
        AtomicInteger acquired = new AtomicInteger();
        AtomicInteger violations = new AtomicInteger();
        AtomicInteger crossings = new AtomicInteger();
        AtomicInteger failures = new AtomicInteger();
        List<Thread> threads = new ArrayList<>();
        for (int i = 0; i < contenders; i++) {
            Thread thread = new Thread(() -> {
                try (CuratorFramework client = client(args[0])) {
                    InterProcessLock held = lock(client, args[3], lock);
                    while (left.decrementAndGet() >= 0) {
                        held.acquire();
                        acquired.incrementAndGet();
                        if (!enter(client, scene)) {
                            violations.incrementAndGet();
                        } else {
                            if (!new String(client.getData().forPath(scene + "/last")).equals("java")) {
                                crossings.incrementAndGet();
                                client.setData().forPath(scene + "/last", SIDE);
                            }
                            client.delete().forPath(scene + "/inside");
                        }
                        held.release();
                    }
                } catch (Exception why) {
                    why.printStackTrace();
                    failures.incrementAndGet();
                }
            });
            thread.start();
            threads.add(thread);
        }
        for (Thread thread : threads) {
            thread.join();
        }
        System.out.println(acquired.get() + " " + violations.get() + " " + crossings.get());
        System.exit(failures.get() == 0 ? 0 : 1);
    }

    private static CuratorFramework client(String connect) throws InterruptedException {
        CuratorFramework client =
                CuratorFrameworkFactory.newClient(connect, 30_000, 15_000, new ExponentialBackoffRetry(100, 5));
        client.start();
        client.blockUntilConnected();
        return client;
    }

    private static InterProcessLock lock(CuratorFramework client, String kind, String path) {
        switch (kind) {
            case "mutex":
                return new InterProcessMutex(client, path);
            case "semaphore-mutex":
                return new InterProcessSemaphoreMutex(client, path);
            case "write":
                return new InterProcessReadWriteLock(client, path).writeLock();
            default:
                throw new IllegalArgumentException("unknown kind of lock: " + kind);
        }
    }

    /** Whether nobody else was inside. */
    private static boolean enter(CuratorFramework client, String scene) throws Exception {
        try {
            client.create().withMode(CreateMode.EPHEMERAL).forPath(scene + "/inside");
            return true;
        } catch (KeeperException.NodeExistsException somebody) {
            return false;
        }
    }
}
