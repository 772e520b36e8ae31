import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.function.IntFunction;
import java.util.function.Supplier;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.WatchedEvent;
import org.apache.zookeeper.Watcher.Event.EventType;
import org.apache.zookeeper.ZooKeeper;

/** Implements version 1 of the driver protocol (docs/testing-your-client.md), with one thread per contender. */
final class Protocol {
    private static final ObjectMapper JSON = new ObjectMapper();
    /** Bypasses System.out, which writes a line and its line break separately. */
    private static final OutputStream OUT = new FileOutputStream(FileDescriptor.out);
    private static final Map<Integer, Contender> contenders = new ConcurrentHashMap<>();
    /** Contenders of acquires that have no reply yet, by request id. */
    private static final Map<Long, Contender> acquiring = new ConcurrentHashMap<>();
    /** Ends a contender's thread when its number is reused or the driver ends. */
    private static final Request END = new Request("close", "");

    private Protocol() {}

    /** Serves requests until the end of input. `driver` is the value of --driver for the usage message. */
    static void serve(String driver, Supplier<ObjectNode> hello, IntFunction<Contender> contender) throws IOException {
        // Other output must not appear between the lines of the protocol.
        System.setOut(System.err);
        if (!"1".equals(System.getenv("ZKLOCKBENCH_DRIVER"))) {
            System.err.println("this program is a driver for zklockbench; use: zklockbench run SCENARIO --driver " + driver);
            System.exit(2);
        }
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            Request request = new Request(line);
            switch (request.kind) {
                case "hello" -> write(hello.get().toString());
                case "open" -> {
                    Contender opened = contender.apply(request.contender);
                    Contender before = contenders.put(opened.number, opened);
                    if (before != null) before.takes(END);
                    opened.takes(request);
                    opened.start();
                }
                case "cancel" -> {
                    Contender waiter = acquiring.get(request.of);
                    if (waiter != null) waiter.cancel(request.of);
                    answer(request, object());
                }
                case "echo" -> {
                    if (request.contender >= 0) hand(request); else answer(request, object().put("now", now()));
                }
                case "acquire", "release", "close" -> hand(request);
                default -> fail(request, "unsupported", "no", request.kind);
            }
        }
        contenders.values().forEach(each -> each.takes(END));
        System.exit(0);
    }

    private static void hand(Request request) {
        Contender contender = contenders.get(request.contender);
        if (contender != null && request.kind.equals("acquire")) acquiring.put(request.id, contender);
        if (contender == null || !contender.takes(request)) fail(request, "bad-request", "no", "no such contender");
    }

    /** Thread that serves one contender. */
    abstract static class Contender extends Thread {
        final int number;
        private final BlockingQueue<Request> requests = new LinkedBlockingQueue<>();
        private boolean closed;
        /** Ids of the current acquire and of the last cancelled acquire; 0 if none. */
        private long waitsIn;
        private long cancelled;

        Contender(int number) {
            super("contender-" + number);
            this.number = number;
            setDaemon(true);
        }

        /** Replies to an `open`, `acquire` or `release`, or throws before the reply. */
        abstract void serve(Request request) throws Exception;

        /**
         * Ends the wait of the current acquire, which gets its own reply. The reading thread calls this method while holding
         * this contender's monitor, so it must not block.
         */
        abstract void abandon();

        private synchronized void cancel(long acquire) {
            cancelled = acquire;
            if (waitsIn != acquire) return;
            waitsIn = 0;
            abandon();
        }

        final synchronized boolean isCancelled(long acquire) {
            return cancelled == acquire;
        }

        /** Starts a wait that can be abandoned; returns false if the acquire is already cancelled. */
        final synchronized boolean begins(long acquire) {
            if (cancelled == acquire) return false;
            waitsIn = acquire;
            return true;
        }

        /** Ends the wait of an acquire; returns whether the acquire was cancelled. */
        final synchronized boolean ended(long acquire) {
            waitsIn = 0;
            // An interrupt that came too late to end this wait must not end the next one.
            Thread.interrupted();
            return cancelled == acquire;
        }

        /** Closes the connection; returns the reply. */
        abstract ObjectNode close();

        /** Queues a request; returns false if the contender is closed and would not reply. */
        final synchronized boolean takes(Request request) {
            return !closed && requests.add(request);
        }

        /** Closes the queue, and answers any queued echo requests. */
        private synchronized void ends() {
            closed = true;
            requests.stream().filter(late -> late.kind.equals("echo")).forEach(Protocol::echo);
            contenders.remove(number, this);
        }

        @Override
        public final void run() {
            while (true) {
                Request request;
                try {
                    request = requests.take();
                } catch (InterruptedException late) {
                    continue;
                }
                try {
                    switch (request.kind) {
                        case "echo" -> echo(request);
                        case "close" -> {
                            ends();
                            ObjectNode done = close();
                            if (request != END) answer(request, done);
                            return;
                        }
                        default -> serve(request);
                    }
                } catch (Exception error) {
                    fail(request, word(error), request.kind.equals("open") ? "no" : "maybe", error.toString());
                } finally {
                    acquiring.remove(request.id);
                }
            }
        }

        final void event(String what) {
            event(what, null);
        }

        final void event(String what, String session) {
            ObjectNode event = object().put("t", "event").put("c", number).put("what", what).put("at", now());
            write((session == null ? event : event.put("session", session)).toString());
        }
    }

    /** Contender that receives its client's events. */
    abstract static class Watching extends Contender {
        volatile ZooKeeper client;
        /** Guarded by this contender's monitor, as is `expired`. */
        boolean connected;
        boolean expired;

        Watching(int number) {
            super(number);
        }

        void connect(JsonNode open) throws Exception {
            String servers = open.path("connect").asText();
            Sasl.identify(open);
            client = new ZooKeeper(servers, open.path("session_ms").asInt(), this::told, false, new ServersInOrder(servers));
            if (open.has("auth")) client.addAuthInfo("digest", open.path("auth").asText().getBytes(StandardCharsets.UTF_8));
            awaitConnection(open);
        }

        final synchronized void awaitConnection(JsonNode open) throws Exception {
            long until = now() + Math.max(open.path("session_ms").asInt(), 10_000) * 1_000L;
            while (!connected && now() < until) wait(Math.max(1, (until - now()) / 1_000));
            if (!connected) throw new KeeperException.ConnectionLossException();
        }

        /** Runs on the client's event thread. */
        synchronized void told(WatchedEvent event) {
            String what = switch (event.getState()) {
                case SyncConnected -> "connected";
                case Disconnected -> "suspended";
                case Expired -> "expired";
                default -> null;
            };
            if (event.getType() != EventType.None || what == null) return;
            connected |= what.equals("connected");
            expired |= what.equals("expired");
            notifyAll();
            event(what);
        }
    }

    /** Returns the `ready` message of a driver for this version of the library. */
    static ObjectNode ready(String driver, String library, String version) {
        ObjectNode ready = object().put("t", "ready").put("v", 1).put("driver", driver).put("clock", "monotonic").put("sasl", true);
        ready.putObject("inside").put(library, version).put("java", System.getProperty("java.version"));
        return ready;
    }

    /** Returns the reply to an `open`. */
    static ObjectNode opened(ZooKeeper client) {
        return object().put("session", session(client)).put("password", HexFormat.of().formatHex(client.getSessionPasswd()))
            .put("session_ms", client.getSessionTimeout());
    }

    static String session(ZooKeeper client) {
        return "0x" + Long.toHexString(client.getSessionId());
    }

    static String word(Exception error) {
        Throwable why = error instanceof RuntimeException && error.getCause() != null ? error.getCause() : error;
        if (why instanceof KeeperException.SessionExpiredException) return "session";
        if (why instanceof KeeperException.ConnectionLossException) return "connection";
        if (why instanceof KeeperException.NoAuthException) return "refused";
        return why.getClass().getSimpleName();
    }

    /** Returns the time of the protocol's clock, CLOCK_MONOTONIC, in microseconds. */
    static long now() {
        return System.nanoTime() / 1_000;
    }

    static ObjectNode object() {
        return JSON.createObjectNode();
    }

    private static void echo(Request request) {
        answer(request, object().put("now", now()));
    }

    static void answer(Request request, ObjectNode done) {
        write("{\"id\":" + request.id + ",\"ok\":" + done + "}");
    }

    /** Replies to an acquire or release. The reply is built as text for speed. */
    static void answer(Request request, String done, long from, long to) {
        write("{\"id\":" + request.id + ",\"ok\":" + done + ",\"from\":" + from + ",\"to\":" + to + "}");
    }

    static void fail(Request request, String word, String held, String message) {
        write(failure(request, word, held, message).toString());
    }

    /** Replies with an error; `held` and `message` may be null. */
    static ObjectNode failure(Request request, String word, String held, String message) {
        ObjectNode answer = object().put("id", request.id).put("err", word);
        if (held != null) answer.put("held", held);
        return message == null ? answer : answer.put("message", message);
    }

    /** Writes a line in a single call. */
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
