import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.Revoker;
import org.apache.curator.retry.ExponentialBackoffRetry;

/**
 * Requests or accepts a revocation with Java's Curator.
 *
 * <p>Arguments: connect string, lock, and action. {@code ask}: requests revocation from the lock's holder.
 * {@code hold}: acquires the lock as revocable, prints {@code held}, holds the lock until revocation is requested,
 * releases the lock, and prints {@code left}.
 */
public final class CuratorRevocation {
    public static void main(String[] args) throws Exception {
        try (CuratorFramework client =
                CuratorFrameworkFactory.newClient(args[0], 30_000, 15_000, new ExponentialBackoffRetry(100, 5))) {
            client.start();
            InterProcessMutex mutex = new InterProcessMutex(client, args[1]);
            if (args[2].equals("ask")) {
                Revoker.attemptRevoke(client, mutex.getParticipantNodes().iterator().next());
                return;
            }
            Object asked = new Object();
            mutex.makeRevocable(own -> {
                synchronized (asked) {
                    asked.notifyAll();
                }
            });
            synchronized (asked) {
                mutex.acquire();
                System.out.println("held");
                asked.wait();
            }
            mutex.release();
            System.out.println("left");
        }
    }
}
