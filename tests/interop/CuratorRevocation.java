import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.Revoker;
import org.apache.curator.retry.ExponentialBackoffRetry;

/**
 * Java's Curator on either side of a revocation.
 *
 * <p>Arguments: connect string, lock, and what to do. {@code ask}: asks the lock's holder to let go. {@code hold}:
 * takes the lock as one that can be asked for, says {@code held}, holds until it is asked, releases, and says
 * {@code left}.
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
