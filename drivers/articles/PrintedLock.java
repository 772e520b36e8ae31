import org.apache.zookeeper.Watcher;

/** A class that an article prints, rebuilt step by step. Connection events reach it as its client's default watcher. */
interface PrintedLock extends Watcher {
    /** Takes the lock as the article's user does; false if the class gives up. */
    boolean take() throws Exception;

    /** What the article's user calls afterwards, but for closing the connection: `close` of the protocol does that. */
    void letGo() throws Exception;

    /** Ends a wait from outside, which the class itself cannot. Its thread is interrupted and its connection closed, too. */
    default void abandon() { }
}
