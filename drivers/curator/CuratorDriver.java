// Curator's locks as contenders of zklockbench, by version 1 of its driver protocol (docs/drivers.md).
//
// Each contender has a thread and a CuratorFramework of its own: the thread owns the mutex, so acquire and release must come
// from the same one.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreMutex;
import org.apache.curator.retry.ExponentialBackoffRetry;
import org.apache.zookeeper.KeeperException;

public class CuratorDriver {
    static final ObjectMapper JSON = new ObjectMapper();
    static final PrintStream OUT = System.out;
    static final Map<Integer, Contender> contenders = new ConcurrentHashMap<>();
    /** Which contender an acquire is of that is not answered yet. */
    static final Map<Long, Contender> acquiring = new ConcurrentHashMap<>();

    public static void main(String[] arguments) throws Exception {
        // Whatever else prints must not write between the lines of the protocol.
        System.setOut(System.err);
        if (!"1".equals(System.getenv("ZKLOCKBENCH_DRIVER"))) {
            System.err.println("This is a driver of zklockbench: zklockbench run SCENARIO --driver curator=drivers/curator/run");
            System.exit(2);
        }
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode request = JSON.readTree(line);
            switch (request.path("t").asText()) {
                case "hello" -> hello();
                case "open" -> open(request);
                case "cancel" -> cancel(request);
                case "echo" -> {
                    if (request.has("c")) hand(request); else ok(request, done().put("now", now()));
                }
                case "acquire", "release", "close" -> hand(request);
                default -> fail(request, "unsupported", "no", request.path("t").asText());
            }
        }
        contenders.values().forEach(Contender::end);
        System.exit(0);
    }

    static void hello() {
        ObjectNode locks = JSON.createObjectNode();
        for (String name : new String[] {"InterProcessMutex", "InterProcessSemaphoreMutex", "InterProcessReadWriteLock"}) {
            ObjectNode lock = locks.putObject(name);
            lock.put("timeout", "native").put("cancel", "native").put("order", "fifo").put("lost", true);
            lock.put("reentrant", !name.equals("InterProcessSemaphoreMutex"));
            ObjectNode parameters = lock.putObject("parameters");
            parameters.putObject("retry_times").put("default", 3);
            parameters.putObject("retry_sleep").put("default", "1s").put("doc", "The first pause of ExponentialBackoffRetry.");
            if (name.equals("InterProcessReadWriteLock")) lock.putArray("modes").add("read").add("write");
            if (name.equals("InterProcessMutex")) {
                lock.put("token", "czxid");
                parameters.putObject("token").put("default", false)
                    .put("doc", "Whether its node is looked at after each acquire, for the token: a request more.");
            }
        }
        ObjectNode ready = JSON.createObjectNode().put("t", "ready").put("v", 1).put("driver", "curator 1.0");
        ready.putObject("inside").put("curator", version()).put("java", System.getProperty("java.version"));
        ready.set("locks", locks);
        write(ready);
    }

    /** The jar says it itself; Debian's file names do not. */
    static String version() {
        String about = "/META-INF/maven/org.apache.curator/curator-framework/pom.properties";
        Properties read = new Properties();
        try (InputStream in = CuratorFramework.class.getResourceAsStream(about)) {
            if (in != null) read.load(in);
        } catch (IOException unreadable) {
            // Then it is not known.
        }
        return read.getProperty("version", "unknown");
    }

    static void open(JsonNode request) {
        Contender contender = new Contender(request.path("c").asInt());
        Contender before = contenders.put(contender.number, contender);
        if (before != null) before.end();
        contender.start();
        contender.requests.add(request);
    }

    static void hand(JsonNode request) {
        Contender contender = contenders.get(request.path("c").asInt());
        if (contender == null) {
            fail(request, "bad-request", "no", "no such contender");
            return;
        }
        if (request.path("t").asText().equals("acquire")) acquiring.put(request.path("id").asLong(), contender);
        contender.requests.add(request);
    }

    /** The acquire gets its own answer: what it came to. */
    static void cancel(JsonNode request) {
        Contender contender = acquiring.get(request.path("of").asLong());
        if (contender != null) contender.interruptWait(request.path("of").asLong());
        ok(request, done());
    }

    /** One contender: its client, its locks, its thread. */
    static class Contender extends Thread {
        final int number;
        final BlockingQueue<JsonNode> requests = new LinkedBlockingQueue<>();
        final Map<String, InterProcessLock> locks = new HashMap<>();
        CuratorFramework client;
        JsonNode opened;
        InterProcessLock held;
        /** The acquire that it is in, and one that is to end before it has begun; 0 for none. */
        long waitsIn;
        long cancelled;

        Contender(int number) {
            super("contender-" + number);
            this.number = number;
            setDaemon(true);
        }

        void end() {
            requests.add(JSON.createObjectNode().put("t", "end"));
        }

        synchronized void interruptWait(long id) {
            cancelled = id;
            if (waitsIn == id) interrupt();
        }

        /** False where it was cancelled before. */
        synchronized boolean begins(long id) {
            if (cancelled == id) return false;
            waitsIn = id;
            return true;
        }

        synchronized void ended() {
            waitsIn = 0;
            // That came too late to end the wait must not end what comes next.
            Thread.interrupted();
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
                    case "open" -> connect(request);
                    case "acquire" -> acquire(request);
                    case "release" -> release(request);
                    case "echo" -> ok(request, done().put("now", now()));
                    default -> {
                        if (client != null) client.close();
                        if (request.has("id")) {
                            contenders.remove(number, this);
                            ok(request, done());
                        }
                        return;
                    }
                }
            }
        }

        void connect(JsonNode request) {
            opened = request;
            int times = request.path("parameters").path("retry_times").asInt(3);
            int sleep = request.path("parameters").path("retry_sleep").asInt(1000);
            int timeout = request.path("session_ms").asInt();
            var builder = CuratorFrameworkFactory.builder()
                .connectString(request.path("connect").asText())
                .sessionTimeoutMs(timeout)
                .connectionTimeoutMs(Math.max(timeout, 15_000))
                .retryPolicy(new ExponentialBackoffRetry(sleep, times));
            if (request.has("auth")) builder.authorization("digest", request.path("auth").asText().getBytes(StandardCharsets.UTF_8));
            client = builder.build();
            client.getConnectionStateListenable().addListener((of, state) -> {
                switch (state) {
                    case SUSPENDED -> event("suspended");
                    case LOST -> event("expired");
                    case CONNECTED, RECONNECTED -> connected(of);
                    default -> { }
                }
            });
            client.start();
            try {
                if (!client.blockUntilConnected(timeout, TimeUnit.MILLISECONDS)) {
                    fail(request, "connection", "no", "no session in time");
                    return;
                }
                var keeper = client.getZookeeperClient().getZooKeeper();
                ok(request, done()
                    .put("session", "0x" + Long.toHexString(keeper.getSessionId()))
                    .put("password", HexFormat.of().formatHex(keeper.getSessionPasswd()))
                    .put("session_ms", keeper.getSessionTimeout()));
            } catch (Exception error) {
                fail(request, word(error), "no", error.toString());
            }
        }

        void event(String what) {
            write(JSON.createObjectNode().put("t", "event").put("c", number).put("what", what).put("at", now()));
        }

        /** After an expiry the client has another session, which is this contender's, too. */
        void connected(CuratorFramework of) {
            ObjectNode event = JSON.createObjectNode().put("t", "event").put("c", number).put("what", "connected").put("at", now());
            try {
                event.put("session", "0x" + Long.toHexString(of.getZookeeperClient().getZooKeeper().getSessionId()));
            } catch (Exception gone) {
                // Then the next event tells it.
            }
            write(event);
        }

        InterProcessLock lock(String path, String mode) {
            InterProcessLock known = locks.get(path + " " + mode);
            if (known != null) return known;
            switch (opened.path("lock").asText()) {
                case "InterProcessSemaphoreMutex" -> locks.put(path + " write", new InterProcessSemaphoreMutex(client, path));
                case "InterProcessReadWriteLock" -> {
                    var sides = new InterProcessReadWriteLock(client, path);
                    locks.put(path + " read", sides.readLock());
                    locks.put(path + " write", sides.writeLock());
                }
                default -> locks.put(path + " write", new KnownMutex(client, path));
            }
            return locks.get(path + " " + mode);
        }

        void acquire(JsonNode request) {
            long id = request.path("id").asLong();
            InterProcessLock lock = lock(request.path("on").asText(), request.path("mode").asText("write"));
            long from = now();
            try {
                if (!begins(id)) {
                    fail(request, "cancelled", "no", null);
                    return;
                }
                boolean got = true;
                if (request.has("timeout_ms")) got = lock.acquire(request.path("timeout_ms").asLong(), TimeUnit.MILLISECONDS);
                else lock.acquire();
                long to = now();
                ended();
                if (!got) {
                    fail(request, "timeout", "no", null);
                    return;
                }
                held = lock;
                ObjectNode done = done();
                if (lock instanceof KnownMutex mutex && opened.path("parameters").path("token").asBoolean()) {
                    String node = mutex.node();
                    done.put("node", node).put("token", client.checkExists().forPath(node).getCzxid());
                }
                answer(request, done, from, to);
            } catch (InterruptedException cancelled) {
                // Its node was deleted before this was thrown.
                fail(request, "cancelled", "no", null);
            } catch (Exception error) {
                fail(request, word(error), "maybe", error.toString());
            } finally {
                ended();
                acquiring.remove(id);
            }
        }

        void release(JsonNode request) {
            long from = now();
            try {
                if (held == null) {
                    fail(request, "bad-request", "no", "nothing is held");
                    return;
                }
                held.release();
                answer(request, done(), from, now());
            } catch (Exception error) {
                fail(request, word(error), "maybe", error.toString());
            }
        }
    }

    /** Tells its node, which the class keeps for those that extend it. */
    static class KnownMutex extends InterProcessMutex {
        KnownMutex(CuratorFramework client, String path) {
            super(client, path);
        }

        String node() {
            return getLockPath();
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

    static ObjectNode done() {
        return JSON.createObjectNode();
    }

    static void ok(JsonNode request, ObjectNode done) {
        ObjectNode answer = JSON.createObjectNode().put("id", request.path("id").asLong());
        answer.set("ok", done);
        write(answer);
    }

    static void answer(JsonNode request, ObjectNode done, long from, long to) {
        ObjectNode answer = JSON.createObjectNode().put("id", request.path("id").asLong());
        answer.set("ok", done);
        write(answer.put("from", from).put("to", to));
    }

    static void fail(JsonNode request, String word, String held, String message) {
        ObjectNode answer = JSON.createObjectNode().put("id", request.path("id").asLong()).put("err", word).put("held", held);
        write(message == null ? answer : answer.put("message", message));
    }

    /** A line a message, and nothing stays in a buffer. */
    static synchronized void write(ObjectNode line) {
        OUT.println(line);
        OUT.flush();
    }
}
