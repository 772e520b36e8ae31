import java.util.Arrays;
import java.util.List;
import java.util.OptionalInt;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.utils.ZKPaths;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.Op;
import org.apache.zookeeper.WatchedEvent;
import org.apache.zookeeper.Watcher.Event.EventType;
import org.apache.zookeeper.Watcher.Event.KeeperState;

/**
 * A fair lock whose holder hands it to the next one: the strategy `baton` (`zklockbench strategies baton`) on Curator's client.
 *
 * Acquire: create an ephemeral sequential `n-`, which gets number s; then, in one flush, getData with a watch on it and getChildren
 * with a watch on number s - 1 (that has no children, so the watch tells its end only). A grant in its own node: held. Number
 * s - 1 is gone: list; held if its own node is the lowest, else watch the one just before it. Release: one multi writes a grant
 * into number s + 1 and deletes its own node. It is refused if s + 1 is not there: list, and take the one just behind. Nobody is
 * behind: delete.
 *
 * Exclusion. Every holder's node is the lowest there is, from the beginning of its hold until it is deleted. By a list: it shows
 * nobody below, and no lower number can come, for the servers apply transactions in one order and numbers grow with it. By a grant:
 * it is in the transaction that deletes the granter's node, which was the lowest, and goes to the next number there is, for between
 * s and s + 1, or between two neighbours of a list, no node can come. A paused holder whose session has expired can't grant: its
 * node is gone, and the transaction fails as a whole. A node that is just being given up may be granted to: it goes all the same.
 *
 * Progress. Grants only save time. Each waiter watches the node just before its own, by the look that found it there, however that
 * node ends. A grant arrives before the deletion in the same transaction does. After a reconnection ZooKeeper's client sets both
 * watches again, which reports what was missed; the own data are read once more besides.
 *
 * Lost replies. Everything goes by the ZooKeeper handle that made the node, never by the one that Curator opens after an expiry:
 * what one session began must fail in another. A create without a reply is looked for after a `sync`, which the leader puts behind
 * it, among the session's own nodes: a uuid could be in neither the name, which the neighbours must be able to tell, nor the data,
 * which a grant overwrites. A multi or delete is sent again: it takes place once, since a number never comes twice (so the
 * directory is no container, whose numbers begin anew). Until its node is known to be gone, an object enters no queue again.
 *
 * The counter's end. After 2^31 - 1 creates every node gets the number 2147483647, or a negative one while another create is under
 * way; a restart does not heal that. Acquire fails then and leaves no node: the lock needs a fresh path.
 *
 * Use one object for each client and path, or two take each other's nodes for their own. Threads may share it, and wait for each
 * other within the process; it is not reentrant. It needs servers from 3.6 on (getEphemerals) and a client without a namespace.
 * Nobody else may write into the nodes. That a session is lost tells Curator's ConnectionStateListener, as with Curator's locks.
 */
public class Baton implements InterProcessLock {
    private static final byte[] GRANT = {'g', 'o'};
    private static final long PAUSE_NS = 1_000_000_000;
    final String path;
    OneSession session;
    private final CuratorFramework client;
    private final Semaphore local = new Semaphore(1, true);
    /** Its own node, or null while none is known. */
    private String node;
    private int number;
    private long token;
    /** Whom a release grants; null for nobody. */
    private String behind;
    private volatile boolean held;

    public Baton(CuratorFramework client, String path) {
        this.client = client;
        this.path = path;
    }

    public String node() {
        return node;
    }

    /** The fencing token: the number of the transaction that created its node. */
    public long token() {
        return token;
    }

    @Override
    public boolean isAcquiredInThisProcess() {
        return held;
    }

    @Override
    public void acquire() throws Exception {
        acquire(Long.MAX_VALUE, TimeUnit.NANOSECONDS);
    }

    @Override
    public boolean acquire(long time, TimeUnit unit) throws Exception {
        long began = System.nanoTime();
        if (!local.tryAcquire(time, unit)) return false;
        try {
            node = behind = null;
            session = new OneSession(client);
            held = enters() || waits(began, unit.toNanos(time));
            return held;
        } finally {
            if (!held) leave();
        }
    }

    @Override
    public void release() throws Exception {
        if (!held) throw new IllegalMonitorStateException("not held: " + path);
        held = false;
        boolean gone = false;
        try {
            handOver();
            gone = true;
        } finally {
            if (gone) local.release();
            else leave();
        }
    }

    /** Makes the node, also where an answer is lost and the connection comes back. True if that showed that nobody is before it. */
    private boolean enters() throws Exception {
        boolean[] asked = {false};
        boolean isFirst = session.surely(() -> {
            if (asked[0] && finds()) return false;
            asked[0] = true;
            try {
                return joins();
            } catch (KeeperException.NoNodeException first) {
                ZKPaths.mkdirs(client.getZookeeperClient().getZooKeeper(), path);
                return joins();
            } catch (KeeperException.NodeExistsException taken) {
                // Names carry nothing but the number.
                throw usedUp();
            }
        });
        requireUnique(number);
        return isFirst;
    }

    private void requireUnique(int number) {
        if (number < 0 || number == Integer.MAX_VALUE) throw usedUp();
    }

    private IllegalStateException usedUp() {
        return new IllegalStateException("the sequence counter of " + path + " is used up: use a fresh path");
    }

    /** Makes the node, once. */
    boolean joins() throws KeeperException {
        OneSession.Made made = session.create(path + "/n-");
        has(made.path(), made.czxid());
        return false;
    }

    /** Whether the session has a node here; who looks has none but one whose create got no answer. */
    private boolean finds() throws KeeperException {
        session.sync(path);
        for (String found : session.own(path + "/n-")) has(found, 0);
        return node != null;
    }

    /** Some answers have the client's chroot in their paths. */
    void has(String made, long czxid) {
        String name = made.substring(made.lastIndexOf('/') + 1);
        node = path + "/" + name;
        number = number(name);
        token = czxid;
    }

    private boolean waits(long began, long within) throws Exception {
        var events = new LinkedBlockingQueue<WatchedEvent>();
        Look first = session.surely(() -> look(events));
        if (first.granted()) return granted();
        String before = first.isThere() ? at(number - 1) : null;
        while (true) {
            if (before == null) {
                List<String> names = session.surely(() -> session.list(path));
                // A list without anybody is no lock that is held.
                if (!names.contains(name())) throw KeeperException.create(KeeperException.Code.NONODE, node);
                if (isUsedUp(names)) throw usedUp();
                before = nearest(names, -1);
                if (before == null) {
                    behind = nearest(names, 1);
                    return true;
                }
                String seen = before;
                if (!session.surely(() -> watchesEnd(seen, events))) before = null;
                continue;
            }
            WatchedEvent event = events.poll(within - (System.nanoTime() - began), TimeUnit.NANOSECONDS);
            if (event == null) return false;
            boolean isOwn = node.equals(event.getPath());
            if (isOwn && event.getType() == EventType.NodeDataChanged) return granted();
            if (isOwn) throw KeeperException.create(KeeperException.Code.NONODE, node);
            if (session.isOver()) throw new KeeperException.SessionExpiredException();
            if (event.getState() == KeeperState.SyncConnected && event.getType() == EventType.None) {
                if (isGrant(session.surely(() -> OneSession.answer(session.read(node, null))))) return granted();
            } else if (before.equals(event.getPath())) {
                before = null;
            }
        }
    }

    /** Both looks in one flush. The number before its own has no children, so the watch on them tells its end, and no grant. */
    private Look look(BlockingQueue<WatchedEvent> events) throws KeeperException {
        var own = session.read(node, events::add);
        var other = session.list(at(number - 1), events::add);
        OneSession.Read read = OneSession.answer(own);
        token = read.stat().getCzxid();
        return new Look(isGrant(read), isThere(other));
    }

    private boolean watchesEnd(String before, BlockingQueue<WatchedEvent> events) throws KeeperException {
        return isThere(session.list(before, events::add));
    }

    private static boolean isThere(CompletableFuture<List<String>> asked) throws KeeperException {
        try {
            OneSession.answer(asked);
            return true;
        } catch (KeeperException.NoNodeException gone) {
            return false;
        }
    }

    private static boolean isGrant(OneSession.Read read) {
        return Arrays.equals(read.data(), GRANT);
    }

    private boolean granted() {
        behind = at(number + 1);
        return true;
    }

    private void handOver() throws Exception {
        while (behind != null) {
            try {
                session.surely(() -> session.multi(Op.setData(behind, GRANT, -1), Op.delete(node, -1)));
                return;
            } catch (KeeperException.NoNodeException notThere) {
                List<String> names = session.surely(() -> session.list(path));
                // Gone already: the multi whose answer was lost has done it.
                if (!names.contains(name())) return;
                // Those behind by a number that is not unique fail.
                behind = isUsedUp(names) ? null : nearest(names, 1);
            }
        }
        session.surely(this::leaves);
    }

    /** Deletes its own node; true as soon as it is not there. */
    private boolean leaves() throws KeeperException {
        try {
            session.delete(node);
        } catch (KeeperException.NoNodeException gone) {
            // As it shall be.
        }
        return true;
    }

    /** Takes its node away, then lets the next thread in. A thread of its own goes on until the node is known to be gone. */
    private void leave() {
        if (isGone()) {
            local.release();
            return;
        }
        Thread later = new Thread(() -> {
            do LockSupport.parkNanos(PAUSE_NS); while (!isGone());
            local.release();
        }, "baton-leaves");
        later.setDaemon(true);
        later.start();
    }

    private boolean isGone() {
        try {
            return session == null || (node == null && !finds()) || leaves();
        } catch (KeeperException unclear) {
            return session.isOver();
        }
    }

    private static boolean isUsedUp(List<String> names) {
        return names.stream().filter(name -> name.startsWith("n-")).mapToInt(Baton::number).anyMatch(n -> n < 0 || n == Integer.MAX_VALUE);
    }

    /** The nearest before (-1) or behind (1) its own node in a list; null for none. */
    private String nearest(List<String> names, int side) {
        var others = names.stream().filter(name -> name.startsWith("n-")).mapToInt(name -> (number(name) - number) * side);
        OptionalInt distance = others.filter(places -> places > 0).min();
        return distance.isPresent() ? at(number + side * distance.getAsInt()) : null;
    }

    private String name() {
        return node.substring(path.length() + 1);
    }

    private String at(int number) {
        return String.format("%s/n-%010d", path, number);
    }

    private static int number(String name) {
        return Integer.parseInt(name.substring(2));
    }

    private record Look(boolean granted, boolean isThere) {}
}
