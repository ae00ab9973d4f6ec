#!/usr/bin/env bash
# One of Kafka's command line tools, by the name under which it is called.
case $(basename "$0" .sh) in
  kafka-broker-api-versions) class=BrokerApiVersionsCommand ;;
  kafka-console-consumer) class=consumer.ConsoleConsumer ;;
  kafka-console-producer) class=ConsoleProducer ;;
  kafka-topics) class=TopicCommand ;;
  *) echo "$0: unknown tool" >&2 && exit 2 ;;
esac
exec java -Xmx128m -XX:TieredStopAtLevel=1 -cp '/opt/kafka/libs/*' "org.apache.kafka.tools.$class" "$@"
