import java.nio.charset.StandardCharsets;
import java.util.*;
import java.util.concurrent.*;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.serialization.DeserializationSchema;
import org.apache.flink.api.common.state.*;
import org.apache.flink.api.common.typeinfo.*;
import org.apache.flink.api.java.tuple.*;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.kafka.sink.*;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.connector.kafka.source.reader.deserializer.KafkaRecordDeserializationSchema;
import org.apache.flink.core.execution.*;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.util.Collector;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.ProducerRecord;

/** The job as somebody writes it who knows Flink: read before `keyBy`, so that hashes cross it and not events; exactly once, a checkpoint each 100 ms. */
public class Job {
  static final TypeInformation<byte[]> BYTES = PrimitiveArrayTypeInfo.BYTE_PRIMITIVE_ARRAY_TYPE_INFO;

  /** To session, hash of the call and id of the event. */
  static class Parse implements KafkaRecordDeserializationSchema<Tuple3<String, byte[], String>> {
    private transient Call.Reader calls;

    @Override public void open(DeserializationSchema.InitializationContext context) throws Exception { calls = new Call.Reader(); }

    @Override public void deserialize(ConsumerRecord<byte[], byte[]> event, Collector<Tuple3<String, byte[], String>> out) throws java.io.IOException {
      Call call = calls.read(event.value());
      if (call != null) out.collect(Tuple3.of(new String(event.key(), StandardCharsets.UTF_8), call.hash, call.id));
    }

    @Override public TypeInformation<Tuple3<String, byte[], String>> getProducedType() { return Types.TUPLE(Types.STRING, BYTES, Types.STRING); }
  }

  static class Detect extends KeyedProcessFunction<String, Tuple3<String, byte[], String>, Tuple2<String, byte[]>> {
    private transient ValueState<byte[]> history;

    @Override public void open(OpenContext context) { history = getRuntimeContext().getState(new ValueStateDescriptor<>("calls", BYTES)); }

    @Override public void processElement(Tuple3<String, byte[], String> call, Context context, Collector<Tuple2<String, byte[]>> out) throws Exception {
      byte[] next = Call.append(history.value(), call.f1);
      history.update(next);
      byte[] command = Call.command(next, call.f1, call.f0, call.f2);
      if (command != null) out.collect(Tuple2.of(call.f0, command));
    }
  }

  static class ToRecord implements KafkaRecordSerializationSchema<Tuple2<String, byte[]>> {
    private final String topic;

    ToRecord(String topic) { this.topic = topic; }

    @Override public ProducerRecord<byte[], byte[]> serialize(Tuple2<String, byte[]> command, KafkaSinkContext context, Long timestamp) {
      return new ProducerRecord<>(topic, null, timestamp, command.f0.getBytes(StandardCharsets.UTF_8), command.f1);
    }
  }

  static Configuration configuration(String directory, String store) {
    Map<String, String> options = new HashMap<>();
    options.put("execution.checkpointing.interval", "100 ms");
    options.put("execution.checkpointing.mode", "EXACTLY_ONCE");
    options.put("execution.checkpointing.dir", "file://" + directory + "/checkpoints");
    options.put("execution.checkpointing.incremental", "true");
    options.put("execution.buffer-timeout.interval", "100 ms");
    options.put("state.backend.type", store.equals("heap") ? "hashmap" : "rocksdb");
    options.put("state.backend.rocksdb.localdir", directory + "/rocksdb");
    // Hashes do not compress; Kafka Streams turns it off too.
    options.put("state.backend.rocksdb.compression.per.level", "NO_COMPRESSION");
    options.put("io.tmp.dirs", directory);
    options.put("taskmanager.memory.managed.size", "512m");
    options.put("taskmanager.memory.network.min", "64m");
    options.put("taskmanager.memory.network.max", "64m");
    options.put("pipeline.object-reuse", "true");
    options.put("pipeline.generic-types", "false");
    options.put("restart-strategy.type", "none");
    return Configuration.fromMap(options);
  }

  /** Arguments: brokers, input, output, group, directory, `rocksdb` or `heap`. */
  public static void main(String[] arguments) throws Exception {
    String brokers = arguments[0], group = arguments[3], directory = arguments[4];
    StreamExecutionEnvironment flink = StreamExecutionEnvironment.createLocalEnvironment(1, configuration(directory, arguments[5]));
    KafkaSource<Tuple3<String, byte[], String>> source = KafkaSource.<Tuple3<String, byte[], String>>builder().setBootstrapServers(brokers)
      .setTopics(arguments[1]).setGroupId(group).setStartingOffsets(OffsetsInitializer.earliest()).setDeserializer(new Parse())
      .setProperty("max.poll.records", "2000").setProperty("isolation.level", "read_committed").build();
    KafkaSink<Tuple2<String, byte[]>> sink = KafkaSink.<Tuple2<String, byte[]>>builder().setBootstrapServers(brokers)
      .setRecordSerializer(new ToRecord(arguments[2])).setDeliveryGuarantee(DeliveryGuarantee.EXACTLY_ONCE).setTransactionalIdPrefix(group)
      .setProperty("transaction.timeout.ms", "60000").setProperty("linger.ms", "5").setProperty("compression.type", "lz4").build();
    flink.fromSource(source, WatermarkStrategy.noWatermarks(), "in").keyBy(call -> call.f0, Types.STRING)
      .process(new Detect(), Types.TUPLE(Types.STRING, BYTES)).sinkTo(sink);
    JobClient job = flink.executeAsync(group);
    job.getJobExecutionResult().whenComplete((result, error) -> {
      if (error == null) return;
      error.printStackTrace();
      Runtime.getRuntime().halt(1);
    });
    // A shutdown hook comes too late: Flink's own hooks run beside it. The savepoint commits the last transaction.
    CountDownLatch asked = new CountDownLatch(1);
    sun.misc.Signal.handle(new sun.misc.Signal("TERM"), signal -> asked.countDown());
    asked.await();
    job.stopWithSavepoint(false, "file://" + directory + "/savepoint", SavepointFormatType.NATIVE).get(60, TimeUnit.SECONDS);
    System.exit(0);
  }
}
