import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.curator.drivers.AdvancedTracerDriver;
import org.apache.curator.drivers.EventTrace;
import org.apache.curator.drivers.OperationTrace;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.RetryForever;

/**
 * Many threads of one client that hand a mutex over to each other.
 *
 * <p>Arguments: connect string, lock, number of threads, {@code shared} (one InterProcessMutex for all threads) or
 * {@code own} (one for each thread), number of handoffs. Once all threads are in the queue, the lock is handed over
 * this many times, and each thread queues up again after its release. Prints the number of requests and the
 * duration in microseconds.
 */
public final class CuratorCrowd {
    private static final AtomicLong REQUESTS = new AtomicLong();
    private static final AtomicInteger HANDED_ON = new AtomicInteger();
    private static final CountDownLatch DONE = new CountDownLatch(1);
    private static volatile long begin;

    public static void main(String[] args) throws Exception {
        int threads = Integer.parseInt(args[2]);
        int handoffs = Integer.parseInt(args[4]);
        CuratorFramework client = CuratorFrameworkFactory.newClient(args[0], 30_000, 15_000, new RetryForever(100));
        client.getZookeeperClient().setTracerDriver(new Counter());
        client.start();
        client.blockUntilConnected();
        InterProcessMutex shared = new InterProcessMutex(client, args[1]);
        shared.acquire();
        for (int i = 0; i < threads; i++) {
            boolean own = args[3].equals("own");
            InterProcessMutex mutex = own ? new InterProcessMutex(client, args[1]) : shared;
            Thread thread = new Thread(null, () -> handOn(mutex, handoffs), "waiter", 256 * 1024);
            thread.setDaemon(true);
            thread.start();
        }
        while (client.checkExists().forPath(args[1]).getNumChildren() <= threads) {
            Thread.sleep(20);
        }
        // All nodes exist. Wait until the threads have also listed the queue and set their watches.
        for (long sent = -1; sent != REQUESTS.get(); ) {
            sent = REQUESTS.get();
            Thread.sleep(1_000);
        }
        REQUESTS.set(0);
        begin = System.nanoTime();
        shared.release();
        DONE.await();
        client.close();
        System.exit(0);
    }

    private static void handOn(InterProcessMutex mutex, int handoffs) {
        try {
            while (true) {
                mutex.acquire();
                if (HANDED_ON.incrementAndGet() == handoffs) {
                    System.out.println(REQUESTS.get() + " " + (System.nanoTime() - begin) / 1_000);
                    DONE.countDown();
                    return;
                }
                mutex.release();
            }
        } catch (Exception over) {
            // The client is closed after the measurement.
        }
    }

    /** Counts the client's requests. */
    private static final class Counter extends AdvancedTracerDriver {
        @Override
        public void addTrace(OperationTrace operation) {
            REQUESTS.incrementAndGet();
        }

        @Override
        public void addEvent(EventTrace event) {}
    }
}
