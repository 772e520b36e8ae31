import java.util.Comparator;
import java.util.List;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.WatchedEvent;
import org.apache.zookeeper.Watcher.Event.EventType;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.ZooKeeper;

/** What the three classes of the three-strategy comparison have in common: their queue, their flags, their release. */
abstract class TaskLock implements PrintedLock {
    private static final String PREFIX = "temp";

    final ZooKeeper client;
    final String directory;
    final long intervalMillis;
    /** Path of its node; null after any failure to create it, such as a directory that another has just made. */
    String own;
    /** Set for ever by the first Disconnected. */
    volatile boolean interrupted;
    volatile boolean connected = true;

    TaskLock(ZooKeeper client, String directory, long intervalMillis) {
        this.client = client;
        this.directory = directory;
        this.intervalMillis = intervalMillis;
    }

    @Override
    public final boolean take() {
        try {
            if (client.exists(directory, false) == null) {
                client.create(directory, new byte[0], Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
            }
            own = client.create(directory + "/" + PREFIX, new byte[0], Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL_SEQUENTIAL);
            queued();
        } catch (Exception error) {
            // It goes on, with a connection and maybe without a node.
            System.err.println(error);
        }
        return waits();
    }

    /** After its node was created. */
    void queued() { }

    /** Whether it got the lock. */
    abstract boolean waits();

    @Override
    public final void letGo() {
        try {
            if (connected) client.delete(own, -1);
        } catch (Exception error) {
            System.err.println(error);
        }
    }

    final void disconnect() {
        connected = false;
        try {
            client.close();
        } catch (Exception error) {
            System.err.println(error);
        }
    }

    @Override
    public final void abandon() {
        interrupted = true;
    }

    /** Of the connection, whose events each watcher gets. */
    @Override
    public final void process(WatchedEvent event) {
        if (isBroken(event)) return;
        if (event.getType() == EventType.None) connected = true;
    }

    /** Whether the event ends the wait: not only an expired session, but also a broken connection. */
    final boolean isBroken(WatchedEvent event) {
        switch (event.getState()) {
            case AuthFailed, Disconnected, Expired -> interrupted = true;
            default -> {
                return false;
            }
        }
        return true;
    }

    /** Sorts the list; an empty one counts as its own. */
    final boolean isFirst(List<String> nodes) {
        if (nodes.isEmpty()) return true;
        nodes.sort(Comparator.comparingInt(node -> Integer.parseInt(node.substring(PREFIX.length()))));
        return own.equals(directory + "/" + nodes.get(0));
    }
}
