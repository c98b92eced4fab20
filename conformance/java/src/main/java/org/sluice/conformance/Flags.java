package org.sluice.conformance;

import java.util.HashMap;
import java.util.Map;
import java.util.Set;

/** The short flags of the official benchmark tools: -w 64 -y true -n host:port. A switch may go without "true". */
final class Flags {
    private final Map<String, String> values = new HashMap<>();

    Flags(String[] words, Set<String> known) {
        for (int i = 0; i < words.length; i++) {
            String name = words[i].replaceFirst("^--?", "");
            if (!words[i].startsWith("-") || !known.contains(name)) {
                throw new IllegalArgumentException("unknown flag " + words[i] + ", known are " + known);
            }
            boolean alone = i + 1 == words.length || words[i + 1].startsWith("-");
            values.put(name, alone ? "true" : words[++i]);
        }
    }

    String get(String name, String otherwise) {
        return values.getOrDefault(name, otherwise);
    }

    int get(String name, int otherwise) {
        return Integer.parseInt(get(name, String.valueOf(otherwise)));
    }

    boolean has(String name) {
        return Boolean.parseBoolean(get(name, "false"));
    }
}
