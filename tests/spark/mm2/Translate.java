import java.time.Duration;
import java.util.Map;
import org.apache.kafka.connect.mirror.RemoteClusterUtils;

/** Prints what MirrorMaker 2's own client makes of a group: bootstrap, alias, group. */
public class Translate {
    public static void main(String[] args) throws Exception {
        Map<String, Object> properties = Map.of("bootstrap.servers", args[0]);
        RemoteClusterUtils.translateOffsets(properties, args[1], args[2], Duration.ofSeconds(30))
            .forEach((at, offset) -> System.out.println(
                at.topic() + " " + at.partition() + " " + offset.offset() + " " + offset.metadata()));
        System.out.println("upstream " + RemoteClusterUtils.upstreamClusters(properties));
    }
}
