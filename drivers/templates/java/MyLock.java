import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.function.BiConsumer;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.ExponentialBackoffRetry;
import org.apache.zookeeper.KeeperException;

/**
 * Edit this file to define how your lock opens a session, acquires and releases. Driver.java implements the protocol.
 *
 * <p>Each contender has its own object and its own thread, on which everything except the listener runs.
 */
final class MyLock {
    /** Declares the features of your lock; zklockbench's docs/testing-your-client.md describes each field. */
    static final String ABILITIES = "{\"timeout\":\"native\",\"cancel\":\"none\",\"order\":\"fifo\",\"lost\":true}";

    private final CuratorFramework client;
    private final int sessionMillis;
    private volatile boolean expired;
    /** Mode of the current acquire: `write`, or `read` if your lock declares readers. */
    String mode = "write";
    private final Map<String, InterProcessMutex> locks = new HashMap<>();

    /** Opens a session. `tell` reports an event and, for `connected`, the session. `auth` may be null. */
    MyLock(String connect, int sessionMillis, String auth, BiConsumer<String, String> tell) throws Exception {
        var builder = CuratorFrameworkFactory.builder()
            .connectString(connect)
            .sessionTimeoutMs(sessionMillis)
            .connectionTimeoutMs(Math.max(sessionMillis, 15_000))
            // Otherwise, Curator replaces the given addresses, which are proxies during faults, with the ensemble's addresses.
            .ensembleTracker(false)
            .retryPolicy(new ExponentialBackoffRetry(1000, 3));
        if (auth != null) builder.authorization("digest", auth.getBytes(StandardCharsets.UTF_8));
        this.sessionMillis = sessionMillis;
        client = builder.build();
        client.getConnectionStateListenable().addListener((of, state) -> {
            switch (state) {
                case SUSPENDED -> tell.accept("suspended", null);
                case LOST -> {
                    expired = true;
                    tell.accept("expired", null);
                }
                // After an expiry, Curator opens another session, which also belongs to this contender.
                case CONNECTED, RECONNECTED -> tell.accept("connected", session());
                default -> { }
            }
        });
        client.start();
        if (!client.blockUntilConnected(Math.max(sessionMillis, 10_000), TimeUnit.MILLISECONDS)) {
            client.close();
            throw new IllegalStateException("could not open a session in time");
        }
    }

    /** Returns the session id in hexadecimal; null if the client has no session. */
    String session() {
        try {
            return "0x" + Long.toHexString(client.getZookeeperClient().getZooKeeper().getSessionId());
        } catch (Exception gone) {
            return null;
        }
    }

    /** Returns the session password in hexadecimal, which the suite uses to expire the session. */
    String password() throws Exception {
        return HexFormat.of().formatHex(client.getZookeeperClient().getZooKeeper().getSessionPasswd());
    }

    /** Acquires the lock in the directory `on`; returns false after the timeout. 0 never waits; a negative timeout waits forever. */
    boolean acquire(String on, long timeoutMillis) throws Exception {
        InterProcessMutex lock = locks.computeIfAbsent(on, path -> new InterProcessMutex(client, path));
        boolean held = true;
        if (timeoutMillis >= 0) held = lock.acquire(timeoutMillis, TimeUnit.MILLISECONDS);
        else lock.acquire();
        if (held && expired) {
            // Curator acquired the lock in its next session.
            lock.release();
            throw new KeeperException.SessionExpiredException();
        }
        return held;
    }

    void release(String on) throws Exception {
        locks.get(on).release();
    }

    void close() throws InterruptedException {
        // Without a connection, close() would leave the session and its nodes to the server until the session times out.
        client.blockUntilConnected(sessionMillis, TimeUnit.MILLISECONDS);
        client.close();
    }
}
