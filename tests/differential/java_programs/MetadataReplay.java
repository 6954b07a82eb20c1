import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import org.apache.kafka.common.metadata.ClearElrRecord;
import org.apache.kafka.common.metadata.RemoveTopicRecord;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.image.MetadataDelta;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.image.MetadataProvenance;
import org.apache.kafka.image.writer.ImageWriterOptions;
import org.apache.kafka.image.writer.RecordListWriter;
import org.apache.kafka.metadata.MetadataRecordSerde;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.server.common.MetadataVersion;

/**
 * Apache Kafka's metadata records and image. A line on standard input is a sequence of records in hexadecimal, parted by commas; the
 * answer has two parts, parted by a tab: the same records as Kafka encodes them, and the records of the image that they result in.
 */
public class MetadataReplay {
    public static void main(String[] none) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println(answer(line));
            System.out.flush();
        }
    }

    static String answer(String line) {
        try {
            List<String> same = new ArrayList<>();
            MetadataDelta delta = new MetadataDelta.Builder().setImage(MetadataImage.EMPTY).build();
            for (String hex : line.split(",")) {
                byte[] value = HexFormat.of().parseHex(hex);
                ApiMessageAndVersion record =
                    MetadataRecordSerde.INSTANCE.read(new ByteBufferAccessor(ByteBuffer.wrap(value)), value.length);
                same.add(encoded(record));
                // A delta of Kafka clears no ELR of a topic that it creates, and keeps the settings of a topic that it creates and removes.
                if (record.message() instanceof ClearElrRecord || record.message() instanceof RemoveTopicRecord) {
                    MetadataImage before = delta.apply(new MetadataProvenance(1, 1, 1, true));
                    delta = new MetadataDelta.Builder().setImage(before).build();
                }
                if (!record.message().getClass().getSimpleName().endsWith("TransactionRecord")) {
                    delta.replay(record.message()); // the loader takes the marks of a transaction out
                }
            }
            MetadataImage image = delta.apply(new MetadataProvenance(1, 1, 1, true));
            RecordListWriter writer = new RecordListWriter();
            image.write(writer, new ImageWriterOptions.Builder(MetadataVersion.latestProduction())
                .setEligibleLeaderReplicasEnabled(true).build());
            return String.join(",", same) + "\t" + String.join(",", writer.records().stream().map(MetadataReplay::encoded).toList());
        } catch (Exception error) {
            return "error " + error;
        }
    }

    static String encoded(ApiMessageAndVersion record) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer out = ByteBuffer.allocate(MetadataRecordSerde.INSTANCE.recordSize(record, cache));
        MetadataRecordSerde.INSTANCE.write(record, cache, new ByteBufferAccessor(out));
        return HexFormat.of().formatHex(out.array());
    }
}
