import java.util.Comparator;
import java.util.List;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.WatchedEvent;
import org.apache.zookeeper.Watcher.Event.EventType;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.ZooKeeper;

/** Common parts of the three-strategy comparison's classes: queue, flags and release. */
abstract class TaskLock implements PrintedLock {
    private static final String PREFIX = "temp";

    final ZooKeeper client;
    final String directory;
    final long intervalMillis;
    /** Path of the lock's node; null if the create failed, for example because another client had just created the directory. */
    String own;
    /** True after the first Disconnected event; never reset. */
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
            // As in the article, it continues, possibly without a node.
            System.err.println(error);
        }
        return waits();
    }

    /** Called after the lock's node was created. */
    void queued() { }

    /** Waits; returns whether it acquired the lock. */
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

    /** Handles connection events, which every watcher receives. */
    @Override
    public final void process(WatchedEvent event) {
        if (isBroken(event)) return;
        if (event.getType() == EventType.None) connected = true;
    }

    /** Returns whether the event ends the wait. Even a broken connection does. */
    final boolean isBroken(WatchedEvent event) {
        switch (event.getState()) {
            case AuthFailed, Disconnected, Expired -> interrupted = true;
            default -> {
                return false;
            }
        }
        return true;
    }

    /** Returns whether the lock's node is first in the list. With an empty list, the result is true. */
    final boolean isFirst(List<String> nodes) {
        if (nodes.isEmpty()) return true;
        nodes.sort(Comparator.comparingInt(node -> Integer.parseInt(node.substring(PREFIX.length()))));
        return own.equals(directory + "/" + nodes.get(0));
    }
}
