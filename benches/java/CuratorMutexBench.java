import com.sun.management.OperatingSystemMXBean;
import java.io.IOException;
import java.lang.management.GarbageCollectorMXBean;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.StringJoiner;
import java.util.UUID;
import java.util.concurrent.ConcurrentSkipListMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.Collectors;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.ExponentialBackoffRetry;
import org.apache.zookeeper.KeeperException;

/**
 * Measures the original of the strategy {@code curator-mutex}: InterProcessMutex of Apache Curator in Java.
 *
 * <p>The load is a closed loop: each contender acquires, releases at once and acquires again. A contender is a thread
 * with its own CuratorFramework and therefore its own session, like a separate process. Contenders are spread evenly
 * over the servers, as in zklockbench, because sessions on the leader are faster. Only acquisitions in the measured
 * phase count, after a warm-up in which the JVM compiles the hot code. One line of JSON goes to stdout. Names of times
 * end with their unit, microseconds. Values that cannot be measured are null.
 *
 * <p>Arguments: connect string, root znode, contenders, warm-up in ms, measured phase in ms, and optionally
 * the session timeout in ms. Exit codes: 0 measured, 1 exclusion violated, 2 usage error, 3 no connection.
 */
public final class CuratorMutexBench {
    private static final int DEFAULT_SESSION_TIMEOUT_MS = 20_000;
    private static final int CONNECT_DEADLINE_S = 60;
    private static final long PAUSE_AFTER_ERROR_MS = 50;
    private static final OperatingSystemMXBean PROCESS =
            (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();

    /** The parameters of a measurement. */
    private static final class Question {
        final String connect;
        final String root;
        final int contenders;
        final long warmUpMs;
        final long measuredMs;
        final int sessionTimeoutMs;

        Question(String[] args) {
            if (args.length < 5 || args.length > 6) {
                throw new IllegalArgumentException("expected 5 or 6 arguments");
            }
            connect = args[0];
            root = args[1];
            contenders = Integer.parseInt(args[2]);
            warmUpMs = Long.parseLong(args[3]);
            measuredMs = Long.parseLong(args[4]);
            sessionTimeoutMs = args.length > 5 ? Integer.parseInt(args[5]) : DEFAULT_SESSION_TIMEOUT_MS;
            if (!root.matches("(/[^/]+)+") || contenders < 1 || warmUpMs < 0 || measuredMs < 1) {
                throw new IllegalArgumentException("the root must be /name, and there must be at least one contender");
            }
        }
    }

    private final Question question;
    private final String lock;
    private final List<CuratorFramework> clients = new ArrayList<>();
    private final List<Contender> contenders = new ArrayList<>();
    private final CountDownLatch start = new CountDownLatch(1);
    private final AtomicInteger inside = new AtomicInteger();
    private final AtomicLong violations = new AtomicLong();
    private final Map<String, AtomicLong> errors = new ConcurrentSkipListMap<>();
    private volatile boolean measuring;
    private volatile boolean stopping;

    private CuratorMutexBench(Question question) {
        this.question = question;
        this.lock = question.root + "/curator-mutex-" + UUID.randomUUID();
    }

    public static void main(String[] args) throws Exception {
        Question question;
        try {
            question = new Question(args);
        } catch (IllegalArgumentException mistake) {
            System.err.println("error: " + mistake.getMessage());
            System.err.println("usage: CuratorMutexBench CONNECT ROOT CONTENDERS WARM_UP_MS MEASURED_MS"
                    + " [SESSION_TIMEOUT_MS]");
            System.exit(2);
            return;
        }
        System.exit(new CuratorMutexBench(question).run());
    }

    private int run() throws Exception {
        if (!connect()) {
            System.err.println("error: cannot connect to " + question.connect);
            return 3;
        }
        for (CuratorFramework client : clients) {
            contenders.add(new Contender(client));
        }
        contenders.forEach(Thread::start);
        System.out.println(measure());
        cleanUp();
        return violations.get() == 0 ? 0 : 1;
    }

    private boolean connect() throws InterruptedException {
        String[] servers = question.connect.split(",");
        for (int i = 0; i < question.contenders; i++) {
            CuratorFramework client = CuratorFrameworkFactory.builder()
                    .connectString(servers[i % servers.length])
                    .sessionTimeoutMs(question.sessionTimeoutMs)
                    .retryPolicy(new ExponentialBackoffRetry(1000, 3))
                    .build();
            client.start();
            clients.add(client);
        }
        for (CuratorFramework client : clients) {
            if (!client.blockUntilConnected(CONNECT_DEADLINE_S, TimeUnit.SECONDS)) {
                return false;
            }
        }
        return true;
    }

    /** Runs the contenders and returns the result as a line of JSON. */
    private String measure() throws Exception {
        start.countDown();
        Thread.sleep(question.warmUpMs);
        long cpuBegin = PROCESS.getProcessCpuTime();
        long begin = System.nanoTime();
        measuring = true;
        Thread.sleep(question.measuredMs);
        measuring = false;
        long measuredNs = System.nanoTime() - begin;
        long cpuNs = PROCESS.getProcessCpuTime() - cpuBegin;
        Long resident = bytesOf("VmRSS:");
        stopping = true;
        for (Contender contender : contenders) {
            contender.join();
        }
        return json(measuredNs, cpuNs, resident);
    }

    private String json(long measuredNs, long cpuNs, Long resident) {
        long[] waits = contenders.stream().flatMapToLong(c -> Arrays.stream(c.waits())).sorted().toArray();
        StringJoiner json = new StringJoiner(",", "{", "}");
        json.add(text("tool", "Apache Curator InterProcessMutex"));
        json.add(text("java", Runtime.version().toString()));
        json.add(text("collector", ManagementFactory.getGarbageCollectorMXBeans().stream()
                .map(GarbageCollectorMXBean::getName).collect(Collectors.joining(", "))));
        json.add(number("contenders", question.contenders));
        json.add(number("session_timeout_ms", question.sessionTimeoutMs));
        json.add(number("warm_up_us", question.warmUpMs * 1000));
        json.add(number("measured_us", measuredNs / 1000));
        json.add(number("acquisitions", waits.length));
        json.add(number("acquisitions_per_s", Math.round(waits.length * 1e11 / measuredNs) / 100.0));
        json.add(number("wait_p50_us", quantileUs(waits, 0.50)));
        json.add(number("wait_p99_us", quantileUs(waits, 0.99)));
        json.add(number("wait_max_us", quantileUs(waits, 1.0)));
        json.add(number("cpu_us", cpuNs / 1000));
        json.add(number("resident_bytes", resident));
        json.add(number("peak_resident_bytes", bytesOf("VmHWM:")));
        json.add(number("violations", violations.get()));
        json.add(errors.entrySet().stream().map(error -> number(error.getKey(), error.getValue()))
                .collect(Collectors.joining(",", "\"errors\":{", "}")));
        return json.toString();
    }

    private static String text(String name, String value) {
        return "\"" + name + "\":\"" + value.replace("\\", "\\\\").replace("\"", "\\\"") + "\"";
    }

    private static String number(String name, Number value) {
        return "\"" + name + "\":" + value;
    }

    private static Long quantileUs(long[] sortedNs, double quantile) {
        if (sortedNs.length == 0) {
            return null;
        }
        int rank = (int) Math.ceil(quantile * sortedNs.length);
        return sortedNs[Math.max(rank, 1) - 1] / 1000;
    }

    /** Returns a field of /proc/self/status in bytes, or null if the system does not report the field. */
    private static Long bytesOf(String field) {
        try {
            for (String line : Files.readAllLines(Path.of("/proc/self/status"))) {
                if (line.startsWith(field)) {
                    return Long.parseLong(line.replaceAll("\\D", "")) * 1024;
                }
            }
        } catch (IOException notLinux) {
            return null;
        }
        return null;
    }

    /** Restores the ensemble's initial state. Deletes the root only if no other client uses it. */
    private void cleanUp() throws Exception {
        CuratorFramework client = clients.get(0);
        try {
            client.delete().deletingChildrenIfNeeded().forPath(lock);
            client.delete().forPath(question.root);
        } catch (KeeperException.NoNodeException | KeeperException.NotEmptyException fine) {
            // The servers may have removed the empty container already.
        }
        clients.forEach(CuratorFramework::close);
    }

    /** A contender, which shares no data while it runs. Its waits are read after it has ended. */
    private final class Contender extends Thread {
        private final InterProcessMutex mutex;
        private long[] waitsNs = new long[4096];
        private int count;

        Contender(CuratorFramework client) {
            mutex = new InterProcessMutex(client, lock);
        }

        long[] waits() {
            return Arrays.copyOf(waitsNs, count);
        }

        @Override
        public void run() {
            try {
                start.await();
                while (!stopping) {
                    turn();
                }
            } catch (InterruptedException stop) {
                Thread.currentThread().interrupt();
            }
        }

        private void turn() throws InterruptedException {
            try {
                long called = System.nanoTime();
                mutex.acquire();
                note(System.nanoTime() - called);
                if (inside.incrementAndGet() != 1) {
                    violations.incrementAndGet();
                }
                inside.decrementAndGet();
                mutex.release();
            } catch (InterruptedException stop) {
                throw stop;
            } catch (Exception error) {
                errors.computeIfAbsent(error.getClass().getSimpleName(), name -> new AtomicLong())
                        .incrementAndGet();
                Thread.sleep(PAUSE_AFTER_ERROR_MS);
            }
        }

        private void note(long waitNs) {
            if (!measuring) {
                return;
            }
            if (count == waitsNs.length) {
                waitsNs = Arrays.copyOf(waitsNs, count * 2);
            }
            waitsNs[count++] = waitNs;
        }
    }
}
