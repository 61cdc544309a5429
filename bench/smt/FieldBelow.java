package bench.smt;

import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.ConnectRecord;
import org.apache.kafka.connect.transforms.predicates.Predicate;

/** True for values that are maps in which a number is below a bound. */
public class FieldBelow<R extends ConnectRecord<R>> implements Predicate<R> {
    private static final ConfigDef CONFIG = new ConfigDef()
        .define("field", ConfigDef.Type.STRING, ConfigDef.Importance.HIGH, "Name of the field.")
        .define("bound", ConfigDef.Type.LONG, ConfigDef.Importance.HIGH, "The bound.");

    private String field;
    private long bound;

    @Override
    public void configure(Map<String, ?> configs) {
        Map<String, Object> parsed = CONFIG.parse(configs);
        field = (String) parsed.get("field");
        bound = (Long) parsed.get("bound");
    }

    @Override
    public boolean test(R record) {
        return ((Number) ((Map<?, ?>) record.value()).get(field)).longValue() < bound;
    }

    @Override
    public ConfigDef config() {
        return CONFIG;
    }

    @Override
    public void close() {}
}
