package bench.smt;

import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.ConnectRecord;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.transforms.Transformation;

/** Makes a map of a value that is JSON, with Kafka Connect's own converter. */
public class FromJson<R extends ConnectRecord<R>> implements Transformation<R> {
    private final JsonConverter converter = new JsonConverter();

    @Override
    public void configure(Map<String, ?> configs) {
        converter.configure(Map.of("schemas.enable", "false"), false);
    }

    @Override
    public R apply(R record) {
        SchemaAndValue found = converter.toConnectData(record.topic(), (byte[]) record.value());
        return record.newRecord(
            record.topic(), record.kafkaPartition(), record.keySchema(), record.key(),
            found.schema(), found.value(), record.timestamp());
    }

    @Override
    public ConfigDef config() {
        return new ConfigDef();
    }

    @Override
    public void close() {
        converter.close();
    }
}
