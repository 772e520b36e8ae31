// A zklockbench driver for Curator's locks (version 1 of the driver protocol, docs/testing-your-client.md).
//
// Each contender has its own CuratorFramework and thread. Curator's mutex belongs to a thread, so the same
// thread must acquire and release. Locks.java lists the locks; Baton.java and Count.java are this suite's own
// locks in Java.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.retry.ExponentialBackoffRetry;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.client.ZKClientConfig;

public class CuratorDriver {
    /** File with the certificate that all contenders use; null until needed. */
    static String identity;

    public static void main(String[] arguments) throws IOException {
        Protocol.serve("curator=drivers/curator/run", CuratorDriver::hello, Contender::new);
    }

    static ObjectNode hello() {
        ObjectNode ready = Protocol.ready("curator 1.1", "curator", version()).put("tls", true);
        Locks.declare(ready.putObject("locks"));
        return ready;
    }

    /** Curator's version, read from the jar because Debian's file names do not contain it. */
    static String version() {
        String about = "/META-INF/maven/org.apache.curator/curator-framework/pom.properties";
        Properties read = new Properties();
        try (InputStream in = CuratorFramework.class.getResourceAsStream(about)) {
            if (in != null) read.load(in);
        } catch (IOException unreadable) {
            // The version stays unknown.
        }
        return read.getProperty("version", "unknown");
    }

    /** Contender with its own client, locks and thread. */
    static class Contender extends Protocol.Contender {
        final Map<String, InterProcessLock> locks = new HashMap<>();
        CuratorFramework client;
        JsonNode opened;
        InterProcessLock held;

        Contender(int number) {
            super(number);
        }

        @Override
        void abandon() {
            interrupt();
        }

        @Override
        void serve(Request request) throws Exception {
            switch (request.kind) {
                case "open" -> connect(request);
                case "acquire" -> acquire(request);
                default -> release(request);
            }
        }

        @Override
        ObjectNode close() {
            if (client != null) client.close();
            return Protocol.object();
        }

        void connect(Request asked) throws Exception {
            JsonNode request = asked.tree();
            opened = request;
            int times = request.path("parameters").path("retry_times").asInt(3);
            int sleep = request.path("parameters").path("retry_sleep").asInt(1000);
            int timeout = request.path("session_ms").asInt();
            var builder = CuratorFrameworkFactory.builder()
                .connectString(request.path("connect").asText())
                .sessionTimeoutMs(timeout)
                .connectionTimeoutMs(Math.max(timeout, 15_000))
                .retryPolicy(new ExponentialBackoffRetry(sleep, times));
            keepToConnectString(builder);
            ZKClientConfig config = new ZKClientConfig();
            if (request.has("tls")) encrypt(config, request.path("tls"));
            Sasl.identify(request);
            builder.zookeeperFactory((connect, session, watcher, readOnly) ->
                new ZooKeeper(connect, session, watcher, readOnly, new ServersInOrder(connect), config));
            if (request.has("auth")) builder.authorization("digest", request.path("auth").asText().getBytes(StandardCharsets.UTF_8));
            client = builder.build();
            client.getConnectionStateListenable().addListener((of, state) -> {
                switch (state) {
                    case SUSPENDED -> event("suspended");
                    case LOST -> event("expired");
                    case CONNECTED, RECONNECTED -> connected(of);
                    default -> { }
                }
            });
            client.start();
            if (client.blockUntilConnected(timeout, TimeUnit.MILLISECONDS)) {
                Protocol.answer(asked, Protocol.opened(client.getZookeeperClient().getZooKeeper()));
            } else {
                Protocol.fail(asked, "connection", "no", "could not open a session in time");
            }
        }

        /**
         * Disables the EnsembleTracker, which would replace the connect string with the addresses in the ensemble's configuration
         * and so bypass the proxy for faults. Releases without this setting are used unchanged.
         */
        void keepToConnectString(CuratorFrameworkFactory.Builder builder) {
            try {
                CuratorFrameworkFactory.Builder.class.getMethod("ensembleTracker", boolean.class).invoke(builder, false);
            } catch (ReflectiveOperationException absent) {
                // The suite detects a client that bypasses its proxy.
            }
        }

        void encrypt(ZKClientConfig config, JsonNode tls) {
            config.setProperty("zookeeper.client.secure", "true");
            config.setProperty("zookeeper.clientCnxnSocket", "org.apache.zookeeper.ClientCnxnSocketNetty");
            config.setProperty("zookeeper.ssl.trustStore.location", tls.path("ca").asText());
            config.setProperty("zookeeper.ssl.trustStore.type", "PEM");
            if (tls.path("other_names").asBoolean()) config.setProperty("zookeeper.ssl.hostnameVerification", "false");
            if (tls.has("cert")) {
                config.setProperty("zookeeper.ssl.keyStore.location", identity(tls));
                config.setProperty("zookeeper.ssl.keyStore.type", "PEM");
            }
        }

        /** Reports a connection. After an expiry, the client's new session also belongs to this contender. */
        void connected(CuratorFramework of) {
            String session = null;
            try {
                session = Protocol.session(of.getZookeeperClient().getZooKeeper());
            } catch (Exception gone) {
                // The next event contains the session.
            }
            event("connected", session);
        }

        InterProcessLock lock(String path, String mode) {
            String name = opened.path("lock").asText();
            return locks.computeIfAbsent(path + " " + mode, at -> Locks.make(name, client, path, mode, opened.path("parameters")));
        }

        void acquire(Request request) throws Exception {
            InterProcessLock lock = lock(request.on, request.mode);
            try {
                if (!begins(request.id)) {
                    Protocol.fail(request, "cancelled", "no", null);
                    return;
                }
                boolean got = true;
                long from = Protocol.now();
                if (request.timeoutMillis >= 0) got = lock.acquire(request.timeoutMillis, TimeUnit.MILLISECONDS);
                else lock.acquire();
                long granted = Protocol.now();
                ended(request.id);
                if (!got) {
                    Protocol.fail(request, "timeout", "no", null);
                    return;
                }
                held = lock;
                Protocol.answer(request, Locks.tell(lock, client, opened.path("parameters")), from, granted);
            } catch (InterruptedException cancelled) {
                // The node was deleted before this exception was thrown.
                Protocol.fail(request, "cancelled", "no", null);
            } finally {
                ended(request.id);
            }
        }

        void release(Request request) {
            if (held == null) {
                Protocol.fail(request, "bad-request", "no", "the lock is not held");
                return;
            }
            long from = Protocol.now();
            try {
                held.release();
                Protocol.answer(request, "{}", from, Protocol.now());
                // A reentrant lock is released as often as it was acquired.
                if (!held.isAcquiredInThisProcess()) held = null;
            } catch (Exception error) {
                var failure = Protocol.failure(request, Protocol.word(error), "maybe", error.toString());
                Protocol.write(failure.put("from", from).put("to", Protocol.now()).toString());
            }
        }
    }

    /** Key and certificate in one file, as the client requires. The file is private and deleted at exit. */
    static synchronized String identity(JsonNode tls) {
        if (identity == null) {
            try {
                Path file = Files.createTempFile("curator-driver-", ".pem");
                file.toFile().deleteOnExit();
                Files.write(file, Files.readAllBytes(Path.of(tls.path("key").asText())));
                Files.writeString(file, "\n" + Files.readString(Path.of(tls.path("cert").asText())), StandardOpenOption.APPEND);
                identity = file.toString();
            } catch (IOException unreadable) {
                throw new UncheckedIOException(unreadable);
            }
        }
        return identity;
    }
}
