import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.UncheckedIOException;

/**
 * A line from the suite, with the fields of all requests except `open`. Only `open` is parsed as a tree: until the JVM has
 * compiled this code, a tree would be too slow for the acquires of short trials.
 */
final class Request {
    private static final ObjectMapper JSON = new ObjectMapper();
    private final String line;
    String kind = "";
    long id;
    /** Number of the contender; -1 if none. */
    int contender = -1;
    /** Id of the acquire that a `cancel` ends. */
    long of;
    String on = "";
    String mode = "write";
    /** -1 if none. */
    long timeoutMillis = -1;

    /** Creates a request that the driver sends to itself. */
    Request(String kind, String on) {
        line = "";
        this.kind = kind;
        this.on = on;
    }

    Request(String line) throws IOException {
        this.line = line;
        try (JsonParser in = JSON.createParser(line)) {
            if (in.nextToken() != JsonToken.START_OBJECT) throw new IOException("not an object: " + line);
            for (String field = in.nextFieldName(); field != null; field = in.nextFieldName()) {
                in.nextToken();
                switch (field) {
                    case "t" -> kind = in.getText();
                    case "id" -> id = in.getLongValue();
                    case "c" -> contender = in.getIntValue();
                    case "of" -> of = in.getLongValue();
                    case "on" -> on = in.getText();
                    case "mode" -> mode = in.getText();
                    case "timeout_ms" -> timeoutMillis = in.getLongValue();
                    default -> in.skipChildren();
                }
            }
        }
    }

    /** Returns the whole line as a tree. */
    JsonNode tree() {
        try {
            return JSON.readTree(line);
        } catch (IOException unreadable) {
            throw new UncheckedIOException(unreadable);
        }
    }
}
