package org.sluice.conformance;

import java.io.Closeable;
import java.io.FileWriter;
import java.io.IOException;
import java.io.PrintWriter;
import java.util.BitSet;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.common.message.MessageExt;

/** Counts what a consumer was given, and notices every message that is damaged, foreign, repeated or out of order. */
final class Tally implements Closeable {
    private final String run;
    private final PrintWriter seenFile;
    private final Map<String, BitSet> seen = new HashMap<>();
    private final Map<String, BitSet> places = new HashMap<>();
    private final Map<String, Long> lastOfKey = new HashMap<>();
    private final Map<String, Long> lastOfQueue = new HashMap<>();
    private long received;
    private long distinct;
    private long duplicates;
    private long again;
    private long corrupt;
    private long foreign;
    private long outOfOrder;
    private long lastArrival = System.nanoTime();

    /**
     * @param run the producer's run id; null takes any
     * @param seenFile one line per distinct message: key,sequence,queue,queueOffset,msgId; null for none
     */
    Tally(String run, String seenFile) throws IOException {
        this.run = run;
        this.seenFile = seenFile == null ? null : new PrintWriter(new FileWriter(seenFile), true);
    }

    static Tally from(Args args) throws IOException {
        return new Tally(args.get("run", null), args.get("seen-file", null));
    }

    /** One batch as handed over by the client: inside it, offsets of a queue must grow. */
    synchronized void batch(List<MessageExt> messages) {
        long last = -1;
        for (MessageExt message : messages) {
            if (message.getQueueOffset() <= last) {
                complain("offset " + message.getQueueOffset() + " after " + last + " in one batch");
            }
            last = message.getQueueOffset();
            message(message, false);
        }
    }

    /** In the order of delivery: every queue must go forward, and every ordering key that was sent to one queue. */
    synchronized void ordered(List<MessageExt> messages) {
        messages.forEach(message -> message(message, true));
    }

    private void message(MessageExt message, boolean ordered) {
        received++;
        lastArrival = System.nanoTime();
        Body body;
        try {
            body = Body.decode(message.getBody());
        } catch (IllegalArgumentException damaged) {
            corrupt++;
            System.err.println("corrupt: " + damaged.getMessage() + " in " + message);
            return;
        }
        if (run != null && !run.equals(body.run())) {
            foreign++;
            System.err.println("foreign: " + body.id() + ", expected run " + run);
            return;
        }
        BitSet ofQueue = places.computeIfAbsent(queue(message), q -> new BitSet());
        if (ofQueue.get((int) message.getQueueOffset())) {
            again++; // the broker's doing, where other duplicates are the producer's, who sent a second time
        }
        ofQueue.set((int) message.getQueueOffset());
        String key = body.run() + " " + body.key();
        BitSet ofKey = seen.computeIfAbsent(key, k -> new BitSet());
        if (ofKey.get((int) body.sequence())) {
            duplicates++; // may come again at any time: delivery is at least once
            return;
        }
        ofKey.set((int) body.sequence());
        distinct++;
        if (ordered) {
            if (message.getUserProperty(Produce.ORDERED) != null) {
                forward(lastOfKey, key, body.sequence());
            }
            forward(lastOfQueue, queue(message), message.getQueueOffset());
        }
        if (seenFile != null) {
            seenFile.println(body.key() + "," + body.sequence() + "," + message.getQueueId() + ","
                + message.getQueueOffset() + "," + message.getMsgId());
        }
    }

    private static String queue(MessageExt message) {
        return message.getTopic() + "/" + message.getBrokerName() + "/" + message.getQueueId();
    }

    private void forward(Map<String, Long> last, String of, long position) {
        Long before = last.merge(of, position, Math::max);
        if (before > position) {
            complain("of " + of + ": " + position + " after " + before);
        }
    }

    private void complain(String what) {
        outOfOrder++;
        System.err.println("out of order " + what);
    }

    synchronized long distinct() {
        return distinct;
    }

    synchronized long received() {
        return received;
    }

    synchronized double idleSeconds() {
        return (System.nanoTime() - lastArrival) / 1e9;
    }

    /** Waits until {@code expected} different messages came and then nothing more for {@code idle} seconds. */
    void await(long expected, int idle) {
        while (distinct() < expected || idleSeconds() < idle) {
            Program.pause(20);
        }
    }

    synchronized void report(Report report, long expected) {
        report.put("received", received).put("distinct", distinct).put("duplicates", duplicates).put("again", again)
            .put("corrupt", corrupt).put("foreign", foreign).put("out_of_order", outOfOrder);
        report.checkEqual(expected, distinct, "distinct messages");
        report.checkEqual(0, corrupt, "corrupt messages");
        report.checkEqual(0, foreign, "foreign messages");
        report.checkEqual(0, outOfOrder, "messages out of order");
    }

    @Override
    public void close() {
        if (seenFile != null) {
            seenFile.close();
        }
    }
}
