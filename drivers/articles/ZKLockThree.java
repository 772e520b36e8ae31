import java.util.List;
import org.apache.zookeeper.WatchedEvent;
import org.apache.zookeeper.Watcher;
import org.apache.zookeeper.Watcher.Event.EventType;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.data.Stat;

/** The third class of the comparison, which watches the node before its own, and gives up if that node is already gone. */
final class ZKLockThree extends FlaggedLock {
    private final Watcher deletion = this::changed;

    ZKLockThree(ZooKeeper client, String directory, long intervalMillis) {
        super(client, directory, intervalMillis);
    }

    @Override
    boolean isFree() throws Exception {
        List<String> nodes = client.getChildren(directory, false);
        if (isFirst(nodes)) return true;
        if (nodes.size() == 1) {
            // The only node belongs to another contender, so the lock's own node is gone.
            interrupted = true;
            return false;
        }
        // Throws if the lock's own node is missing.
        String before = nodes.get(nodes.indexOf(own.substring(directory.length() + 1)) - 1);
        try {
            client.getData(directory + "/" + before, deletion, new Stat());
        } catch (Exception error) {
            System.err.println(error);
            interrupted = true;
        }
        return false;
    }

    /** Any other event uses up the watch without a check of the queue. */
    private void changed(WatchedEvent event) {
        if (!isBroken(event) && event.getType() == EventType.NodeDeleted) check();
    }
}
