import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Properties;
import java.util.StringJoiner;
import java.util.UUID;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.curator.RetryPolicy;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.WatcherRemoveCuratorFramework;
import org.apache.curator.framework.api.CuratorWatcher;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.retry.RetryNTimes;
import org.apache.curator.retry.RetryOneTime;
import org.apache.zookeeper.KeeperException;

/**
 * Observes Apache Curator to check claims of articles: the number of watches left on the servers after Curator's locks
 * and API remove them, the queue of its mutex as listed by another client, and what happens when another client deletes
 * a node.
 *
 * <p>Each watch step sets a watch and requests its removal in one of several ways. The servers' watch counts (mntr) are
 * read before the step, while the watch is set, and afterwards. One line of JSON goes to stdout. No other client may
 * use the ensemble at the same time.
 *
 * <p>Argument: connect string. Exit codes: 0 measured, 2 usage error, 3 cannot measure.
 */
public final class CuratorFacts {
    private static final int SESSION_TIMEOUT_MS = 20_000;
    /** Time for background removals and for updates of the servers' counts. */
    private static final long SETTLES_MS = 500;

    private final String connect;
    private final CuratorFramework client;
    private final String root = "/curator-facts-" + UUID.randomUUID();
    private final StringJoiner facts = new StringJoiner(", ", "{", "}");

    private CuratorFacts(String connect, CuratorFramework client) {
        this.connect = connect;
        this.client = client;
    }

    public static void main(String[] args) throws Exception {
        if (args.length != 1) {
            System.err.println("usage: CuratorFacts HOST:PORT,...");
            System.exit(2);
        }
        try (CuratorFramework client =
                CuratorFrameworkFactory.newClient(args[0], SESSION_TIMEOUT_MS, SESSION_TIMEOUT_MS, new RetryOneTime(100))) {
            client.start();
            new CuratorFacts(args[0], client).measure();
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
            step("foreground", watcher -> {
                client.getData().usingWatcher(watcher).forPath(root);
                return () -> client.watches().remove(watcher).forPath(root);
            });
            step("background", watcher -> {
                client.getData().usingWatcher(watcher).forPath(root);
                return () -> client.watches().remove(watcher).inBackground().forPath(root);
            });
            step("removeAll", watcher -> {
                client.getData().usingWatcher(watcher).forPath(root);
                return () -> client.watches().removeAll().forPath(root);
            });
            mutex();
            semaphore();
            queue();
            noNode();
        } finally {
            client.delete().deletingChildrenIfNeeded().forPath(root);
        }
        facts.add(String.format("\"curator\": \"%s\", \"zookeeper\": \"%s\"", curatorsVersion(), serverVersion()));
        System.out.println(facts);
    }

    /** A way to request the removal of a watch. */
    private interface Removal {
        void ask() throws Exception;
    }

    /** Sets a watch and returns the way to remove it. */
    private interface Setting {
        Removal set(CuratorWatcher watcher) throws Exception;
    }

    private void step(String name, Setting setting) throws Exception {
        long before = watches();
        Removal removal = setting.set(event -> { });
        long set = watches();
        removal.ask();
        keep(name, before, set, watches());
        // A change triggers all remaining watches, so the next step starts without watches.
        client.setData().forPath(root, new byte[0]);
    }

    /** Measures the watches left by a waiter of the mutex after its watched node is deleted. */
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
        keep("mutex", before, set, watches());
    }

    /** Measures the watches left by an acquire of a semaphore, which removes its watch once it has a lease. */
    private void semaphore() throws Exception {
        InterProcessSemaphoreV2 semaphore = new InterProcessSemaphoreV2(client, root + "/semaphore", 2);
        long before = watches();
        Lease lease = semaphore.acquire();
        long held = watches();
        semaphore.returnLease(lease);
        keep("semaphore", before, held, held);
    }

    private void keep(String name, long before, long set, long after) {
        facts.add(String.format("\"%s\": {\"set\": %d, \"left\": %d}", name, set - before, after - before));
    }

    /** Observes a holder and two waiters while another client reads their nodes and deletes the holder's node. */
    private void queue() throws Exception {
        String path = root + "/queue";
        try (Contender holder = new Contender(path, new RetryOneTime(100));
                Contender second = new Contender(path, new RetryOneTime(100));
                Contender third = new Contender(path, new RetryOneTime(100))) {
            List<Contender> all = List.of(holder, second, third);
            List<String> asTheyCame = new ArrayList<>();
            long ownersTold = 0;
            for (Contender contender : all) {
                contender.begin();
                List<String> added = nodes(path, asTheyCame.size() + 1);
                added.removeAll(asTheyCame);
                String node = added.get(0);
                asTheyCame.add(node);
                if (client.checkExists().forPath(path + "/" + node).getEphemeralOwner() == contender.session()) {
                    ownersTold++;
                }
            }
            boolean inOrder = nodes(path, 3).equals(asTheyCame);
            holder.awaitEntry();
            client.delete().forPath(path + "/" + asTheyCame.get(0));
            boolean nextEntered = second.awaitEntry();
            Thread.sleep(SETTLES_MS);
            boolean believes = holder.mutex.isAcquiredInThisProcess();
            boolean told = !believes || holder.heardOfIt || holder.failure != null;
            facts.add(String.format(
                    "\"queue\": {\"inOrder\": %b, \"ownersTold\": %d, \"nextEntered\": %b, \"holderTold\": %b, \"holderBelieves\": %b}",
                    inOrder, ownersTold, nextEntered, told, believes));
        }
    }

    /** Observes a waiter whose node another client deletes before the predecessor leaves. */
    private void noNode() throws Exception {
        Contender without = lostItsNode(root + "/without-retries", new RetryNTimes(0, 0));
        Contender with = lostItsNode(root + "/with-retries", new RetryNTimes(3, 100));
        facts.add(String.format(
                "\"noNode\": {\"thrownWithoutRetries\": %b, \"sessionLived\": %b, \"acquiredWithRetries\": %b, \"nodesCreated\": %d}",
                without.failure instanceof KeeperException.NoNodeException, without.sessionLived && with.sessionLived,
                with.entered, with.nodesCreated));
    }

    private Contender lostItsNode(String path, RetryPolicy policy) throws Exception {
        try (Contender holder = new Contender(path, new RetryOneTime(100)); Contender waiter = new Contender(path, policy)) {
            holder.begin();
            holder.awaitEntry();
            waiter.begin();
            String node = nodes(path, 2).get(1);
            long session = waiter.session();
            client.delete().forPath(path + "/" + node);
            holder.end();
            waiter.awaitEntry();
            waiter.nodesCreated = waiter.entered && !nodes(path, 1).contains(node) ? 2 : 1;
            waiter.sessionLived = waiter.session() == session;
            return waiter;
        }
    }

    /** Returns the nodes of a queue in numerical order, once there are {@code count} of them. */
    private List<String> nodes(String path, int count) throws Exception {
        for (int tries = 0; tries < 100; tries++) {
            if (client.checkExists().forPath(path) != null) {
                List<String> names = new ArrayList<>(client.getChildren().forPath(path));
                if (names.size() == count) {
                    names.sort(Comparator.comparing(name -> name.substring(name.lastIndexOf('-') + 1)));
                    return names;
                }
            }
            Thread.sleep(50);
        }
        throw new IllegalStateException(path + " never had " + count + " nodes");
    }

    /** Acquires the mutex on its own thread and session, and releases the mutex on request. */
    private final class Contender implements AutoCloseable {
        private final CuratorFramework own;
        private final InterProcessMutex mutex;
        private final CountDownLatch ended = new CountDownLatch(1);
        private final CountDownLatch decided = new CountDownLatch(1);
        private final Thread thread = new Thread(this::take);
        private volatile boolean entered;
        private volatile boolean heardOfIt;
        private volatile Exception failure;
        private int nodesCreated;
        private boolean sessionLived;

        Contender(String path, RetryPolicy policy) throws Exception {
            own = CuratorFrameworkFactory.newClient(connect, SESSION_TIMEOUT_MS, SESSION_TIMEOUT_MS, policy);
            own.start();
            own.blockUntilConnected();
            own.getConnectionStateListenable().addListener((client, state) -> heardOfIt = true);
            mutex = new InterProcessMutex(own, path);
        }

        void begin() {
            thread.start();
        }

        private void take() {
            try {
                mutex.acquire();
                entered = true;
                decided.countDown();
                ended.await();
                mutex.release();
            } catch (Exception error) {
                failure = error;
                decided.countDown();
            }
        }

        boolean awaitEntry() throws InterruptedException {
            return decided.await(5, TimeUnit.SECONDS) && entered;
        }

        void end() throws InterruptedException {
            ended.countDown();
            thread.join(SESSION_TIMEOUT_MS);
        }

        long session() throws Exception {
            return own.getZookeeperClient().getZooKeeper().getSessionId();
        }

        @Override
        public void close() {
            ended.countDown();
            own.close();
            thread.interrupt();
        }
    }

    /** Returns the number of watches on all servers, after a pause for the counts to settle. */
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
        throw new IllegalStateException(server + " does not report " + name);
    }
}
