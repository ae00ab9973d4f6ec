import com.fasterxml.jackson.databind.*;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.util.Arrays;

/** The job itself, the same for both frameworks: a call's hash, the last calls of its session, and the command where one occurs too often. */
final class Call {
  /** Calls of a session that are looked at, and how many equal ones among them are a circle. */
  static final int HISTORY = 20, THRESHOLD = 3;
  /** Bytes of a hash that are kept. */
  static final int HASH = 16;

  final byte[] hash;
  final String id;

  private Call(byte[] hash, String id) { this.hash = hash; this.id = id; }

  /** Reads calls out of events. Not for two threads. */
  static final class Reader {
    private final ObjectMapper json = new ObjectMapper().configure(SerializationFeature.ORDER_MAP_ENTRIES_BY_KEYS, true);
    private final MessageDigest sha;

    Reader() throws Exception { sha = MessageDigest.getInstance("SHA-256"); }

    /** Null for an event that is no call. Arguments are canonical: their members in order. */
    Call read(byte[] event) throws java.io.IOException {
      JsonNode tree = json.readTree(event);
      if (!"tool".equals(tree.path("kind").asText())) return null;
      Object arguments = json.treeToValue(tree.path("args"), Object.class);
      String text = tree.path("tool").asText() + ":" + json.writeValueAsString(arguments);
      return new Call(Arrays.copyOf(sha.digest(text.getBytes(StandardCharsets.UTF_8)), HASH), tree.path("id").asText());
    }
  }

  /** The history with a call behind it, and without the oldest where it is full. The history is null before the first call. */
  static byte[] append(byte[] history, byte[] hash) {
    int length = history == null ? 0 : history.length, from = length < HISTORY * HASH ? 0 : HASH;
    byte[] next = new byte[length - from + HASH];
    if (length > 0) System.arraycopy(history, from, next, 0, length - from);
    System.arraycopy(hash, 0, next, length - from, HASH);
    return next;
  }

  /** The command, where the last call of this history is one too many; else null. */
  static byte[] command(byte[] history, byte[] hash, String session, String id) {
    int same = 0;
    for (int at = 0; at < history.length; at += HASH) if (Arrays.equals(history, at, at + HASH, hash, 0, HASH)) same++;
    if (same < THRESHOLD) return null;
    String text = "{\"action\":\"block\",\"session_id\":\"" + session + "\",\"count\":" + same + ",\"event_id\":\"" + id + "\"}";
    return text.getBytes(StandardCharsets.UTF_8);
  }
}
