// The articles' Java classes as contenders of zklockbench, by version 1 of its driver protocol (docs/testing-your-client.md).
//
// Each acquire is a new object of its class, as in the articles. There it connects in its constructor and closes its connection in
// its release; the protocol's `open` and `close` do that here, so that a contender keeps its connection between locks unless the
// class itself closes it. Then the next acquire connects, within its time. `sessions = "per-acquisition"` in a scenario opens and
// closes one for each lock.
//
// No class can be cancelled. A cancelled wait is abandoned: its thread is interrupted and its connection closed.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.LinkedBlockingQueue;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.retry.ExponentialBackoffRetry;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.Version;
import org.apache.zookeeper.WatchedEvent;
import org.apache.zookeeper.Watcher.Event.EventType;
import org.apache.zookeeper.ZooKeeper;

public class ArticlesDriver {
    static final ObjectMapper JSON = new ObjectMapper();
    static final PrintStream OUT = System.out;
    static final Map<Integer, Contender> contenders = new ConcurrentHashMap<>();
    /** The contender of each acquire that is not answered yet. */
    static final Map<Long, Contender> acquiring = new ConcurrentHashMap<>();

    public static void main(String[] arguments) throws Exception {
        // Whatever else prints must not write between the lines of the protocol.
        System.setOut(System.err);
        if (!"1".equals(System.getenv("ZKLOCKBENCH_DRIVER"))) {
            System.err.println("This is a driver of zklockbench: zklockbench run SCENARIO --driver articles=drivers/articles/run");
            System.exit(2);
        }
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode request = JSON.readTree(line);
            switch (request.path("t").asText()) {
                case "hello" -> hello();
                case "open" -> {
                    Contender contender = new Contender(request);
                    contenders.put(contender.number, contender);
                    contender.start();
                    contender.requests.add(request);
                }
                case "cancel" -> {
                    long of = request.path("of").asLong();
                    Contender contender = acquiring.get(of);
                    if (contender != null) contender.cancel(of);
                    answer(request, object(), 0, 0);
                }
                case "echo" -> {
                    if (request.has("c")) hand(request); else answer(request, object().put("now", now()), 0, 0);
                }
                case "acquire", "release", "close" -> hand(request);
                default -> fail(request, "unsupported", "no", request.path("t").asText());
            }
        }
        System.exit(0);
    }

    static void hello() {
        ObjectNode ready = object().put("t", "ready").put("v", 1).put("driver", "articles 1").put("contenders", 1000)
            .put("clock", "monotonic").put("sasl", true);
        ready.putObject("inside").put("zookeeper", Version.getVersion()).put("java", System.getProperty("java.version"));
        ObjectNode locks = ready.putObject("locks");
        declare(locks, "ZooKeeperLock", "the watch-lock article's class", "none");
        for (String name : new String[] {"ZKLock", "ZKLockTwo", "ZKLockThree"}) {
            ObjectNode parameters = declare(locks, name, "a class of the three-strategy comparison", "fifo");
            parameters.putObject("interval").put("default", "1s").put("doc", "Time between two lists, or two checks of the flag.");
        }
        declare(locks, "LocalLock", "the class of the article on local locks, which lets no contender in", "fifo");
        write(ready);
    }

    private static ObjectNode declare(ObjectNode locks, String name, String summary, String order) {
        ObjectNode lock = locks.putObject(name).put("summary", summary).put("timeout", "none").put("cancel", "emulated")
            .put("order", order).put("lost", true);
        ObjectNode parameters = lock.putObject("parameters");
        ObjectNode directory = parameters.putObject("directory").put("default", "there")
            .put("doc", "`missing`: the lock is a directory below the given one, which the first contenders create.");
        directory.putArray("one_of").add("there").add("missing");
        return parameters;
    }

    static void hand(JsonNode request) {
        Contender contender = contenders.get(request.path("c").asInt());
        if (contender != null && request.path("t").asText().equals("acquire")) acquiring.put(request.path("id").asLong(), contender);
        if (contender == null || !contender.takes(request)) fail(request, "bad-request", "no", "no such contender");
    }

    /** One contender: its connection, its lock, its thread. */
    static class Contender extends Thread {
        final int number;
        final JsonNode opened;
        final BlockingQueue<JsonNode> requests = new LinkedBlockingQueue<>();
        volatile ZooKeeper client;
        CuratorFramework curator;
        volatile PrintedLock lock;
        boolean connected;
        boolean expired;
        boolean held;
        boolean closed;
        /** The acquire under way, and the last one that was cancelled; 0 for none. */
        long waitsIn;
        long cancelled;

        Contender(JsonNode opened) {
            super("contender-" + opened.path("c").asInt());
            this.opened = opened;
            number = opened.path("c").asInt();
            setDaemon(true);
        }

        /** False once it is closed: nothing in its queue would be answered. */
        synchronized boolean takes(JsonNode request) {
            return !closed && requests.add(request);
        }

        /** Ends the queue. An echo may come at any time. */
        synchronized void ends() {
            closed = true;
            requests.forEach(late -> answer(late, object().put("now", now()), 0, 0));
            contenders.remove(number, this);
        }

        void cancel(long acquire) {
            synchronized (this) {
                cancelled = acquire;
                if (waitsIn != acquire) return;
                lock.abandon();
                interrupt();
            }
            disconnect();
        }

        /** False if the acquire was cancelled before. */
        synchronized boolean begins(long acquire, PrintedLock one) {
            if (cancelled == acquire) return false;
            lock = one;
            waitsIn = acquire;
            return true;
        }

        /** Whether the acquire was cancelled. */
        synchronized boolean ended(long acquire) {
            waitsIn = 0;
            Thread.interrupted();
            return cancelled == acquire;
        }

        @Override
        public void run() {
            while (true) {
                JsonNode request;
                try {
                    request = requests.take();
                } catch (InterruptedException late) {
                    continue;
                }
                switch (request.path("t").asText()) {
                    case "open" -> open(request);
                    case "acquire" -> acquire(request);
                    case "release" -> release(request);
                    case "echo" -> answer(request, object().put("now", now()), 0, 0);
                    default -> {
                        ends();
                        disconnect();
                        answer(request, object(), 0, 0);
                        return;
                    }
                }
            }
        }

        void open(JsonNode request) {
            try {
                connect();
                answer(request, object().put("session", session()).put("password", HexFormat.of().formatHex(client.getSessionPasswd()))
                    .put("session_ms", client.getSessionTimeout()), 0, 0);
            } catch (Exception error) {
                fail(request, word(error), "no", error.toString());
            }
        }

        String session() {
            return "0x" + Long.toHexString(client.getSessionId());
        }

        void connect() throws Exception {
            int timeout = opened.path("session_ms").asInt();
            String servers = opened.path("connect").asText();
            byte[] auth = opened.path("auth").asText().getBytes(StandardCharsets.UTF_8);
            Sasl.identify(opened);
            synchronized (this) {
                connected = false;
            }
            if (isLocal()) {
                var builder = CuratorFrameworkFactory.builder().connectString(servers).ensembleTracker(false).sessionTimeoutMs(timeout)
                    .connectionTimeoutMs(Math.max(timeout, 15_000)).retryPolicy(new ExponentialBackoffRetry(1_000, 3))
                    .zookeeperFactory((connect, session, watcher, readOnly) -> new ZooKeeper(connect, session, event -> {
                        told(event);
                        watcher.process(event);
                    }, readOnly, new ServersInOrder(connect)));
                if (opened.has("auth")) builder.authorization("digest", auth);
                curator = builder.build();
                curator.start();
                client = curator.getZookeeperClient().getZooKeeper();
            } else {
                client = new ZooKeeper(servers, timeout, this::told, false, new ServersInOrder(servers));
                if (opened.has("auth")) client.addAuthInfo("digest", auth);
            }
            long until = now() + Math.max(timeout, 10_000) * 1_000L;
            synchronized (this) {
                while (!connected && now() < until) wait(Math.max(1, (until - now()) / 1_000));
                if (!connected) throw new KeeperException.ConnectionLossException();
            }
            // The comparison's classes look for their connection at once, and then every 300 ms.
            if (opened.path("lock").asText().startsWith("ZKLock")) Thread.sleep(300);
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

        /** Runs on the client's thread for events. */
        void told(WatchedEvent event) {
            PrintedLock one = lock;
            if (one != null) one.process(event);
            String what = switch (event.getState()) {
                case SyncConnected -> "connected";
                case Disconnected -> "suspended";
                case Expired -> "expired";
                default -> null;
            };
            if (event.getType() != EventType.None || what == null) return;
            synchronized (this) {
                connected |= what.equals("connected");
                expired |= what.equals("expired");
                notifyAll();
            }
            write(object().put("t", "event").put("c", number).put("what", what).put("at", now()));
        }

        void acquire(JsonNode request) {
            long id = request.path("id").asLong();
            long from = now();
            try {
                if (!client.getState().isAlive() && !expired) {
                    // The last lock has closed its connection.
                    lock = null;
                    connect();
                    write(object().put("t", "event").put("c", number).put("what", "connected").put("session", session()).put("at", now()));
                }
                PrintedLock one = lock(request.path("on").asText());
                if (!begins(id, one)) {
                    fail(request, "cancelled", "no", null);
                    return;
                }
                boolean took = one.take();
                long granted = now();
                if (ended(id)) {
                    fail(request, "cancelled", "no", null);
                } else if (took) {
                    held = true;
                    answer(request, object(), from, granted);
                } else {
                    givesUp(request, one);
                }
            } catch (Exception error) {
                fail(request, ended(id) ? "cancelled" : word(error), ended(id) ? "no" : "maybe", error.toString());
            } finally {
                acquiring.remove(id);
            }
        }

        /** As the articles' users: one calls the release, the other nothing, so that its node stays in the queue. */
        void givesUp(JsonNode request, PrintedLock one) throws Exception {
            if (one instanceof ZooKeeperLock) {
                fail(request, expired ? "session" : "timeout", "no", null);
                return;
            }
            one.letGo();
            disconnect();
            fail(request, expired ? "session" : "connection", "maybe", "the class gave up");
        }

        void release(JsonNode request) {
            if (!held) {
                fail(request, "bad-request", "no", "it is not held");
                return;
            }
            held = false;
            long from = now();
            try {
                lock.letGo();
                answer(request, object(), from, now());
            } catch (Exception error) {
                fail(request, word(error), "maybe", error.toString());
            }
        }
    }

    static String word(Exception error) {
        if (error instanceof KeeperException.SessionExpiredException) return "session";
        if (error instanceof KeeperException.ConnectionLossException) return "connection";
        if (error instanceof KeeperException.NoAuthException) return "refused";
        return error.getClass().getSimpleName();
    }

    /** The clock of the protocol: CLOCK_MONOTONIC in microseconds. */
    static long now() {
        return System.nanoTime() / 1_000;
    }

    static ObjectNode object() {
        return JSON.createObjectNode();
    }

    /** With times, where a class was called. */
    static void answer(JsonNode request, JsonNode what, long from, long to) {
        ObjectNode answer = object().put("id", request.path("id").asLong());
        answer.set("ok", what);
        write(to == 0 ? answer : answer.put("from", from).put("to", to));
    }

    static void fail(JsonNode request, String word, String held, String message) {
        ObjectNode answer = object().put("id", request.path("id").asLong()).put("err", word).put("held", held);
        write(message == null ? answer : answer.put("message", message));
    }

    /** A whole line, in one write. */
    static void write(JsonNode message) {
        byte[] line = (message + "\n").getBytes(StandardCharsets.UTF_8);
        synchronized (OUT) {
            OUT.write(line, 0, line.length);
            OUT.flush();
        }
    }
}
