import org.apache.curator.framework.CuratorFramework;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.Op;
import org.apache.zookeeper.OpResult;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.data.Stat;

/**
 * A {@link Baton} that acquires a free lock with one request: multi[create its node, setData(lock's directory)].
 *
 * The reply to setData contains the directory's Stat as of that transaction. If the directory has one child, the lock's own node is
 * the lowest, and later nodes get higher numbers, so the lock is held, as after a list that shows no other node. With more
 * children, the lock waits as usual. An uncontended acquire and release take two requests in total. Other clients' nodes in the
 * directory only raise the count.
 *
 * Under contention, setData gains nothing, so it is omitted after several contended acquires, and retried occasionally. The lock
 * owns the directory's data. The directory's mzxid is the transaction that created the node, and serves as the fencing token;
 * for a create within a multi, servers before 3.8.2 and 3.9 do not return this transaction.
 */
public final class Count extends Baton {
    private static final byte[] NOTHING = {};
    private static final int TRIES = 3;
    private static final int AGAIN_AFTER = 16;
    /** Number of acquires since the last uncontended one. */
    private int crowded;

    public Count(CuratorFramework client, String path) {
        super(client, path);
    }

    @Override
    boolean joins() throws KeeperException {
        crowded++;
        if (crowded > TRIES && crowded % AGAIN_AFTER != 0) return super.joins();
        Op create = Op.create(path + "/n-", NOTHING, Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL_SEQUENTIAL);
        var results = session.multi(create, Op.setData(path, NOTHING, -1));
        Stat directory = ((OpResult.SetDataResult) results.get(1)).getStat();
        has(((OpResult.CreateResult) results.get(0)).getPath(), directory.getMzxid());
        if (directory.getNumChildren() != 1) return false;
        crowded = 0;
        return true;
    }
}
