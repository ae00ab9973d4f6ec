import java.time.Duration;
import java.util.Properties;
import org.apache.kafka.common.serialization.*;
import org.apache.kafka.streams.*;
import org.apache.kafka.streams.processor.api.*;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.*;

/** The job as somebody writes it who knows Kafka Streams: histories in a store with changelog, exactly once, a commit each 100 ms (its default). */
public class Job {
  static class Detect implements Processor<String, byte[], String, byte[]> {
    private KeyValueStore<String, byte[]> histories;
    private ProcessorContext<String, byte[]> context;
    private Call.Reader calls;

    @Override public void init(ProcessorContext<String, byte[]> context) {
      this.context = context;
      histories = context.getStateStore("calls");
      try { calls = new Call.Reader(); } catch (Exception error) { throw new IllegalStateException(error); }
    }

    @Override public void process(Record<String, byte[]> event) {
      Call call;
      try { call = calls.read(event.value()); } catch (java.io.IOException error) { throw new IllegalStateException(error); }
      if (call == null) return;
      byte[] history = Call.append(histories.get(event.key()), call.hash);
      histories.put(event.key(), history);
      byte[] command = Call.command(history, call.hash, event.key(), call.id);
      if (command != null) context.forward(event.withValue(command));
    }
  }

  /** Arguments: brokers, input, output, group, directory, `rocksdb` or `memory`. */
  public static void main(String[] arguments) {
    Properties options = new Properties();
    options.put("bootstrap.servers", arguments[0]);
    options.put("application.id", arguments[3]);
    options.put("state.dir", arguments[4]);
    options.put("processing.guarantee", "exactly_once_v2");
    options.put("num.stream.threads", 1);
    options.put("replication.factor", 1);
    options.put("auto.offset.reset", "earliest");
    options.put("max.poll.records", 2000);
    options.put("producer.linger.ms", 5);
    options.put("producer.compression.type", "lz4");
    var supplier = arguments[5].equals("memory") ? Stores.inMemoryKeyValueStore("calls") : Stores.persistentKeyValueStore("calls");
    Topology topology = new Topology();
    topology.addSource("in", new StringDeserializer(), new ByteArrayDeserializer(), arguments[1])
      .addProcessor("detect", Detect::new, "in")
      .addStateStore(Stores.keyValueStoreBuilder(supplier, Serdes.String(), Serdes.ByteArray()), "detect")
      .addSink("out", arguments[2], new StringSerializer(), new ByteArraySerializer(), "detect");
    KafkaStreams streams = new KafkaStreams(topology, options);
    streams.setUncaughtExceptionHandler(error -> {
      error.printStackTrace();
      Runtime.getRuntime().halt(1);
      return null;
    });
    Runtime.getRuntime().addShutdownHook(new Thread(() -> streams.close(Duration.ofSeconds(20))));
    streams.start();
  }
}
