import java.util.List;
import org.apache.zookeeper.ZooKeeper;

/** The first class of the comparison, which lists the queue once per interval. */
final class ZKLock extends TaskLock {
    ZKLock(ZooKeeper client, String directory, long intervalMillis) {
        super(client, directory, intervalMillis);
    }

    /** Recursive, as printed: about ten thousand lists overflow the stack. */
    @Override
    boolean waits() {
        if (!connected) return false;
        try {
            Thread.sleep(intervalMillis);
            List<String> nodes = client.getChildren(directory, false);
            if (interrupted) {
                disconnect();
                return false;
            }
            return isFirst(nodes) || waits();
        } catch (Exception error) {
            System.err.println(error);
            disconnect();
            return false;
        }
    }
}
