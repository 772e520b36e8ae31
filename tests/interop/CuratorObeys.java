import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.LinkedBlockingQueue;
import org.apache.curator.RetryPolicy;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.retry.RetryForever;
import org.apache.curator.retry.RetryNTimes;

/**
 * Owners of Curator's locks that run the commands on stdin, one per line.
 *
 * <p>Arguments: connect string, lock, session timeout in milliseconds, and optionally the number of retries after a
 * lost connection. Without this number, requests are retried forever; with it, a request waits one second for a
 * connection. All owners share a session, and each owner is a thread with its own lock objects.
 *
 * <p>Commands: {@code acquire OWNER SIDE}, {@code release OWNER SIDE}, {@code holds OWNER SIDE},
 * {@code interrupt OWNER}; a side is {@code mutex}, {@code read} or {@code write}. Prints {@code ready} once
 * connected, and events: {@code OWNER in SIDE}, {@code OWNER out SIDE}, {@code OWNER failed EXCEPTION},
 * {@code OWNER holds true}, {@code state SUSPENDED}.
 */
public final class CuratorObeys {
    private static final Map<String, Owner> OWNERS = new ConcurrentHashMap<>();

    public static void main(String[] args) throws Exception {
        int timeout = Integer.parseInt(args[2]);
        boolean forever = args.length < 4;
        RetryPolicy retry = forever ? new RetryForever(50) : new RetryNTimes(Integer.parseInt(args[3]), 50);
        CuratorFramework client =
                CuratorFrameworkFactory.newClient(args[0], timeout, forever ? timeout : 1000, retry);
        client.getConnectionStateListenable().addListener((of, state) -> say("state " + state));
        client.start();
        Thread connecting = new Thread(() -> {
            try {
                client.blockUntilConnected();
                say("ready");
            } catch (InterruptedException over) {
                // This thread is never interrupted.
            }
        });
        connecting.setDaemon(true);
        connecting.start();
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] words = line.split(" ");
            Owner owner = OWNERS.computeIfAbsent(words[1], name -> new Owner(name, client, args[1]));
            if (words[0].equals("interrupt")) {
                owner.interrupt();
            } else {
                owner.told.add(words);
            }
        }
        System.exit(0);
    }

    private static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }

    /** An owner is a thread, because Curator identifies owners by their thread. */
    private static final class Owner extends Thread {
        final LinkedBlockingQueue<String[]> told = new LinkedBlockingQueue<>();
        private final Map<String, InterProcessMutex> sides;

        Owner(String name, CuratorFramework client, String lock) {
            super(name);
            InterProcessReadWriteLock both = new InterProcessReadWriteLock(client, lock);
            sides = Map.of(
                    "mutex", new InterProcessMutex(client, lock), "read", both.readLock(), "write", both.writeLock());
            setDaemon(true);
            start();
        }

        @Override
        public void run() {
            while (true) {
                try {
                    obey(told.take());
                } catch (Exception why) {
                    say(getName() + " failed " + why.getClass().getSimpleName());
                }
            }
        }

        private void obey(String[] words) throws Exception {
            InterProcessMutex side = sides.get(words[2]);
            switch (words[0]) {
                case "acquire":
                    side.acquire();
                    say(getName() + " in " + words[2]);
                    break;
                case "release":
                    side.release();
                    say(getName() + " out " + words[2]);
                    break;
                default:
                    say(getName() + " holds " + side.isOwnedByCurrentThread());
            }
        }
    }
}
