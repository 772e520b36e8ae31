import org.apache.zookeeper.ZooKeeper;

/** The wait of the comparison's second and third class: for a flag that a watcher sets. */
abstract class FlaggedLock extends TaskLock {
    volatile boolean acquired;

    FlaggedLock(ZooKeeper client, String directory, long intervalMillis) {
        super(client, directory, intervalMillis);
    }

    @Override
    final void queued() {
        check();
    }

    /** Lists once, and at each event again; on the client's own thread then. */
    final void check() {
        if (!connected) return;
        try {
            acquired |= isFree();
        } catch (Exception error) {
            System.err.println(error);
            // The waiting thread is not told.
            disconnect();
            acquired = false;
        }
    }

    /** Whether it is the first; sets a watch. */
    abstract boolean isFree() throws Exception;

    /** Without a node no watcher ever sets the flag. */
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
