// An agent that reports to Kafka. Java's partitioner for records with a key is murmur2, which is what loopwarden expects.
import java.util.*; import org.apache.kafka.clients.producer.*; import org.apache.kafka.common.serialization.StringSerializer;
class Producer { public static void main(String[] a) {
  Map<String, Object> settings = Map.of("bootstrap.servers", "localhost:9092", "enable.idempotence", true);
  try (var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
    String session = "sess-42", event = "{\"id\":\"" + UUID.randomUUID() + "\",\"kind\":\"tool\",\"session_id\":\"" + session
        + "\",\"tool\":\"Bash\",\"args\":{\"command\":\"cargo test -p core\"},\"outcome\":\"error\"}";
    producer.send(new ProducerRecord<>("agents.tool-events.v1", session, event));
  } } }
