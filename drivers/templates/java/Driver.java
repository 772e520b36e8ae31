import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import org.apache.zookeeper.KeeperException;

/** Implements version 1 of the zklockbench driver protocol. The lock is in MyLock.java. */
public final class Driver {
    static final ObjectMapper JSON = new ObjectMapper();
    static final PrintStream OUT = System.out;

    public static void main(String[] arguments) throws Exception {
        // Other output must not appear between the lines of the protocol.
        System.setOut(System.err);
        if (!"1".equals(System.getenv("ZKLOCKBENCH_DRIVER"))) {
            System.err.println("this program is a driver for zklockbench; use: zklockbench driver check ./run");
            System.exit(2);
        }
        Map<Integer, Contender> contenders = new HashMap<>();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            try {
                receive(JSON.readTree(line), contenders);
            } catch (Exception unreadable) {
                System.err.println("not a request: " + unreadable);
                System.exit(1);
            }
        }
        System.exit(0);
    }

    static void receive(JsonNode request, Map<Integer, Contender> contenders) throws Exception {
        int number = request.path("c").asInt(-1);
        String kind = request.required("t").asText();
        switch (kind) {
            case "hello" -> hello();
            case "echo" -> say(answer(request).set("ok", JSON.createObjectNode().put("now", now())));
            case "open", "acquire", "release", "close" -> {
                if (kind.equals("open")) {
                    contenders.put(number, new Contender(number));
                    contenders.get(number).start();
                }
                Contender contender = kind.equals("close") ? contenders.remove(number) : contenders.get(number);
                if (contender == null) say(answer(request).put("err", "bad-request"));
                else contender.requests.add(request);
            }
            default -> say(answer(request).put("err", "unsupported"));
        }
    }

    static void hello() throws Exception {
        ObjectNode ready = JSON.createObjectNode().put("t", "ready").put("v", 1).put("driver", "my lock 1").put("clock", "monotonic");
        ready.putObject("locks").set("MyLock", JSON.readTree(MyLock.ABILITIES));
        say(ready);
    }

    static ObjectNode answer(JsonNode request) {
        return JSON.createObjectNode().put("id", request.path("id").asLong());
    }

    /** Returns the time of CLOCK_MONOTONIC in microseconds. */
    static long now() {
        return System.nanoTime() / 1_000;
    }

    static void say(JsonNode message) {
        synchronized (OUT) {
            byte[] line = (message + "\n").getBytes(StandardCharsets.UTF_8);
            OUT.write(line, 0, line.length);
            OUT.flush();
        }
    }

    /** Contender with its own thread and session. */
    static final class Contender extends Thread {
        final BlockingQueue<JsonNode> requests = new LinkedBlockingQueue<>();
        final int number;
        MyLock lock;

        Contender(int number) {
            this.number = number;
            setDaemon(true);
        }

        @Override
        public void run() {
            String kind = "";
            while (!kind.equals("close")) {
                JsonNode request;
                try {
                    request = requests.take();
                } catch (InterruptedException late) {
                    continue;
                }
                kind = request.path("t").asText();
                ObjectNode answer = answer(request);
                long from = now();
                try {
                    serve(kind, request, answer);
                } catch (KeeperException.SessionExpiredException expired) {
                    answer.put("err", "session").put("message", expired.toString());
                } catch (KeeperException.ConnectionLossException lost) {
                    answer.put("err", "connection").put("message", lost.toString());
                } catch (Exception error) {
                    answer.put("err", "crash").put("message", error.toString());
                }
                say(answer.put("from", from).put("to", now()));
            }
        }

        void serve(String kind, JsonNode request, ObjectNode answer) throws Exception {
            String on = request.path("on").asText();
            switch (kind) {
                case "open" -> {
                    String auth = request.path("auth").asText(null);
                    lock = new MyLock(request.path("connect").asText(), request.path("session_ms").asInt(), auth, this::tell);
                    answer.putObject("ok").put("session", lock.session()).put("password", lock.password());
                }
                case "acquire" -> {
                    lock.mode = request.path("mode").asText("write");
                    if (lock.acquire(on, request.path("timeout_ms").asLong(-1))) answer.putObject("ok");
                    else answer.put("err", "timeout");
                }
                case "release" -> {
                    lock.release(on);
                    answer.putObject("ok");
                }
                default -> {
                    if (lock != null) lock.close();
                    answer.putObject("ok");
                }
            }
        }

        void tell(String what, String session) {
            ObjectNode event = JSON.createObjectNode().put("t", "event").put("c", number).put("what", what).put("at", now());
            say(session == null ? event : event.put("session", session));
        }
    }
}
