import java.net.InetSocketAddress;
import java.util.Collection;
import java.util.List;
import org.apache.zookeeper.client.ConnectStringParser;
import org.apache.zookeeper.client.HostProvider;

/**
 * Provides the servers in the order of the connect string. ZooKeeper's client shuffles the servers, which would spread
 * contenders unevenly and distort results, because sessions on the leader are faster.
 */
final class ServersInOrder implements HostProvider {
    private List<InetSocketAddress> servers;
    /** Indexes of the last attempted and the last connected server; -1 if none. */
    private int current = -1;
    private int connected = -1;

    ServersInOrder(String connect) {
        servers = new ConnectStringParser(connect).getServerAddresses();
    }

    @Override
    public synchronized int size() {
        return servers.size();
    }

    /** Pauses after a full round without a connection, like the client's own provider. */
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
        // Resolve the name on every attempt, because a server's address may change.
        return new InetSocketAddress(server.getHostString(), server.getPort());
    }

    @Override
    public synchronized void onConnected() {
        connected = current;
    }

    @Override
    public synchronized boolean updateServerList(Collection<InetSocketAddress> found, InetSocketAddress now) {
        if (found.isEmpty()) throw new IllegalArgumentException("the new server list is empty");
        servers = List.copyOf(found);
        current = -1;
        connected = -1;
        return !servers.contains(now);
    }
}
