import org.apache.curator.framework.CuratorFramework;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.Op;
import org.apache.zookeeper.OpResult;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.data.Stat;

/**
 * A {@link Baton} that is taken by one request where nobody holds it or waits: multi[create its node, setData(lock's directory)].
 *
 * The setData's answer is the directory's Stat at that very transaction. One child: its own node is alone, so it is the lowest, and
 * nodes made later have higher numbers: it holds, exactly as by a list that shows nobody else. More children: an ordinary waiter.
 * Two requests uncontended, and one commit until it is in. Foreign nodes in the directory only make the count higher: safe.
 *
 * Where others are, the setData buys nothing, so it is left out after some acquires that were not alone, and tried again now and
 * then. The directory's data belongs to the lock. Its mzxid is the transaction that made the node, the fencing token: servers
 * before 3.8.2 and 3.9 answer a create in a multi without it.
 */
public final class Count extends Baton {
    private static final byte[] NOTHING = {};
    private static final int TRIES = 3;
    private static final int AGAIN_AFTER = 16;
    /** How many acquires ago one was alone. */
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
