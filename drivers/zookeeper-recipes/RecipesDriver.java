// The WriteLock of ZooKeeper's own recipes as a contender of zklockbench, over version 1 of its driver protocol
// (docs/testing-your-client.md).
//
// lock() does not wait: a listener is called once the lock is held, by the caller of lock() or by the client's event thread. That
// thread must not wait for the client, so the listener only notes the grant and the contender's own thread does the rest.
//
// To give up, the driver calls unlock(), which deletes the node. The watch on the node ahead remains, however, and when it fires
// the recipe joins the queue again by itself. A lock granted that way, or between the deadline and the end of unlock(), is
// released at once and reported as `late`.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.LinkedBlockingQueue;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.Version;
import org.apache.zookeeper.WatchedEvent;
import org.apache.zookeeper.Watcher.Event.EventType;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.data.Stat;
import org.apache.zookeeper.recipes.lock.LockListener;
import org.apache.zookeeper.recipes.lock.WriteLock;

public class RecipesDriver {
    static final ObjectMapper JSON = new ObjectMapper();
    static final PrintStream OUT = System.out;
    static final Map<Integer, Contender> contenders = new ConcurrentHashMap<>();
    /** Contender of each acquire that has no reply yet. */
    static final Map<Long, Contender> acquiring = new ConcurrentHashMap<>();

    public static void main(String[] arguments) throws Exception {
        // Other output must not appear between the lines of the protocol.
        System.setOut(System.err);
        if (!"1".equals(System.getenv("ZKLOCKBENCH_DRIVER"))) {
            System.err.println(
                "This is a driver of zklockbench: zklockbench run SCENARIO --driver recipes=drivers/zookeeper-recipes/run");
            System.exit(2);
        }
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode request = JSON.readTree(line);
            switch (request.path("t").asText()) {
                case "hello" -> hello();
                case "open" -> {
                    Contender contender = new Contender(request.path("c").asInt());
                    contenders.put(contender.number, contender);
                    contender.start();
                    contender.requests.add(request);
                }
                case "cancel" -> {
                    long of = request.path("of").asLong();
                    Contender contender = acquiring.get(of);
                    if (contender != null) contender.cancel(of);
                    answer(request, done(), 0, 0);
                }
                case "echo" -> {
                    if (request.has("c")) hand(request); else answer(request, done().put("now", now()), 0, 0);
                }
                case "acquire", "release", "close" -> hand(request);
                default -> fail(request, "unsupported", "no", request.path("t").asText());
            }
        }
        System.exit(0);
    }

    static void hello() {
        ObjectNode ready = JSON.createObjectNode().put("t", "ready").put("v", 1).put("driver", "zookeeper-recipes 1");
        ready.put("contenders", 1000).put("clock", "monotonic").put("sasl", true);
        ready.putObject("inside").put("zookeeper", Version.getVersion()).put("java", System.getProperty("java.version"));
        ObjectNode lock = ready.putObject("locks").putObject("WriteLock");
        lock.put("summary", "ZooKeeper's own WriteLock, by its recipes themselves").putArray("modes").add("write");
        lock.put("timeout", "emulated").put("cancel", "emulated").put("token", "czxid").put("order", "fifo");
        write(ready);
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

    /** A contender with its client, locks and thread. */
    static class Contender extends Thread {
        final int number;
        final BlockingQueue<JsonNode> requests = new LinkedBlockingQueue<>();
        final Map<String, Place> places = new HashMap<>();
        ZooKeeper client;
        boolean connected;
        boolean expired;
        long cancelled;

        Contender(int number) {
            super("contender-" + number);
            this.number = number;
            setDaemon(true);
        }

        synchronized void cancel(long acquire) {
            cancelled = acquire;
            notifyAll();
        }

        @Override
        public void run() {
            while (true) {
                JsonNode request;
                try {
                    request = requests.take();
                } catch (InterruptedException nobodyDoes) {
                    continue;
                }
                switch (request.path("t").asText()) {
                    case "open" -> connect(request);
                    case "acquire" -> acquire(request);
                    case "release" -> release(request);
                    case "late" -> releaseLate(places.get(request.path("on").asText()));
                    case "echo" -> answer(request, done().put("now", now()), 0, 0);
                    default -> {
                        close(request);
                        return;
                    }
                }
            }
        }

        void connect(JsonNode request) {
            int timeout = request.path("session_ms").asInt();
            try {
                String connect = request.path("connect").asText();
                Sasl.identify(request);
                client = new ZooKeeper(connect, timeout, this::told, false, new ServersInOrder(connect));
                if (request.has("auth")) client.addAuthInfo("digest", request.path("auth").asText().getBytes(StandardCharsets.UTF_8));
                long until = now() + Math.max(timeout, 10_000) * 1_000L;
                synchronized (this) {
                    while (!connected && now() < until) wait(Math.max(1, (until - now()) / 1_000));
                    if (!connected) throw new KeeperException.ConnectionLossException();
                }
                answer(request, done()
                    .put("session", "0x" + Long.toHexString(client.getSessionId()))
                    .put("password", HexFormat.of().formatHex(client.getSessionPasswd()))
                    .put("session_ms", client.getSessionTimeout()), 0, 0);
            } catch (Exception error) {
                fail(request, word(error), "no", error.toString());
            }
        }

        /** Runs on the client's event thread, like the lock's own watches and usually its listener. */
        synchronized void told(WatchedEvent event) {
            if (event.getType() != EventType.None) return;
            String what = switch (event.getState()) {
                case SyncConnected -> "connected";
                case Disconnected -> "suspended";
                case Expired -> "expired";
                default -> null;
            };
            if (what == null) return;
            connected |= what.equals("connected");
            expired |= what.equals("expired");
            notifyAll();
            write(JSON.createObjectNode().put("t", "event").put("c", number).put("what", what).put("at", now()));
        }

        void acquire(JsonNode request) {
            long id = request.path("id").asLong();
            long from = now();
            long until = request.has("timeout_ms") ? from + request.path("timeout_ms").asLong() * 1_000 : Long.MAX_VALUE;
            // The object is reused: the recipe identifies its nodes by the session, so two objects would mistake each other's.
            Place place = places.computeIfAbsent(request.path("on").asText(), on -> new Place(this, on));
            try {
                String ended = null;
                synchronized (this) {
                    if (cancelled == id) ended = "cancelled";
                    else place.begins();
                }
                if (ended == null) {
                    from = now();
                    place.lock.lock();
                    synchronized (this) {
                        while (place.granted == 0 && ended == null) {
                            if (expired) ended = "session";
                            else if (cancelled == id) ended = "cancelled";
                            else if (now() >= until) ended = "timeout";
                            else if (until == Long.MAX_VALUE) wait();
                            else wait(Math.max(1, (until - now()) / 1_000));
                        }
                        place.wanted = ended == null;
                    }
                }
                if (ended == null) {
                    String node = place.lock.getId();
                    Stat stat = client.exists(node, false);
                    if (stat == null) throw new KeeperException.SessionExpiredException();
                    ObjectNode ok = done().put("node", node).put("token", Long.toString(stat.getCzxid()));
                    answer(request, ok, from, place.granted);
                } else {
                    // The reply is sent in time, because unlock() may take a while.
                    fail(request, ended, ended.equals("session") ? null : "no", null);
                    if (!ended.equals("session")) releaseLate(place);
                }
            } catch (Exception error) {
                synchronized (this) {
                    place.wanted = false;
                }
                fail(request, word(error), "maybe", error.toString());
            } finally {
                acquiring.remove(id);
            }
        }

        /** Deletes its node unless an acquire needs it, and reports a late grant. */
        void releaseLate(Place place) {
            if (place.wanted) return;
            try {
                place.lock.unlock();
            } catch (RuntimeException error) {
                // The node stays until the session's next acquire or its end.
                System.err.println("giving up " + place.on + ": " + error);
                return;
            }
            synchronized (this) {
                if (place.granted != 0) {
                    write(JSON.createObjectNode().put("t", "event").put("what", "late").put("c", number).put("on", place.on)
                        .put("from", place.granted).put("to", now()));
                }
                place.granted = 0;
            }
        }

        void release(JsonNode request) {
            Place place = places.get(request.path("on").asText());
            if (place == null || !place.wanted) {
                fail(request, "bad-request", "no", "it is not held");
                return;
            }
            long from = now();
            synchronized (this) {
                place.wanted = false;
                place.granted = 0;
            }
            try {
                place.lock.unlock();
                answer(request, done(), from, now());
            } catch (RuntimeException error) {
                fail(request, word(error), "maybe", error.toString());
            }
        }

        void close(JsonNode request) {
            var held = JSON.createArrayNode();
            places.values().stream().filter(place -> place.wanted).forEach(place -> held.add(place.on));
            try {
                if (client != null) client.close();
            } catch (InterruptedException nobodyDoes) {
                // The servers then close the session.
            }
            contenders.remove(number, this);
            answer(request, done().set("held", held), 0, 0);
        }
    }

    /** A contender's place at one lock. Its fields are guarded by the contender's monitor. */
    static class Place implements LockListener {
        final Contender contender;
        final String on;
        final WriteLock lock;
        /** From the start of an acquire to its release. */
        boolean wanted;
        /** Time of the grant; 0 while not granted. */
        long granted;

        Place(Contender contender, String on) {
            this.contender = contender;
            this.on = on;
            lock = new WriteLock(contender.client, on, null, this);
        }

        /** A late grant that is not released yet is granted again by lock(). */
        void begins() {
            wanted = true;
            granted = 0;
        }

        /** Called by the caller of lock(). Leftover watches may call it again while the lock is held. */
        @Override
        public void lockAcquired() {
            synchronized (contender) {
                if (granted != 0) return;
                granted = now();
                contender.notifyAll();
                if (!wanted) contender.requests.add(JSON.createObjectNode().put("t", "late").put("on", on));
            }
        }

        @Override
        public void lockReleased() { }
    }

    static String word(Exception error) {
        Throwable why = error.getCause() == null ? error : error.getCause();
        if (why instanceof KeeperException.SessionExpiredException) return "session";
        if (why instanceof KeeperException.ConnectionLossException) return "connection";
        if (why instanceof KeeperException.NoAuthException) return "refused";
        return why.getClass().getSimpleName();
    }

    /** The protocol's clock: CLOCK_MONOTONIC in microseconds. */
    static long now() {
        return System.nanoTime() / 1_000;
    }

    static ObjectNode done() {
        return JSON.createObjectNode();
    }

    /** Replies, with times if the library was called. */
    static void answer(JsonNode request, JsonNode what, long from, long to) {
        ObjectNode answer = JSON.createObjectNode().put("id", request.path("id").asLong());
        answer.set("ok", what);
        write(to == 0 ? answer : answer.put("from", from).put("to", to));
    }

    static void fail(JsonNode request, String word, String held, String message) {
        ObjectNode answer = JSON.createObjectNode().put("id", request.path("id").asLong()).put("err", word);
        if (held != null) answer.put("held", held);
        write(message == null ? answer : answer.put("message", message));
    }

    /** Writes one line per message and flushes it. */
    static synchronized void write(ObjectNode line) {
        OUT.println(line);
        OUT.flush();
    }
}
