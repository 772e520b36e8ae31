// A zklockbench driver for the articles' Java classes (version 1 of the driver protocol, docs/testing-your-client.md).
//
// Each acquire creates a new object of the class, as in the articles. There, the constructor connects and the
// release closes the connection. Here, the protocol's `open` and `close` do that, so a contender keeps its
// connection between locks unless the class itself closes it; the next acquire then connects again. `sessions
// = "per-acquisition"` in a scenario opens and closes a connection for each lock.
//
// No class supports cancellation. A cancelled wait is abandoned: its thread is interrupted and its connection
// closed.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.retry.ExponentialBackoffRetry;
import org.apache.zookeeper.Version;
import org.apache.zookeeper.WatchedEvent;
import org.apache.zookeeper.ZooKeeper;

public class ArticlesDriver {
    public static void main(String[] arguments) throws IOException {
        Protocol.serve("articles=drivers/articles/run", ArticlesDriver::hello, Contender::new);
    }

    static ObjectNode hello() {
        ObjectNode ready = Protocol.ready("articles 1", "zookeeper", Version.getVersion()).put("contenders", 1000);
        ObjectNode locks = ready.putObject("locks");
        declare(locks, "ZooKeeperLock", "the watch-lock article's class", "none");
        for (String name : new String[] {"ZKLock", "ZKLockTwo", "ZKLockThree"}) {
            ObjectNode parameters = declare(locks, name, "a class from the three-strategy comparison", "fifo");
            parameters.putObject("interval").put("default", "1s").put("doc", "Time between two lists, or two checks of the flag.");
        }
        declare(locks, "LocalLock", "the class of the article on local locks, which admits no contender", "fifo");
        return ready;
    }

    private static ObjectNode declare(ObjectNode locks, String name, String summary, String order) {
        ObjectNode lock = locks.putObject(name).put("summary", summary).put("timeout", "none").put("cancel", "emulated")
            .put("order", order).put("lost", true);
        ObjectNode parameters = lock.putObject("parameters");
        ObjectNode directory = parameters.putObject("directory").put("default", "there")
            .put("doc", "`missing`: the lock uses a subdirectory that the first contenders create.");
        directory.putArray("one_of").add("there").add("missing");
        return parameters;
    }

    /** Contender with its own connection, lock and thread. */
    static class Contender extends Protocol.Watching {
        JsonNode opened;
        CuratorFramework curator;
        volatile PrintedLock lock;
        boolean held;
        /** Thread that closes the connection of a cancelled wait; null if there is none. */
        Thread closing;

        Contender(int number) {
            super(number);
        }

        /** Also closes the connection, because a class may ignore the interrupt. */
        @Override
        void abandon() {
            lock.abandon();
            interrupt();
            closing = new Thread(this::disconnect, "closing-" + number);
            closing.setDaemon(true);
            closing.start();
        }

        /** Starts an acquire; returns false if the acquire is already cancelled. */
        synchronized boolean begins(long acquire, PrintedLock one) {
            boolean begins = begins(acquire);
            if (begins) lock = one;
            return begins;
        }

        @Override
        void serve(Request request) throws Exception {
            switch (request.kind) {
                case "open" -> {
                    opened = request.tree();
                    connect(opened);
                    Protocol.answer(request, Protocol.opened(client));
                }
                case "acquire" -> acquire(request);
                default -> release(request);
            }
        }

        @Override
        ObjectNode close() {
            disconnect();
            return Protocol.object();
        }

        @Override
        void connect(JsonNode open) throws Exception {
            synchronized (this) {
                connected = false;
            }
            if (isLocal()) {
                int timeout = open.path("session_ms").asInt();
                String servers = open.path("connect").asText();
                Sasl.identify(open);
                var builder = CuratorFrameworkFactory.builder().connectString(servers).ensembleTracker(false).sessionTimeoutMs(timeout)
                    .connectionTimeoutMs(Math.max(timeout, 15_000)).retryPolicy(new ExponentialBackoffRetry(1_000, 3))
                    .zookeeperFactory((connect, session, watcher, readOnly) -> new ZooKeeper(connect, session, event -> {
                        told(event);
                        watcher.process(event);
                    }, readOnly, new ServersInOrder(connect)));
                if (open.has("auth")) builder.authorization("digest", open.path("auth").asText().getBytes(StandardCharsets.UTF_8));
                curator = builder.build();
                curator.start();
                client = curator.getZookeeperClient().getZooKeeper();
                awaitConnection(open);
            } else {
                super.connect(open);
            }
            // The comparison's classes check their connection at once, and then every 300 ms.
            if (open.path("lock").asText().startsWith("ZKLock")) Thread.sleep(300);
        }

        boolean isLocal() {
            return opened.path("lock").asText().equals("LocalLock");
        }

        void disconnect() {
            try {
                if (curator != null) curator.close();
                else if (client != null) client.close();
            } catch (InterruptedException late) {
                // The servers end the session.
            }
        }

        PrintedLock lock(String on) {
            JsonNode parameters = opened.path("parameters");
            String directory = parameters.path("directory").asText().equals("missing") ? on + "/printed" : on;
            long interval = parameters.path("interval").asLong(1_000);
            return switch (opened.path("lock").asText()) {
                case "ZKLock" -> new ZKLock(client, directory, interval);
                case "ZKLockTwo" -> new ZKLockTwo(client, directory, interval);
                case "ZKLockThree" -> new ZKLockThree(client, directory, interval);
                case "LocalLock" -> new LocalLock(curator, directory);
                default -> new ZooKeeperLock(client, directory, client.getSessionTimeout());
            };
        }

        @Override
        void told(WatchedEvent event) {
            PrintedLock one = lock;
            if (one != null) one.process(event);
            super.told(event);
        }

        void acquire(Request request) throws Exception {
            long from = Protocol.now();
            PrintedLock one = null;
            boolean took = false;
            Exception thrown = null;
            try {
                if (!client.getState().isAlive() && !expired) {
                    // The last lock has closed its connection.
                    lock = null;
                    connect(opened);
                    event("connected", Protocol.session(client));
                }
                one = lock(request.on);
                if (begins(request.id, one)) took = one.take();
            } catch (Exception error) {
                thrown = error;
            }
            long granted = Protocol.now();
            if (ended(request.id)) {
                // The next acquire must not use the closing connection.
                if (closing != null) closing.join();
                closing = null;
                Protocol.fail(request, "cancelled", "no", null);
            } else if (thrown != null) {
                throw thrown;
            } else if (took) {
                held = true;
                Protocol.answer(request, "{}", from, granted);
            } else {
                givesUp(request, one);
            }
        }

        /** Behaves like the articles' callers after a failure: only the comparison's caller releases; ZooKeeperLock's node stays queued. */
        void givesUp(Request request, PrintedLock one) throws Exception {
            if (one instanceof ZooKeeperLock) {
                Protocol.fail(request, expired ? "session" : "timeout", "no", null);
                return;
            }
            one.letGo();
            disconnect();
            Protocol.fail(request, expired ? "session" : "connection", "maybe", "the class gave up");
        }

        void release(Request request) throws Exception {
            if (!held) {
                Protocol.fail(request, "bad-request", "no", "the lock is not held");
                return;
            }
            held = false;
            long from = Protocol.now();
            lock.letGo();
            Protocol.answer(request, "{}", from, Protocol.now());
        }
    }
}
