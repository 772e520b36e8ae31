import org.apache.zookeeper.ZooKeeper;

/** Waits for a flag that a watcher sets, like the comparison's second and third classes. */
abstract class FlaggedLock extends TaskLock {
    volatile boolean acquired;

    FlaggedLock(ZooKeeper client, String directory, long intervalMillis) {
        super(client, directory, intervalMillis);
    }

    @Override
    final void queued() {
        check();
    }

    /** Lists the queue, first on the caller's thread, and then on the client's thread at each event. */
    final void check() {
        if (!connected) return;
        try {
            if (isFree()) acquired = true;
        } catch (Exception error) {
            System.err.println(error);
            // The waiting thread is not notified.
            acquired = false;
            disconnect();
        }
    }

    /** Returns whether the lock's node is first in the queue; otherwise sets a watch. */
    abstract boolean isFree() throws Exception;

    /** Polls the flag. Without a node, no watcher ever sets it. */
    @Override
    final boolean waits() {
        if (!connected) return false;
        while (!interrupted) {
            try {
                Thread.sleep(intervalMillis);
            } catch (InterruptedException error) {
                System.err.println(error);
            }
            if (acquired) return true;
        }
        return false;
    }
}
