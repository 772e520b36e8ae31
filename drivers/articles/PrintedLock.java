import org.apache.zookeeper.Watcher;

/** A class from an article, rebuilt step by step. The lock is its client's default watcher, so it receives connection events. */
interface PrintedLock extends Watcher {
    /** Acquires the lock like the article's caller; returns false if the class gives up. */
    boolean take() throws Exception;

    /** Releases the lock like the article's caller, but leaves closing the connection to the protocol's `close`. */
    void letGo() throws Exception;

    /** Ends a wait, which the class itself cannot do. The caller also interrupts the thread and closes the connection. */
    default void abandon() { }
}
