package org.sluice.conformance;

import java.io.IOException;
import java.net.NetworkInterface;
import java.net.SocketException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;

/**
 * Writes frames to files, byte for byte: CODE-NAME[.variant].request.bin and, of the same exchange, .response.bin.
 * The first exchange of each name is kept. A variant is what the caller announced, what the frame itself shows, or the
 * answer's code when that is not 0.
 */
final class Recorder {
    private record Pending(String name, byte[] frame) {
    }

    private final Path folder;
    private final Map<Integer, String> codeNames;
    private final Map<String, Pending> pending = new HashMap<>();
    private final Map<Integer, String> announced = new HashMap<>();
    private final Set<String> written = new HashSet<>();
    private final List<String> ownAddresses = ownAddresses();

    Recorder(Path folder) throws Exception {
        this.folder = Files.createDirectories(folder);
        this.codeNames = Versions.requestCodes();
    }

    /** The next request with this code is of a special kind. */
    synchronized void announce(int code, String variant) {
        announced.put(code, variant);
    }

    synchronized int count() {
        return written.size();
    }

    synchronized boolean has(int code) {
        return written.stream().anyMatch(name -> name.startsWith(String.format("%03d-", code)));
    }

    /** @param wayBack the connection as the answer's frame will name it */
    synchronized void frame(String way, String wayBack, byte[] frame) throws IOException {
        RemotingCommand command;
        try {
            command = RemotingCommand.decode(ByteBuffer.wrap(frame, 4, frame.length - 4).slice());
        } catch (Exception e) {
            throw new IOException("frame not understood", e);
        }
        if (command.isResponseType()) {
            Pending request = pending.remove(way + "#" + command.getOpaque());
            if (request != null) {
                String name = request.name + (command.getCode() == 0 ? "" : ".code-" + command.getCode());
                write(name, request.frame, frame);
            }
            return;
        }
        String name = name(command);
        if (command.isOnewayRPC()) {
            write(name, frame, null);
        } else {
            pending.put(wayBack + "#" + command.getOpaque(), new Pending(name, frame));
        }
    }

    private String name(RemotingCommand request) {
        // The binary header keeps 16 bits of the code.
        String codeName = codeNames.entrySet().stream()
            .filter(entry -> (short) (int) entry.getKey() == (short) request.getCode())
            .map(Map.Entry::getValue).findFirst().orElse("UNKNOWN");
        String name = String.format("%03d-%s", request.getCode(), codeName);
        String variant = announced.remove(request.getCode());
        for (String word : new String[] {variant, kind(request), request.isOnewayRPC() ? "oneway" : null}) {
            name += word == null ? "" : "." + word;
        }
        return name;
    }

    /** Kinds that a look at the frame tells; background threads send these whenever they like. */
    private static String kind(RemotingCommand request) {
        Map<String, String> header = request.getExtFields() == null ? Map.of() : request.getExtFields();
        byte[] body = request.getBody() == null ? new byte[0] : request.getBody();
        String text = new String(body, StandardCharsets.ISO_8859_1);
        switch (request.getCode()) {
            case 11:
                return (Integer.parseInt(header.get("sysFlag")) & 16) != 0 ? "lite" : null;
            case 34:
                return text.contains("CONSUME_PASSIVELY") ? "push-consumer"
                    : text.contains("CONSUME_ACTIVELY") ? "pull-consumer"
                    : text.contains("CONSUME_POP") ? "pop-consumer" : null;
            case 37:
                String outcome = Map.of("8", "commit", "12", "rollback", "0", "unknown").get(header.get("commitOrRollback"));
                return "true".equals(header.get("fromTransactionCheck")) ? "checked-" + outcome : outcome;
            case 103:
                // Not by the header's word: 5.4.0 says false while it sends a zlib stream.
                return body.length > 0 && body[0] == 0x78 ? "compressed" : null;
            default:
                return null;
        }
    }

    private void write(String name, byte[] request, byte[] response) throws IOException {
        if (written.contains(name)) {
            return;
        }
        if (leaks(request) || response != null && leaks(response)) {
            System.err.println("left out, names this machine: " + name);
            return;
        }
        written.add(name);
        Files.write(folder.resolve(name + ".request.bin"), request);
        if (response != null) {
            Files.write(folder.resolve(name + ".response.bin"), response);
        }
    }

    private boolean leaks(byte[] frame) {
        String text = new String(frame, StandardCharsets.ISO_8859_1);
        return ownAddresses.stream().anyMatch(text::contains);
    }

    /** What must not end up in test data: this machine's addresses, as text and as in message ids. */
    private static List<String> ownAddresses() throws SocketException {
        List<String> found = new ArrayList<>();
        for (NetworkInterface card : Collections.list(NetworkInterface.getNetworkInterfaces())) {
            Collections.list(card.getInetAddresses()).stream().filter(a -> !a.isLoopbackAddress()).forEach(address -> {
                found.add(address.getHostAddress().replaceFirst("%.*", ""));
                StringBuilder hex = new StringBuilder();
                for (byte b : address.getAddress()) {
                    hex.append(String.format("%02X", b));
                }
                found.add(hex.toString());
            });
        }
        return found;
    }
}
