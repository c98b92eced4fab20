package org.sluice.conformance;

import java.nio.charset.StandardCharsets;
import java.util.zip.CRC32;

/**
 * The body every program sends and verifies, in Java and Go alike: one line of text
 * {@code sluice RUN KEY SEQUENCE CRC} and then padding up to the wanted size. CRC is the CRC-32, as eight hex digits,
 * of {@code RUN KEY SEQUENCE} followed by the padding, so that neither can change unnoticed.
 */
record Body(String run, int key, long sequence) {
    private static final String MARK = "sluice";

    String id() {
        return run + " " + key + " " + sequence;
    }

    byte[] encode(int size) {
        byte[] head = head(0);
        byte[] padding = padding(Math.max(0, size - head.length));
        byte[] body = new byte[head.length + padding.length];
        System.arraycopy(head(crc(padding, 0)), 0, body, 0, head.length);
        System.arraycopy(padding, 0, body, head.length, padding.length);
        return body;
    }

    /** @throws IllegalArgumentException when a single byte is not what the producer wrote */
    static Body decode(byte[] bytes) {
        int end = 0;
        while (end < bytes.length && bytes[end] != '\n') {
            end++;
        }
        String[] words = new String(bytes, 0, end, StandardCharsets.US_ASCII).split(" ");
        if (words.length != 5 || !words[0].equals(MARK)) {
            throw new IllegalArgumentException("not one of our bodies");
        }
        Body body = new Body(words[1], Integer.parseInt(words[2]), Long.parseLong(words[3]));
        if (Long.parseLong(words[4], 16) != body.crc(bytes, end + 1)) {
            throw new IllegalArgumentException("checksum of " + body.id());
        }
        return body;
    }

    private byte[] head(long crc) {
        return String.format("%s %s %08x\n", MARK, id(), crc).getBytes(StandardCharsets.US_ASCII);
    }

    private long crc(byte[] bytes, int from) {
        CRC32 crc = new CRC32();
        crc.update(id().getBytes(StandardCharsets.US_ASCII));
        crc.update(bytes, from, Math.max(0, bytes.length - from));
        return crc.getValue();
    }

    /** Letters from a linear congruential generator seeded by what the message is. */
    private byte[] padding(int size) {
        byte[] letters = new byte[size];
        long state = key * 1_000_003L + sequence;
        for (int i = 0; i < size; i++) {
            state = state * 6364136223846793005L + 1442695040888963407L;
            letters[i] = (byte) ('a' + (state >>> 33) % 26);
        }
        return letters;
    }
}
