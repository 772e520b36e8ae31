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

/**
 * Edit this file: how your lock opens a session, is taken and is released. Driver.java has the protocol.
 *
 * <p>Each contender has its own object and its own thread, on which everything except the listener runs.
 */
final class MyLock {
    /** Remove or change what your lock cannot do: zklockbench's docs/testing-your-client.md describes each field. */
    static final String ABILITIES = "{\"timeout\":\"native\",\"cancel\":\"none\",\"order\":\"fifo\",\"lost\":true}";

    private final CuratorFramework client;
    private final Map<String, InterProcessMutex> locks = new HashMap<>();

    /** `tell` takes an event and, of `connected`, the session. `auth` is null without one. */
    MyLock(String connect, int sessionMillis, String auth, BiConsumer<String, String> tell) throws Exception {
        var builder = CuratorFrameworkFactory.builder()
            .connectString(connect)
            .sessionTimeoutMs(sessionMillis)
            .connectionTimeoutMs(Math.max(sessionMillis, 15_000))
            // Otherwise Curator replaces the given addresses, which are proxies under faults, by the ensemble's own.
            .ensembleTracker(false)
            .retryPolicy(new ExponentialBackoffRetry(1000, 3));
        if (auth != null) builder.authorization("digest", auth.getBytes(StandardCharsets.UTF_8));
        client = builder.build();
        client.getConnectionStateListenable().addListener((of, state) -> {
            switch (state) {
                case SUSPENDED -> tell.accept("suspended", null);
                case LOST -> tell.accept("expired", null);
                // After an expiry Curator opens another session, which also belongs to this contender.
                case CONNECTED, RECONNECTED -> tell.accept("connected", session());
                default -> { }
            }
        });
        client.start();
        if (!client.blockUntilConnected(Math.max(sessionMillis, 10_000), TimeUnit.MILLISECONDS)) {
            client.close();
            throw new IllegalStateException("no session in time");
        }
    }

    /** Number of the session, in hexadecimal; null if the client has none. */
    String session() {
        try {
            return "0x" + Long.toHexString(client.getZookeeperClient().getZooKeeper().getSessionId());
        } catch (Exception gone) {
            return null;
        }
    }

    /** Password of the session, in hexadecimal: the suite ends sessions with it. */
    String password() throws Exception {
        return HexFormat.of().formatHex(client.getZookeeperClient().getZooKeeper().getSessionPasswd());
    }

    /** Takes the lock below the directory `on`; false after that time. A time of 0 is a try, a negative one waits for ever. */
    boolean acquire(String on, long timeoutMillis) throws Exception {
        InterProcessMutex lock = locks.computeIfAbsent(on, path -> new InterProcessMutex(client, path));
        if (timeoutMillis >= 0) return lock.acquire(timeoutMillis, TimeUnit.MILLISECONDS);
        lock.acquire();
        return true;
    }

    void release(String on) throws Exception {
        locks.get(on).release();
    }

    void close() {
        client.close();
    }
}
