// Curator's locks as contenders of zklockbench, by version 1 of its driver protocol (docs/testing-your-client.md).
//
// Each contender has its own thread and CuratorFramework. The thread owns the mutex, so acquire and release must come from the
// same thread. Locks.java lists the locks; Baton.java and Count.java are this suite's own locks in Java.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
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
import org.apache.curator.retry.ExponentialBackoffRetry;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.client.ZKClientConfig;

public class CuratorDriver {
    static final ObjectMapper JSON = new ObjectMapper();
    /** Not System.out, which writes a line and its line break separately. */
    static final OutputStream OUT = new FileOutputStream(FileDescriptor.out);
    /** Ends a contender's thread, because its number was reused or the driver ends. */
    static final Request END = new Request();
    static final Map<Integer, Contender> contenders = new ConcurrentHashMap<>();
    /** Contender of each acquire that has no reply yet. */
    static final Map<Long, Contender> acquiring = new ConcurrentHashMap<>();
    /** File with the certificate of all contenders; null until the first one needs it. */
    static String identity;

    public static void main(String[] arguments) throws Exception {
        // Other output must not appear between the lines of the protocol.
        System.setOut(System.err);
        if (!"1".equals(System.getenv("ZKLOCKBENCH_DRIVER"))) {
            System.err.println("This is a driver of zklockbench: zklockbench run SCENARIO --driver curator=drivers/curator/run");
            System.exit(2);
        }
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            Request request = new Request(line);
            switch (request.kind) {
                case "hello" -> hello();
                case "open" -> open(request);
                case "cancel" -> cancel(request);
                case "echo" -> {
                    if (request.contender >= 0) hand(request); else ok(request, done().put("now", now()));
                }
                case "acquire", "release", "close" -> hand(request);
                default -> fail(request, "unsupported", "no", request.kind);
            }
        }
        contenders.values().forEach(Contender::end);
        System.exit(0);
    }

    static void hello() {
        ObjectNode ready = JSON.createObjectNode().put("t", "ready").put("v", 1).put("driver", "curator 1.1")
            .put("clock", "monotonic").put("tls", true).put("sasl", true);
        ready.putObject("inside").put("curator", version()).put("java", System.getProperty("java.version"));
        Locks.declare(ready.putObject("locks"));
        write(ready.toString());
    }

    /** Read from the jar, because Debian's file names do not contain it. */
    static String version() {
        String about = "/META-INF/maven/org.apache.curator/curator-framework/pom.properties";
        Properties read = new Properties();
        try (InputStream in = CuratorFramework.class.getResourceAsStream(about)) {
            if (in != null) read.load(in);
        } catch (IOException unreadable) {
            // The version stays unknown.
        }
        return read.getProperty("version", "unknown");
    }

    static void open(Request request) {
        Contender contender = new Contender(request.contender);
        Contender before = contenders.put(contender.number, contender);
        if (before != null) before.end();
        contender.start();
        contender.requests.add(request);
    }

    static void hand(Request request) {
        Contender contender = contenders.get(request.contender);
        if (contender == null) {
            fail(request, "bad-request", "no", "no such contender");
            return;
        }
        if (request.kind.equals("acquire")) acquiring.put(request.id, contender);
        contender.requests.add(request);
    }

    /** The cancelled acquire gets its own reply with the outcome. */
    static void cancel(Request request) {
        Contender contender = acquiring.get(request.of);
        if (contender != null) contender.interruptWait(request.of);
        ok(request, done());
    }

    /** A contender with its client, locks and thread. */
    static class Contender extends Thread {
        final int number;
        final BlockingQueue<Request> requests = new LinkedBlockingQueue<>();
        final Map<String, InterProcessLock> locks = new HashMap<>();
        CuratorFramework client;
        JsonNode opened;
        InterProcessLock held;
        /** The acquire in progress and the last cancelled one; 0 for none. */
        long waitsIn;
        long cancelled;

        Contender(int number) {
            super("contender-" + number);
            this.number = number;
            setDaemon(true);
        }

        void end() {
            requests.add(END);
        }

        synchronized void interruptWait(long id) {
            cancelled = id;
            if (waitsIn == id) interrupt();
        }

        /** False if it was cancelled before. */
        synchronized boolean begins(Request request) {
            if (request.id <= cancelled) return false;
            waitsIn = request.id;
            return true;
        }

        synchronized void ended() {
            waitsIn = 0;
            // An interrupt that came too late to end this wait must not end the next one.
            Thread.interrupted();
        }

        @Override
        public void run() {
            while (true) {
                Request request;
                try {
                    request = requests.take();
                } catch (InterruptedException late) {
                    continue;
                }
                switch (request.kind) {
                    case "open" -> connect(request);
                    case "acquire" -> acquire(request);
                    case "release" -> release(request);
                    case "echo" -> ok(request, done().put("now", now()));
                    default -> {
                        if (client != null) client.close();
                        if (request != END) {
                            contenders.remove(number, this);
                            ok(request, done());
                        }
                        return;
                    }
                }
            }
        }

        void connect(Request asked) {
            JsonNode request = asked.tree();
            opened = request;
            int times = request.path("parameters").path("retry_times").asInt(3);
            int sleep = request.path("parameters").path("retry_sleep").asInt(1000);
            int timeout = request.path("session_ms").asInt();
            var builder = CuratorFrameworkFactory.builder()
                .connectString(request.path("connect").asText())
                .sessionTimeoutMs(timeout)
                .connectionTimeoutMs(Math.max(timeout, 15_000))
                .retryPolicy(new ExponentialBackoffRetry(sleep, times));
            keepToConnectString(builder);
            ZKClientConfig config = new ZKClientConfig();
            if (request.has("tls")) encrypt(config, request.path("tls"));
            Sasl.identify(request);
            builder.zookeeperFactory((connect, session, watcher, readOnly) ->
                new ZooKeeper(connect, session, watcher, readOnly, new ServersInOrder(connect), config));
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
                    fail(asked, "connection", "no", "no session in time");
                    return;
                }
                var keeper = client.getZookeeperClient().getZooKeeper();
                ok(asked, done()
                    .put("session", "0x" + Long.toHexString(keeper.getSessionId()))
                    .put("password", HexFormat.of().formatHex(keeper.getSessionPasswd()))
                    .put("session_ms", keeper.getSessionTimeout()));
            } catch (Exception error) {
                fail(asked, word(error), "no", error.toString());
            }
        }

        /**
         * Switches off the EnsembleTracker, which replaces the connect string with the addresses in the ensemble's configuration
         * and so bypasses the proxy for faults. Releases without this setting are used unchanged.
         */
        void keepToConnectString(CuratorFrameworkFactory.Builder builder) {
            try {
                CuratorFrameworkFactory.Builder.class.getMethod("ensembleTracker", boolean.class).invoke(builder, false);
            } catch (ReflectiveOperationException absent) {
                // The suite then detects whether the client bypasses its proxy.
            }
        }

        void encrypt(ZKClientConfig config, JsonNode tls) {
            config.setProperty("zookeeper.client.secure", "true");
            config.setProperty("zookeeper.clientCnxnSocket", "org.apache.zookeeper.ClientCnxnSocketNetty");
            config.setProperty("zookeeper.ssl.trustStore.location", tls.path("ca").asText());
            config.setProperty("zookeeper.ssl.trustStore.type", "PEM");
            if (tls.path("other_names").asBoolean()) config.setProperty("zookeeper.ssl.hostnameVerification", "false");
            if (tls.has("cert")) {
                config.setProperty("zookeeper.ssl.keyStore.location", identity(tls));
                config.setProperty("zookeeper.ssl.keyStore.type", "PEM");
            }
        }

        void event(String what) {
            write(JSON.createObjectNode().put("t", "event").put("c", number).put("what", what).put("at", now()).toString());
        }

        /** After an expiry the client opens another session, which also belongs to this contender. */
        void connected(CuratorFramework of) {
            ObjectNode event = JSON.createObjectNode().put("t", "event").put("c", number).put("what", "connected").put("at", now());
            try {
                event.put("session", "0x" + Long.toHexString(of.getZookeeperClient().getZooKeeper().getSessionId()));
            } catch (Exception gone) {
                // The next event contains the session.
            }
            write(event.toString());
        }

        InterProcessLock lock(String path, String mode) {
            String name = opened.path("lock").asText();
            return locks.computeIfAbsent(path + " " + mode, at -> Locks.make(name, client, path, mode, opened.path("parameters")));
        }

        void acquire(Request request) {
            InterProcessLock lock = lock(request.on, request.mode);
            try {
                if (!begins(request)) {
                    fail(request, "cancelled", "no", null);
                    return;
                }
                boolean got = true;
                long from = now();
                if (request.timeoutMillis >= 0) got = lock.acquire(request.timeoutMillis, TimeUnit.MILLISECONDS);
                else lock.acquire();
                long granted = now();
                ended();
                if (!got) {
                    fail(request, "timeout", "no", null);
                    return;
                }
                held = lock;
                write(line(request, Locks.tell(lock, client, opened.path("parameters")), from, granted));
            } catch (InterruptedException cancelled) {
                // The node was deleted before this exception was thrown.
                fail(request, "cancelled", "no", null);
            } catch (Exception error) {
                fail(request, word(error), "maybe", error.toString());
            } finally {
                ended();
                acquiring.remove(request.id);
            }
        }

        void release(Request request) {
            long from = now();
            try {
                if (held == null) {
                    fail(request, "bad-request", "no", "nothing is held");
                    return;
                }
                held.release();
                write(line(request, "{}", from, now()));
                // A reentrant lock is released as often as it was acquired.
                if (!held.isAcquiredInThisProcess()) held = null;
            } catch (Exception error) {
                write(failure(request, word(error), "maybe", error.toString()).put("from", from).put("to", now()).toString());
            }
        }
    }

    /** The client requires key and certificate in one file. Only this user can read it; it is deleted when the process ends. */
    static synchronized String identity(JsonNode tls) {
        if (identity == null) {
            try {
                Path file = Files.createTempFile("curator-driver-", ".pem");
                file.toFile().deleteOnExit();
                Files.write(file, Files.readAllBytes(Path.of(tls.path("key").asText())));
                Files.writeString(file, "\n" + Files.readString(Path.of(tls.path("cert").asText())), StandardOpenOption.APPEND);
                identity = file.toString();
            } catch (IOException unreadable) {
                throw new UncheckedIOException(unreadable);
            }
        }
        return identity;
    }

    static String word(Exception error) {
        if (error instanceof KeeperException.SessionExpiredException) return "session";
        if (error instanceof KeeperException.ConnectionLossException) return "connection";
        if (error instanceof KeeperException.NoAuthException) return "refused";
        return error.getClass().getSimpleName();
    }

    /** The protocol's clock: CLOCK_MONOTONIC in microseconds. */
    static long now() {
        return System.nanoTime() / 1_000;
    }

    static ObjectNode done() {
        return JSON.createObjectNode();
    }

    static void ok(Request request, ObjectNode done) {
        ObjectNode answer = JSON.createObjectNode().put("id", request.id);
        answer.set("ok", done);
        write(answer.toString());
    }

    /** Reply to an acquire or release, built without a tree because there are so many. */
    static String line(Request request, String done, long from, long to) {
        return "{\"id\":" + request.id + ",\"ok\":" + done + ",\"from\":" + from + ",\"to\":" + to + "}";
    }

    static void fail(Request request, String word, String held, String message) {
        write(failure(request, word, held, message).toString());
    }

    static ObjectNode failure(Request request, String word, String held, String message) {
        ObjectNode answer = JSON.createObjectNode().put("id", request.id).put("err", word).put("held", held);
        return message == null ? answer : answer.put("message", message);
    }

    /** Writes a whole line at once. */
    static void write(String message) {
        synchronized (OUT) {
            try {
                OUT.write((message + "\n").getBytes(StandardCharsets.UTF_8));
            } catch (IOException closed) {
                // The suite has closed the pipe; the end of input follows.
            }
        }
    }
}
