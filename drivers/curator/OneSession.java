import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import org.apache.curator.RetryLoop;
import org.apache.curator.framework.CuratorFramework;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.Op;
import org.apache.zookeeper.OpResult;
import org.apache.zookeeper.Watcher;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.data.Stat;

/**
 * Sends the requests of one session, several of which may be in flight. After the session expires, requests fail instead of using
 * Curator's next session. Waits for replies cannot be interrupted, so only a lost connection leaves a request's outcome unknown.
 */
final class OneSession {
    private static final byte[] NOTHING = {};
    private final CuratorFramework client;
    private final ZooKeeper zk;

    OneSession(CuratorFramework client) throws Exception {
        this.client = client;
        zk = client.getZookeeperClient().getZooKeeper();
    }

    boolean isOver() {
        return !zk.getState().isAlive();
    }

    /** Repeats the request after a lost connection, as often as the client's policy allows. */
    <T> T surely(Callable<T> request) throws Exception {
        long began = System.nanoTime();
        for (int tries = 0;; tries++) {
            try {
                return request.call();
            } catch (KeeperException.ConnectionLossException lost) {
                long elapsedMs = (System.nanoTime() - began) / 1_000_000;
                var policy = client.getZookeeperClient().getRetryPolicy();
                if (!policy.allowRetry(tries, elapsedMs, RetryLoop.getDefaultRetrySleeper())) throw lost;
            }
        }
    }

    static <T> T answer(CompletableFuture<T> asked) throws KeeperException {
        try {
            return asked.join();
        } catch (CompletionException failed) {
            throw (KeeperException) failed.getCause();
        }
    }

    Made create(String prefix) throws KeeperException {
        var asked = new CompletableFuture<Made>();
        zk.create(prefix, NOTHING, Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL_SEQUENTIAL,
            (code, at, context, name, stat) -> tell(asked, code, at, code == 0 ? new Made(name, stat.getCzxid()) : null), null);
        return answer(asked);
    }

    List<String> list(String path) throws KeeperException {
        return answer(list(path, null));
    }

    CompletableFuture<Read> read(String path, Watcher watcher) {
        var asked = new CompletableFuture<Read>();
        zk.getData(path, watcher, (code, at, context, data, stat) -> tell(asked, code, at, new Read(data, stat)), null);
        return asked;
    }

    CompletableFuture<List<String>> list(String path, Watcher watcher) {
        var asked = new CompletableFuture<List<String>>();
        zk.getChildren(path, watcher, (int code, String at, Object context, List<String> names) -> tell(asked, code, at, names), null);
        return asked;
    }

    void delete(String path) throws KeeperException {
        var asked = new CompletableFuture<Void>();
        zk.delete(path, -1, (code, at, context) -> tell(asked, code, at, null), null);
        answer(asked);
    }

    List<OpResult> multi(Op... parts) throws KeeperException {
        var asked = new CompletableFuture<List<OpResult>>();
        zk.multi(List.of(parts), (code, at, context, results) -> tell(asked, code, at, results), null);
        return answer(asked);
    }

    /** Waits until the server has applied all transactions that the leader received before this call. */
    void sync(String path) throws KeeperException {
        var asked = new CompletableFuture<Void>();
        zk.sync(path, (code, at, context) -> tell(asked, code, at, null), null);
        answer(asked);
    }

    /** Returns this session's nodes with the prefix; needs ZooKeeper 3.6 or later. */
    List<String> own(String prefix) throws KeeperException {
        var asked = new CompletableFuture<List<String>>();
        zk.getEphemerals(prefix, (code, context, paths) -> tell(asked, code, prefix, paths), null);
        return answer(asked);
    }

    private static <T> void tell(CompletableFuture<T> asked, int code, String path, T value) {
        if (code == KeeperException.Code.OK.intValue()) asked.complete(value);
        else asked.completeExceptionally(KeeperException.create(KeeperException.Code.get(code), path));
    }

    /** Node and the transaction that created it. */
    record Made(String path, long czxid) {}

    /** Data and Stat of a node. */
    record Read(byte[] data, Stat stat) {}
}
