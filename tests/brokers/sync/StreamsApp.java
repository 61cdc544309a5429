import java.time.Duration;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.processor.TimestampExtractor;

/** A Streams application that reads some records and stops: bootstrap, id, topic, records, directory. */
public class StreamsApp {

    /** Prints the partition time with which the application sees each record. */
    static class Times implements TimestampExtractor {
        @Override
        public long extract(ConsumerRecord<Object, Object> record, long partitionTime) {
            System.out.println("record " + record.offset() + " time " + partitionTime);
            return record.timestamp();
        }
    }

    public static void main(String[] args) throws Exception {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", args[0]);
        properties.put("application.id", args[1]);
        properties.put("state.dir", args[4]);
        properties.put("auto.offset.reset", "earliest");
        properties.put("commit.interval.ms", "100");
        // Streams does not leave its group when it stops.
        properties.put("session.timeout.ms", "6000");
        properties.put("heartbeat.interval.ms", "2000");
        CountDownLatch left = new CountDownLatch(Integer.parseInt(args[3]));
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(args[2],
                Consumed.with(Serdes.ByteArray(), Serdes.ByteArray()).withTimestampExtractor(new Times()))
            .foreach((key, value) -> left.countDown());
        KafkaStreams streams = new KafkaStreams(builder.build(), properties);
        streams.setUncaughtExceptionHandler((StreamsUncaughtExceptionHandler) error -> {
            for (Throwable cause = error; cause != null; cause = cause.getCause()) {
                System.out.println("died: " + cause);
            }
            while (left.getCount() > 0) {
                left.countDown();
            }
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        streams.start();
        left.await();
        streams.close(Duration.ofSeconds(60));
    }
}
