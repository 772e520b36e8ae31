// A zklockbench driver for the WriteLock of ZooKeeper's own recipes (version 1 of the driver protocol,
// docs/testing-your-client.md).
//
// lock() does not wait: it calls a listener once the lock is held, on the caller's thread or the client's
// event thread. The event thread must not wait for the client, so the listener only records the grant, and
// the contender's own thread does the rest.
//
// To give up, the driver calls unlock(), which deletes the node. But the watch on the node ahead remains, and
// when it fires, the recipe joins the queue again. A lock granted that way, or between the deadline and the
// end of unlock(), is released at once and reported as `late`.

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.util.HashMap;
import java.util.Map;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.Version;
import org.apache.zookeeper.data.Stat;
import org.apache.zookeeper.recipes.lock.LockListener;
import org.apache.zookeeper.recipes.lock.WriteLock;

public class RecipesDriver {
    public static void main(String[] arguments) throws IOException {
        Protocol.serve("recipes=drivers/zookeeper-recipes/run", RecipesDriver::hello, Contender::new);
    }

    static ObjectNode hello() {
        ObjectNode ready = Protocol.ready("zookeeper-recipes 1", "zookeeper", Version.getVersion()).put("contenders", 1000);
        ObjectNode lock = ready.putObject("locks").putObject("WriteLock");
        lock.put("summary", "WriteLock from ZooKeeper's own recipes").putArray("modes").add("write");
        lock.put("timeout", "emulated").put("cancel", "emulated").put("token", "czxid").put("order", "fifo");
        return ready;
    }

    /** Contender with its own client, locks and thread. */
    static class Contender extends Protocol.Watching {
        final Map<String, Place> places = new HashMap<>();

        Contender(int number) {
            super(number);
        }

        @Override
        void abandon() {
            notifyAll();
        }

        @Override
        void serve(Request request) throws Exception {
            switch (request.kind) {
                case "open" -> {
                    connect(request.tree());
                    Protocol.answer(request, Protocol.opened(client));
                }
                case "acquire" -> acquire(request);
                case "late" -> releaseLate(places.get(request.on));
                default -> release(request);
            }
        }

        void acquire(Request request) throws Exception {
            long id = request.id;
            long from = Protocol.now();
            long until = request.timeoutMillis >= 0 ? from + request.timeoutMillis * 1_000 : Long.MAX_VALUE;
            // The object is reused: the recipe identifies nodes by session, so two objects would mix up their nodes.
            Place place = places.computeIfAbsent(request.on, on -> new Place(this, on));
            try {
                String ended = null;
                synchronized (this) {
                    if (begins(id)) place.begins();
                    else ended = "cancelled";
                }
                if (ended == null) {
                    from = Protocol.now();
                    place.lock.lock();
                    synchronized (this) {
                        while (place.granted == 0 && ended == null) {
                            if (expired) ended = "session";
                            else if (isCancelled(id)) ended = "cancelled";
                            else if (Protocol.now() >= until) ended = "timeout";
                            else if (until == Long.MAX_VALUE) wait();
                            else wait(Math.max(1, (until - Protocol.now()) / 1_000));
                        }
                        place.wanted = ended == null;
                    }
                }
                if (ended == null) {
                    String node = place.lock.getId();
                    Stat stat = client.exists(node, false);
                    if (stat == null) throw new KeeperException.SessionExpiredException();
                    ObjectNode ok = Protocol.object().put("node", node).put("token", Long.toString(stat.getCzxid()));
                    Protocol.answer(request, ok.toString(), from, place.granted);
                } else {
                    // Reply before unlock(), which may take a while.
                    Protocol.fail(request, ended, ended.equals("session") ? null : "no", null);
                    if (!ended.equals("session")) releaseLate(place);
                }
            } catch (Exception error) {
                synchronized (this) {
                    place.wanted = false;
                }
                throw error;
            }
        }

        /** Deletes the node unless an acquire needs it, and reports a late grant. */
        void releaseLate(Place place) {
            if (place.wanted) return;
            try {
                place.lock.unlock();
            } catch (RuntimeException error) {
                // The node stays until the session's next acquire or the end of the session.
                System.err.println("cannot leave the queue of " + place.on + ": " + error);
                return;
            }
            synchronized (this) {
                if (place.granted != 0) {
                    Protocol.write(Protocol.object().put("t", "event").put("what", "late").put("c", number).put("on", place.on)
                        .put("from", place.granted).put("to", Protocol.now()).toString());
                }
                place.granted = 0;
            }
        }

        void release(Request request) {
            Place place = places.get(request.on);
            if (place == null || !place.wanted) {
                Protocol.fail(request, "bad-request", "no", "the lock is not held");
                return;
            }
            long from = Protocol.now();
            synchronized (this) {
                place.wanted = false;
                place.granted = 0;
            }
            place.lock.unlock();
            Protocol.answer(request, "{}", from, Protocol.now());
        }

        @Override
        ObjectNode close() {
            ObjectNode done = Protocol.object();
            ArrayNode held = done.putArray("held");
            places.values().stream().filter(place -> place.wanted).forEach(place -> held.add(place.on));
            try {
                if (client != null) client.close();
            } catch (InterruptedException late) {
                // The servers then close the session.
            }
            return done;
        }
    }

    /** State of a contender at one lock, guarded by the contender's monitor. */
    static class Place implements LockListener {
        final Contender contender;
        final String on;
        final WriteLock lock;
        /** True from the start of an acquire to its release. */
        boolean wanted;
        /** Time of the grant; 0 while not granted. */
        long granted;

        Place(Contender contender, String on) {
            this.contender = contender;
            this.on = on;
            lock = new WriteLock(contender.client, on, null, this);
        }

        /** Starts an acquire. If a late grant is not released yet, lock() grants the lock again. */
        void begins() {
            wanted = true;
            granted = 0;
        }

        /** Records a grant. Leftover watches may call this method again while the lock is held. */
        @Override
        public void lockAcquired() {
            synchronized (contender) {
                if (granted != 0) return;
                granted = Protocol.now();
                contender.notifyAll();
                if (!wanted) contender.takes(new Request("late", on));
            }
        }

        @Override
        public void lockReleased() { }
    }
}
