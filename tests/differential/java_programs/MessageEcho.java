import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import org.apache.kafka.common.message.ApiMessageType;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.ObjectSerializationCache;

/**
 * Apache Kafka's codec of requests and responses. A line on standard input is an API key, a version, "request" or "response" and a body in
 * hexadecimal, parted by blanks; the answer is the same body as Kafka encodes it after decoding, or "none" for a version that it does not have.
 */
public class MessageEcho {
    public static void main(String[] none) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println(answer(line.split(" ", -1)));
            System.out.flush();
        }
    }

    static String answer(String[] words) {
        try {
            ApiMessageType type = ApiMessageType.fromApiKey(Short.parseShort(words[0]));
            short version = Short.parseShort(words[1]);
            if (version < type.lowestSupportedVersion() || version > type.highestSupportedVersion(true)) {
                return "none";
            }
            ApiMessage message = words[2].equals("request") ? type.newRequest() : type.newResponse();
            ByteBuffer body = ByteBuffer.wrap(HexFormat.of().parseHex(words[3]));
            message.read(new ByteBufferAccessor(body), version);
            if (body.hasRemaining()) {
                return "error: " + body.remaining() + " bytes are left";
            }
            ObjectSerializationCache cache = new ObjectSerializationCache();
            ByteBuffer out = ByteBuffer.allocate(message.size(cache, version));
            message.write(new ByteBufferAccessor(out), cache, version);
            return HexFormat.of().formatHex(out.array());
        } catch (Exception error) {
            return "error " + error;
        }
    }
}
