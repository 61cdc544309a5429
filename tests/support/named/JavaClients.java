import java.io.PrintWriter;
import java.io.Reader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.ArrayList;
import java.util.Properties;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Applications with Java clients, one thread each, in one process.
 *
 * <p>Arguments: the directory of the files that say what they do ({@code write}, {@code end}), the
 * properties of all, the clients, the topic. A client is a line: role, name, and its own properties,
 * separated by tabs. What they did is printed: {@code acked NAME VALUE}, {@code failed NAME VALUE
 * WHY}, {@code read NAME PARTITION OFFSET VALUE}, {@code aborted NAME WHY}, {@code restarted NAME
 * WHY}, {@code died NAME WHY}, and {@code idle NAME} once nothing is left to write.
 */
public class JavaClients {
    private static final int PAUSE_MS = 200, TRANSACTION = 3;
    private static Path directory;
    private static String topic;
    private static PrintWriter log;

    public static void main(String[] arguments) throws Exception {
        directory = Path.of(arguments[0]);
        topic = arguments[3];
        log = new PrintWriter(Files.newBufferedWriter(directory.resolve("java.tsv")), true);
        List<Thread> threads = new ArrayList<>();
        for (String line : Files.readAllLines(Path.of(arguments[2]))) {
            String[] fields = line.split("\t");
            Properties properties = new Properties();
            try (Reader common = Files.newBufferedReader(Path.of(arguments[1]))) {
                properties.load(common);
            }
            properties.put("client.id", fields[1]);
            for (int at = 2; at < fields.length; at++) {
                String[] pair = fields[at].split("=", 2);
                properties.put(pair[0], pair[1]);
            }
            Thread thread = new Thread(() -> run(fields[0], fields[1], properties));
            threads.add(thread);
            thread.start();
        }
        for (Thread thread : threads) {
            thread.join();
        }
        say("ended", "all");
    }

    private static void run(String role, String name, Properties properties) {
        try {
            switch (role) {
                case "write" -> write(name, properties);
                case "transact" -> transact(name, properties);
                default -> read(name, properties);
            }
        } catch (Exception error) {
            say("died", name, why(error));
        }
    }

    private static synchronized void say(String... words) {
        log.println(String.join("\t", words));
    }

    private static String why(Throwable error) {
        return error.toString().replaceAll("\\s+", " ");
    }

    private static boolean is(String file) {
        return Files.exists(directory.resolve(file));
    }

    private static KafkaProducer<String, String> producer(Properties properties) {
        return new KafkaProducer<>(properties, new StringSerializer(), new StringSerializer());
    }

    /** Sends the next value, or one that was not acknowledged, as an application would. */
    private static void write(String name, Properties properties) throws Exception {
        Queue<String> again = new ConcurrentLinkedQueue<>();
        AtomicInteger open = new AtomicInteger();
        int next = 0;
        boolean isIdle = false;
        try (KafkaProducer<String, String> producer = producer(properties)) {
            while (!is("end") || !again.isEmpty() || open.get() > 0) {
                String value = again.poll();
                if (value == null && is("write")) {
                    value = name + " " + next++;
                    isIdle = false;
                } else if (value == null && open.get() == 0 && !isIdle) {
                    isIdle = true;
                    say("idle", name);
                }
                if (value != null) {
                    String sent = value;
                    open.incrementAndGet();
                    producer.send(new ProducerRecord<>(topic, sent), (metadata, error) -> {
                        if (error == null) {
                            say("acked", name, sent);
                        } else {
                            say("failed", name, sent, why(error));
                            again.add(sent);
                        }
                        open.decrementAndGet();
                    });
                }
                Thread.sleep(PAUSE_MS);
            }
        }
    }

    private static void transact(String name, Properties properties) throws Exception {
        KafkaProducer<String, String> producer = begin(properties);
        int next = 0;
        boolean isIdle = false;
        List<String> values = new ArrayList<>();
        while (!is("end") || !values.isEmpty()) {
            if (values.isEmpty()) {
                if (!is("write")) {
                    if (!isIdle) {
                        isIdle = true;
                        say("idle", name);
                    }
                    Thread.sleep(PAUSE_MS);
                    continue;
                }
                isIdle = false;
                for (int at = 0; at < TRANSACTION; at++) {
                    values.add(name + " " + next++);
                }
            }
            try {
                producer.beginTransaction();
                List<Future<RecordMetadata>> sent = new ArrayList<>();
                for (String value : values) {
                    sent.add(producer.send(new ProducerRecord<>(topic, value)));
                    Thread.sleep(PAUSE_MS);
                }
                for (Future<RecordMetadata> one : sent) {
                    one.get();
                }
                commit(producer, name);
                for (String value : values) {
                    say("acked", name, value);
                }
                values.clear();
            } catch (Exception error) {
                say("aborted", name, why(error));
                try {
                    abort(producer, name);
                } catch (Exception fatal) {
                    say("restarted", name, why(fatal));
                    producer.close(Duration.ZERO);
                    producer = begin(properties);
                }
            }
        }
        producer.close();
    }

    private static KafkaProducer<String, String> begin(Properties properties) throws Exception {
        while (true) {
            KafkaProducer<String, String> producer = producer(properties);
            try {
                producer.initTransactions();
                return producer;
            } catch (TimeoutException error) {
                producer.close(Duration.ZERO);
            }
        }
    }

    private static void commit(KafkaProducer<String, String> producer, String name) {
        while (true) {
            try {
                producer.commitTransaction();
                return;
            } catch (TimeoutException error) {
                say("repeated", name, why(error));
            }
        }
    }

    private static void abort(KafkaProducer<String, String> producer, String name) {
        while (true) {
            try {
                producer.abortTransaction();
                return;
            } catch (TimeoutException error) {
                say("repeated", name, why(error));
            }
        }
    }

    private static void read(String name, Properties properties) {
        try (KafkaConsumer<String, String> consumer =
                new KafkaConsumer<>(properties, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(topic));
            while (!is("end")) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(PAUSE_MS))) {
                    say("read", name, "" + record.partition(), "" + record.offset(), record.value());
                }
            }
        }
    }
}
