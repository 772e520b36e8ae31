import org.apache.zookeeper.Watcher;

/** A class from an article, rebuilt step by step. It receives connection events as its client's default watcher. */
interface PrintedLock extends Watcher {
    /** Acquires the lock like the article's user; false if the class gives up. */
    boolean take() throws Exception;

    /** Releases the lock like the article's user, except for closing the connection, which the protocol's `close` does. */
    void letGo() throws Exception;

    /** Ends a wait, which the class itself cannot. The caller also interrupts its thread and closes its connection. */
    default void abandon() { }
}
