import org.apache.zookeeper.WatchedEvent;
import org.apache.zookeeper.Watcher;
import org.apache.zookeeper.Watcher.Event.EventType;
import org.apache.zookeeper.ZooKeeper;

/** The second class of the comparison, which watches the directory, even while it holds the lock. */
final class ZKLockTwo extends FlaggedLock {
    private final Watcher changes = this::changed;

    ZKLockTwo(ZooKeeper client, String directory, long intervalMillis) {
        super(client, directory, intervalMillis);
    }

    @Override
    boolean isFree() throws Exception {
        return isFirst(client.getChildren(directory, changes));
    }

    private void changed(WatchedEvent event) {
        if (!isBroken(event) && event.getType() == EventType.NodeChildrenChanged) check();
    }
}
