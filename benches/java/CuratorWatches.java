import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.Properties;
import java.util.StringJoiner;
import java.util.UUID;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.WatcherRemoveCuratorFramework;
import org.apache.curator.framework.api.CuratorWatcher;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.retry.RetryOneTime;

/**
 * How many watches Apache Curator leaves on the servers where its locks and its API remove them.
 *
 * <p>Each step sets one watch and asks for its removal in one way; the servers' own count of watches (mntr) is read
 * before, while it is set, and after. One line of JSON goes to stdout. Nobody else may use the ensemble meanwhile.
 *
 * <p>Argument: connect string. Exit codes: 0 measured, 2 bad usage, 3 could not be measured.
 */
public final class CuratorWatches {
    private static final int SESSION_TIMEOUT_MS = 20_000;
    /** Removals in the background, and the servers' counts, take less. */
    private static final long SETTLES_MS = 500;

    private final String connect;
    private final CuratorFramework client;
    private final String root = "/curator-watches-" + UUID.randomUUID();
    private final StringJoiner steps = new StringJoiner(", ", "[", "]");

    private CuratorWatches(String connect, CuratorFramework client) {
        this.connect = connect;
        this.client = client;
    }

    public static void main(String[] args) throws Exception {
        if (args.length != 1) {
            System.err.println("usage: CuratorWatches HOST:PORT,...");
            System.exit(2);
        }
        try (CuratorFramework client =
                CuratorFrameworkFactory.newClient(args[0], SESSION_TIMEOUT_MS, SESSION_TIMEOUT_MS, new RetryOneTime(100))) {
            client.start();
            new CuratorWatches(args[0], client).measure();
        } catch (Exception error) {
            System.err.println("error: " + error);
            System.exit(3);
        }
    }

    private void measure() throws Exception {
        client.create().creatingParentsIfNeeded().forPath(root);
        try {
            step("removeWatchers", watcher -> {
                WatcherRemoveCuratorFramework removing = client.newWatcherRemoveCuratorFramework();
                removing.getData().usingWatcher(watcher).forPath(root);
                return removing::removeWatchers;
            });
            step("watches().remove in the foreground", watcher -> {
                client.getData().usingWatcher(watcher).forPath(root);
                return () -> client.watches().remove(watcher).forPath(root);
            });
            step("watches().remove in the background", watcher -> {
                client.getData().usingWatcher(watcher).forPath(root);
                return () -> client.watches().remove(watcher).inBackground().forPath(root);
            });
            step("watches().removeAll in the foreground", watcher -> {
                client.getData().usingWatcher(watcher).forPath(root);
                return () -> client.watches().removeAll().forPath(root);
            });
            mutex();
            semaphore();
        } finally {
            client.delete().deletingChildrenIfNeeded().forPath(root);
        }
        System.out.printf(
                "{\"curator\": \"%s\", \"zookeeper\": \"%s\", \"steps\": %s}%n", curatorsVersion(), serverVersion(), steps);
    }

    /** Something that asks for the removal of a watch. */
    private interface Removal {
        void ask() throws Exception;
    }

    /** Sets a watch, and returns what asks for its removal. */
    private interface Setting {
        Removal set(CuratorWatcher watcher) throws Exception;
    }

    private void step(String name, Setting setting) throws Exception {
        long before = watches();
        Removal removal = setting.set(event -> { });
        long set = watches();
        removal.ask();
        keep(name, before, set, watches());
        // What was left is used up by a change, so that the next step begins without.
        client.setData().forPath(root, new byte[0]);
    }

    /** A waiter that has got the mutex and releases it, with its watch on a node that went. */
    private void mutex() throws Exception {
        String path = root + "/mutex";
        InterProcessMutex first = new InterProcessMutex(client, path);
        InterProcessMutex second = new InterProcessMutex(client, path);
        long before = watches();
        first.acquire();
        Thread waiter = new Thread(() -> {
            try {
                second.acquire();
                second.release();
            } catch (Exception error) {
                System.err.println("warning: the waiter: " + error);
            }
        });
        waiter.start();
        Thread.sleep(SETTLES_MS);
        long set = watches();
        first.release();
        waiter.join();
        keep("InterProcessMutex, waited and released", before, set, watches());
    }

    /** An acquire of a semaphore sets a watch on its leases, and has it removed when it has one. */
    private void semaphore() throws Exception {
        InterProcessSemaphoreV2 semaphore = new InterProcessSemaphoreV2(client, root + "/semaphore", 2);
        long before = watches();
        Lease lease = semaphore.acquire();
        long held = watches();
        semaphore.returnLease(lease);
        keep("InterProcessSemaphoreV2, a lease acquired", before, held, held);
    }

    private void keep(String name, long before, long set, long after) {
        steps.add(String.format("{\"what\": \"%s\", \"before\": %d, \"set\": %d, \"after\": %d}", name, before, set, after));
    }

    /** The watches that all servers have set, once everything has settled. */
    private long watches() throws Exception {
        Thread.sleep(SETTLES_MS);
        long all = 0;
        for (String server : connect.split(",")) {
            all += Long.parseLong(said(server, "zk_watch_count"));
        }
        return all;
    }

    private static String curatorsVersion() throws IOException {
        Properties properties = new Properties();
        try (InputStream file = InterProcessMutex.class.getResourceAsStream(
                "/META-INF/maven/org.apache.curator/curator-recipes/pom.properties")) {
            properties.load(file);
        }
        return properties.getProperty("version");
    }

    private String serverVersion() throws Exception {
        return said(connect.split(",")[0], "zk_version").split("[-,]")[0];
    }

    private static String said(String server, String name) throws Exception {
        int colon = server.lastIndexOf(':');
        try (Socket socket = new Socket(server.substring(0, colon), Integer.parseInt(server.substring(colon + 1)))) {
            socket.getOutputStream().write("mntr".getBytes(StandardCharsets.US_ASCII));
            socket.getOutputStream().flush();
            BufferedReader reader =
                    new BufferedReader(new InputStreamReader(socket.getInputStream(), StandardCharsets.UTF_8));
            for (String line = reader.readLine(); line != null; line = reader.readLine()) {
                String[] words = line.split("\t", 2);
                if (words[0].equals(name)) {
                    return words[1];
                }
            }
        }
        throw new IllegalStateException(server + " does not say its " + name);
    }
}
