import java.util.Comparator;
import java.util.List;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;
import org.apache.curator.framework.CuratorFramework;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.WatchedEvent;
import org.apache.zookeeper.Watcher;

/**
 * The lock of the article on requirements of ZooKeeper locks: a local lock in front of a queue of Curator's nodes.
 *
 * The class compares the full path from `create` with the bare names in a list, so it never finds its node, even without contention.
 */
final class LocalLock implements PrintedLock {
    private final CuratorFramework client;
    private final String directory;
    private final ReentrantLock localLock = new ReentrantLock();
    private final ReentrantLock watcherLock = new ReentrantLock();

    LocalLock(CuratorFramework client, String directory) {
        this.client = client.newWatcherRemoveCuratorFramework();
        this.directory = directory;
    }

    @Override
    public boolean take() throws Exception {
        boolean acquired = false;
        localLock.lock();
        try {
            acquired = localLock.getHoldCount() > 1;
            if (!acquired) {
                queue();
                acquired = true;
            }
        } finally {
            if (!acquired) localLock.unlock();
        }
        return true;
    }

    private void queue() throws Exception {
        String own = client.create().withProtection().withMode(CreateMode.EPHEMERAL_SEQUENTIAL).forPath(directory + "/lock-");
        if (own.equals(first())) return;
        boolean leaves = true;
        watcherLock.lock();
        try {
            do {
                Condition changed = watcherLock.newCondition();
                client.checkExists().usingWatcher((Watcher) event -> wake(changed)).forPath(before(own));
                changed.await();
            } while (!own.equals(first()));
            leaves = false;
        } catch (InterruptedException error) {
            // As in the article, the caller holds the lock without a node.
            Thread.currentThread().interrupt();
        } finally {
            watcherLock.unlock();
            if (leaves) delete(own);
        }
    }

    /** As in the article, takes the waiter's local lock instead of the condition's lock. */
    private void wake(Condition changed) {
        localLock.lock();
        try {
            changed.signalAll();
        } finally {
            localLock.unlock();
        }
    }

    private String first() throws Exception {
        List<String> nodes = sorted();
        if (nodes.isEmpty()) throw new IllegalStateException("the queue is empty");
        return nodes.get(0);
    }

    private String before(String own) throws Exception {
        List<String> nodes = sorted();
        int at = nodes.indexOf(own) - 1;
        if (at < 0) throw new IllegalStateException("no node precedes " + own + " in " + nodes);
        return nodes.get(at);
    }

    /** Sorts by the third part between hyphens, which belongs to the GUID. */
    private List<String> sorted() throws Exception {
        return client.getChildren().forPath(directory).stream().sorted(Comparator.comparing(node -> node.split("-")[2])).toList();
    }

    private void delete(String path) {
        try {
            client.delete().guaranteed().forPath(path);
        } catch (Exception error) {
            System.err.println(error);
        }
    }

    @Override
    public void letGo() throws Exception {
        if (!localLock.isHeldByCurrentThread()) throw new IllegalStateException("this thread does not hold the lock");
        if (localLock.getHoldCount() > 1) {
            localLock.unlock();
            return;
        }
        try {
            // As in the article, a bare name, which Curator rejects. Its node may also be another contender's.
            client.delete().guaranteed().forPath(first());
        } finally {
            localLock.unlock();
        }
    }

    @Override
    public void process(WatchedEvent event) { }
}
