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
 * A fair lock that its holder hands to the next waiter: the strategy `baton` (`zklockbench strategies baton`) on Curator's client.
 *
 * Acquire: create an ephemeral sequential `n-` node, which gets number s. Then, in one flush, send getData with a watch on it and
 * getChildren with a watch on number s - 1 (which has no children, so that the watch only reports its deletion). If its own node
 * contains a grant, the lock is held. If number s - 1 does not exist, list the directory: the lock is held if its own node is the
 * lowest, otherwise watch the node just ahead. Release: one multi writes a grant into number s + 1 and deletes its own node. If
 * s + 1 does not exist, the multi is refused: list, and grant to the node just behind. If no node is behind, delete.
 *
 * Exclusion. Every holder's node is the lowest from the start of the hold until the node is deleted. After a list: the list shows no
 * lower node, and no lower node can appear, because servers apply transactions in one order and numbers grow in that order. After a
 * grant: the same transaction deletes the granter's node, which was the lowest, and grants to the next existing number, because no
 * node can appear between s and s + 1, or between two neighbours in a list. A paused holder whose session has expired cannot grant:
 * its node no longer exists, so the whole transaction fails. A grant to a waiter that gives up has no effect: its node is deleted.
 *
 * Progress. Grants only save time. Each waiter watches the node just ahead of its own, set by the request that found that node. The
 * watch fires however the node is deleted. A grant arrives before the deletion in the same transaction. After a reconnection,
 * ZooKeeper's client sets both watches again, which reports missed events; the waiter also reads its own data again.
 *
 * Lost replies. All requests use the ZooKeeper handle that created the node, never the handle that Curator opens after an expiry:
 * requests of an ended session must fail. After a create without a reply, the lock searches the session's own nodes after a `sync`,
 * which the leader orders after the create. A uuid is not possible: neighbours must be able to derive the name, and a grant
 * overwrites the data. A multi or delete is sent again, and takes effect only once, because numbers are never reused (so the
 * directory is not a container, whose numbers could restart). An object joins no queue until its previous node is known to be gone.
 *
 * The counter's end. After 2^31 - 1 creates, every node gets the number 2147483647, or a negative number while another create is in
 * progress; a restart does not help. Acquire then fails and leaves no node: the lock needs a new path.
 *
 * Use one object for each client and path: two objects would mistake each other's nodes for their own. Threads may share an object,
 * and wait for each other within the process. The lock is not reentrant. It needs ZooKeeper 3.6 or later (getEphemerals) and a
 * client without a namespace. No other client may write to the nodes. As with Curator's locks, a ConnectionStateListener reports a
 * lost session.
 */
public class Baton implements InterProcessLock {
    private static final byte[] GRANT = {'g', 'o'};
    private static final long PAUSE_NS = 1_000_000_000;
    final String path;
    OneSession session;
    private final CuratorFramework client;
    private final Semaphore local = new Semaphore(1, true);
    /** The lock's own node; null if unknown. */
    private String node;
    private int number;
    private long token;
    /** Node to which a release grants the lock; null if none. */
    private String behind;
    private volatile boolean held;

    public Baton(CuratorFramework client, String path) {
        this.client = client;
        this.path = path;
    }

    public String node() {
        return node;
    }

    /** Returns the fencing token: the zxid of the transaction that created the node. */
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

    /** Creates the node, retrying after lost replies. Returns true if the reply showed that no node is ahead. */
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
                // Names differ only in the number, so the sequence counter is used up.
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

    /** Creates the node with one request. Returns true if the reply showed that no node is ahead. */
    boolean joins() throws KeeperException {
        OneSession.Made made = session.create(path + "/n-");
        has(made.path(), made.czxid());
        return false;
    }

    /** Searches for a node of this session. Such a node can only come from a create without a reply. */
    private boolean finds() throws KeeperException {
        session.sync(path);
        for (String found : session.own(path + "/n-")) has(found, 0);
        return node != null;
    }

    /** Stores the node's name. Paths in some replies contain the client's chroot. */
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
                // An empty list does not mean that the lock is held.
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

    /** Sends both requests in one flush. The node ahead has no children, so the watch on them reports its deletion, but no grant. */
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
                // An earlier multi, whose reply was lost, has deleted the node.
                if (!names.contains(name())) return;
                // Waiters without unique numbers fail, so none of them can be next.
                behind = isUsedUp(names) ? null : nearest(names, 1);
            }
        }
        session.surely(this::leaves);
    }

    /** Deletes the lock's own node; returns true once the node does not exist. */
    private boolean leaves() throws KeeperException {
        try {
            session.delete(node);
        } catch (KeeperException.NoNodeException gone) {
            // The node is already gone.
        }
        return true;
    }

    /** Deletes the node, then admits the next thread. If the delete fails, a separate thread retries until the node is gone. */
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

    /** Returns the nearest node ahead of (-1) or behind (1) the lock's own node in a list; null if none. */
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
