import java.net.InetSocketAddress;
import java.util.Collection;
import java.util.List;
import org.apache.zookeeper.client.ConnectStringParser;
import org.apache.zookeeper.client.HostProvider;

/**
 * The servers in the order of the connect string. ZooKeeper's client shuffles them, which would spread ten contenders
 * unevenly, and sessions on the leader are faster.
 */
final class ServersInOrder implements HostProvider {
    private List<InetSocketAddress> servers;
    /** Index of the last attempt and of the last connection; -1 before the first. */
    private int current = -1;
    private int connected = -1;

    ServersInOrder(String connect) {
        servers = new ConnectStringParser(connect).getServerAddresses();
    }

    @Override
    public synchronized int size() {
        return servers.size();
    }

    /** Pauses after a full round without a connection, as the client's own provider does. */
    @Override
    public InetSocketAddress next(long spinDelay) {
        boolean tried;
        InetSocketAddress server;
        synchronized (this) {
            current = (current + 1) % servers.size();
            tried = current == connected;
            if (connected < 0) connected = 0;
            server = servers.get(current);
        }
        if (tried && spinDelay > 0) {
            try {
                Thread.sleep(spinDelay);
            } catch (InterruptedException stop) {
                Thread.currentThread().interrupt();
            }
        }
        // Resolved on every attempt, because a server's address may have changed.
        return new InetSocketAddress(server.getHostString(), server.getPort());
    }

    @Override
    public synchronized void onConnected() {
        connected = current;
    }

    @Override
    public synchronized boolean updateServerList(Collection<InetSocketAddress> found, InetSocketAddress now) {
        if (found.isEmpty()) throw new IllegalArgumentException("no server is left");
        servers = List.copyOf(found);
        current = -1;
        connected = -1;
        return !servers.contains(now);
    }
}
