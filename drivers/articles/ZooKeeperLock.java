import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.WatchedEvent;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.ZooKeeper;

/**
 * The watch-lock article's class. It waits once, and treats its predecessor's deletion as a grant.
 *
 * If joining the queue throws an exception, the class only prints it, then waits for the missing node `null`, and so holds the lock
 * at once.
 */
final class ZooKeeperLock implements PrintedLock {
    private static final String NAME = "mutex";
    private static final String SEPARATOR = "_lock_";

    private final ZooKeeper client;
    private final String directory;
    private final int patienceMillis;
    private String own;
    private String predecessor;
    private volatile CountDownLatch gate;

    ZooKeeperLock(ZooKeeper client, String directory, int sessionMillis) {
        this.client = client;
        this.directory = directory;
        this.patienceMillis = sessionMillis;
    }

    @Override
    public boolean take() {
        makeDirectory();
        return queue() || await(directory + "/" + predecessor);
    }

    private void makeDirectory() {
        try {
            if (client.exists(directory, false) == null) {
                client.create(directory, new byte[0], Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
            }
        } catch (KeeperException | InterruptedException error) {
            System.err.println(error);
        }
    }

    /** Joins the queue; returns whether the lock's node is the first with its prefix. */
    private boolean queue() {
        try {
            own = client.create(directory + "/" + NAME + SEPARATOR, new byte[0], Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL_SEQUENTIAL);
            List<String> all = client.getChildren(directory, false);
            String[] rivals = all.stream().filter(node -> node.split(SEPARATOR)[0].equals(NAME)).sorted().toArray(String[]::new);
            if (own.equals(directory + "/" + rivals[0])) return true;
            // Throws if the lock's node is missing.
            predecessor = rivals[Arrays.binarySearch(rivals, own.substring(own.lastIndexOf('/') + 1)) - 1];
        } catch (KeeperException | InterruptedException error) {
            System.err.println(error);
        }
        return false;
    }

    private boolean await(String node) {
        try {
            if (client.exists(node, true) == null) return true;
            // An event before this line wakes no thread.
            gate = new CountDownLatch(1);
            boolean opened = gate.await(patienceMillis, TimeUnit.MILLISECONDS);
            gate = null;
            return opened;
        } catch (KeeperException | InterruptedException error) {
            System.err.println(error);
            return false;
        }
    }

    @Override
    public void letGo() {
        try {
            // After a lost reply to the create, `own` is null, and the client rejects the path.
            if (client.exists(own, false) != null) {
                client.delete(own, -1);
                own = null;
            }
        } catch (KeeperException | InterruptedException error) {
            System.err.println(error);
        }
    }

    @Override
    public void process(WatchedEvent event) {
        CountDownLatch waits = gate;
        if (waits != null && event.getType() == Event.EventType.NodeDeleted) waits.countDown();
    }
}
