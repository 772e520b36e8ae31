// Curator's locks as contenders of zklockbench, by version 1 of its driver protocol (docs/testing-your-client.md).
//
// Each contender has a thread and a CuratorFramework of its own: the thread owns the mutex, so acquire and release must come
// from the same one. Locks.java says which locks there are; Baton.java and Count.java are locks of this suite's own in Java.

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
import java.util.concurrent.locks.LockSupport;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.retry.ExponentialBackoffRetry;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.client.ZKClientConfig;

public class CuratorDriver {
    static final ObjectMapper JSON = new ObjectMapper();
    /** Not System.out, which writes a line and its end apart. */
    static final OutputStream OUT = new FileOutputStream(FileDescriptor.out);
    /** What is to be written with the next line, or within HELD_BACK_MS; guarded by OUT. */
    static final StringBuilder heldBack = new StringBuilder();
    static final int HELD_BACK_MS = 20;
    static final int HELD_BACK_CHARS = 32 << 10;
    /** How many acquires of a contender may be out at once. */
    static final int AHEAD = 64;
    /** For a contender whose number is another's now, or when all ends. */
    static final Request END = new Request();
    static final Map<Integer, Contender> contenders = new ConcurrentHashMap<>();
    /** Which contender an acquire is of that is not answered yet. */
    static final Map<Long, Contender> acquiring = new ConcurrentHashMap<>();
    /** The file of the certificate by which all contenders identify themselves, once one has. */
    static String identity;

    public static void main(String[] arguments) throws Exception {
        // Whatever else prints must not write between the lines of the protocol.
        System.setOut(System.err);
        if (!"1".equals(System.getenv("ZKLOCKBENCH_DRIVER"))) {
            System.err.println("This is a driver of zklockbench: zklockbench run SCENARIO --driver curator=drivers/curator/run");
            System.exit(2);
        }
        Thread later = new Thread(CuratorDriver::writeLater, "held-back");
        later.setDaemon(true);
        later.start();
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
            .put("hold", true).put("ahead", AHEAD).put("clock", "monotonic").put("tls", true);
        ready.putObject("inside").put("curator", version()).put("java", System.getProperty("java.version"));
        Locks.declare(ready.putObject("locks"));
        write(ready.toString());
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
        // Acquires may still be out then.
        if (request.kind.equals("close")) contender.interruptWait(request.id);
        contender.requests.add(request);
    }

    /** The acquire gets its own answer: what it came to. */
    static void cancel(Request request) {
        Contender contender = acquiring.get(request.of);
        if (contender != null) contender.interruptWait(request.of);
        ok(request, done());
    }

    /** One contender: its client, its locks, its thread. */
    static class Contender extends Thread {
        final int number;
        final BlockingQueue<Request> requests = new LinkedBlockingQueue<>();
        final Map<String, InterProcessLock> locks = new HashMap<>();
        CuratorFramework client;
        JsonNode opened;
        InterProcessLock held;
        /** The acquire that it is in, the last one that was cancelled, and the last one that was released by itself; 0 for none. */
        long waitsIn;
        long cancelled;
        long released;

        Contender(int number) {
            super("contender-" + number);
            this.number = number;
            setDaemon(true);
        }

        void end() {
            requests.add(END);
        }

        /** Those that come before it, too: the suite counts on. */
        synchronized void interruptWait(long id) {
            cancelled = id;
            if (waitsIn != 0 && waitsIn <= id) interrupt();
        }

        /** False where it was cancelled before, or what it comes after has not been released. */
        synchronized boolean begins(Request request) {
            if (request.id <= cancelled || request.after >= 0 && request.after != released) return false;
            waitsIn = request.id;
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
                Request request;
                try {
                    request = requests.take();
                } catch (InterruptedException late) {
                    continue;
                }
                switch (request.kind) {
                    case "open" -> connect(request);
                    case "acquire" -> acquire(request);
                    case "release" -> release(request, "ok", "");
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
            ZKClientConfig config = new ZKClientConfig();
            if (request.has("tls")) encrypt(config, request.path("tls"));
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

        void encrypt(ZKClientConfig config, JsonNode tls) {
            config.setProperty("zookeeper.client.secure", "true");
            config.setProperty("zookeeper.clientCnxnSocket", "org.apache.zookeeper.ClientCnxnSocketNetty");
            config.setProperty("zookeeper.ssl.trustStore.location", tls.path("ca").asText());
            config.setProperty("zookeeper.ssl.trustStore.type", "PEM");
            if (tls.has("cert")) {
                config.setProperty("zookeeper.ssl.keyStore.location", identity(tls));
                config.setProperty("zookeeper.ssl.keyStore.type", "PEM");
            }
        }

        void event(String what) {
            write(JSON.createObjectNode().put("t", "event").put("c", number).put("what", what).put("at", now()).toString());
        }

        /** After an expiry the client has another session, which is this contender's, too. */
        void connected(CuratorFramework of) {
            ObjectNode event = JSON.createObjectNode().put("t", "event").put("c", number).put("what", "connected").put("at", now());
            try {
                event.put("session", "0x" + Long.toHexString(of.getZookeeperClient().getZooKeeper().getSessionId()));
            } catch (Exception gone) {
                // Then the next event tells it.
            }
            write(event.toString());
        }

        InterProcessLock lock(String path, String mode) {
            String name = opened.path("lock").asText();
            return locks.computeIfAbsent(path + " " + mode, at -> Locks.make(name, client, path, mode, opened.path("parameters")));
        }

        void acquire(Request request) {
            InterProcessLock lock = lock(request.on, request.mode);
            long granted;
            try {
                if (!begins(request)) {
                    tell(failure(request, "cancelled", "no", null).toString());
                    return;
                }
                boolean got = true;
                long from = now();
                if (request.timeoutMillis >= 0) got = lock.acquire(request.timeoutMillis, TimeUnit.MILLISECONDS);
                else lock.acquire();
                granted = now();
                ended();
                if (!got) {
                    fail(request, "timeout", "no", null);
                    return;
                }
                held = lock;
                String grant = line(request, "ok", Locks.tell(lock, client, opened.path("parameters")), from, granted);
                if (request.holdMicros == 0) {
                    // Without a hold the next one must not wait for the line that tells of this grant.
                    release(request, "released", grant + "\n");
                    return;
                }
                write(grant);
            } catch (InterruptedException cancelled) {
                // Its node was deleted before this was thrown.
                fail(request, "cancelled", "no", null);
                return;
            } catch (Exception error) {
                fail(request, word(error), "maybe", error.toString());
                return;
            } finally {
                ended();
                acquiring.remove(request.id);
            }
            if (request.holdMicros > 0) {
                // From the grant on: looking up the token is part of the hold.
                pause(granted + request.holdMicros - now());
                release(request, "released", "");
            }
        }

        /** Lets it go, and writes what came of that behind the lines that are to be written first. */
        void release(Request request, String word, String before) {
            String told;
            long from = now();
            try {
                if (held == null) {
                    told = failure(request, "bad-request", "no", "nothing is held").toString();
                } else {
                    held.release();
                    told = line(request, word, "{}", from, now());
                    // One that may be taken again is released as often as it was taken.
                    if (!held.isAcquiredInThisProcess()) held = null;
                    released = request.id;
                }
            } catch (Exception error) {
                told = failure(request, word(error), "maybe", error.toString()).put("from", from).put("to", now()).toString();
            }
            tell(before + told);
        }

        /** While more is to be done, and the suite waits for nothing, lines may be written together. */
        void tell(String lines) {
            if (requests.isEmpty()) write(lines); else hold(lines);
        }
    }

    /** The client wants key and certificate in one file; it is for this user alone, and goes with the process. */
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

    /** The clock of the protocol: CLOCK_MONOTONIC in microseconds. */
    static long now() {
        return System.nanoTime() / 1_000;
    }

    /** Longer than asked by what the kernel needs to wake a thread, some 60 us. */
    static void pause(long micros) {
        long end = System.nanoTime() + micros * 1_000;
        for (long left = micros * 1_000; left > 0; left = end - System.nanoTime()) LockSupport.parkNanos(left);
    }

    static ObjectNode done() {
        return JSON.createObjectNode();
    }

    static void ok(Request request, ObjectNode done) {
        ObjectNode answer = JSON.createObjectNode().put("id", request.id);
        answer.set("ok", done);
        write(answer.toString());
    }

    /** What comes with every acquire, so without a tree. */
    static String line(Request request, String word, String done, long from, long to) {
        return "{\"id\":" + request.id + ",\"" + word + "\":" + done + ",\"from\":" + from + ",\"to\":" + to + "}";
    }

    static void fail(Request request, String word, String held, String message) {
        write(failure(request, word, held, message).toString());
    }

    static ObjectNode failure(Request request, String word, String held, String message) {
        ObjectNode answer = JSON.createObjectNode().put("id", request.id).put("err", word).put("held", held);
        return message == null ? answer : answer.put("message", message);
    }

    /** Whole lines, in one write, behind those that were held back. */
    static void write(String message) {
        synchronized (OUT) {
            heldBack.append(message).append('\n');
            flush();
        }
    }

    static void hold(String lines) {
        synchronized (OUT) {
            if (heldBack.length() == 0) OUT.notify();
            heldBack.append(lines).append('\n');
            if (heldBack.length() > HELD_BACK_CHARS) flush();
        }
    }

    static void writeLater() {
        try {
            while (true) {
                synchronized (OUT) {
                    while (heldBack.length() == 0) OUT.wait();
                }
                Thread.sleep(HELD_BACK_MS);
                synchronized (OUT) {
                    flush();
                }
            }
        } catch (InterruptedException never) {
            // Nobody interrupts it.
        }
    }

    private static void flush() {
        try {
            OUT.write(heldBack.toString().getBytes(StandardCharsets.UTF_8));
        } catch (IOException closed) {
            // Nobody reads any more; the end of input comes, too.
        }
        heldBack.setLength(0);
    }
}
