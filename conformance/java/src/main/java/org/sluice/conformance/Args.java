package org.sluice.conformance;

import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;

/** Flags of the form {@code --name value}, or {@code --name} alone for a switch. */
final class Args {
    /** Known to every program, whenever it reads them. */
    private static final Set<String> COMMON = Set.of("namesrv", "limit-seconds", "producer-group");

    private final Map<String, String> values = new HashMap<>();
    private final Set<String> unread = new HashSet<>();

    Args(String[] words) {
        for (int i = 0; i < words.length; i++) {
            if (!words[i].startsWith("--")) {
                throw new IllegalArgumentException("expected a --flag, found " + words[i]);
            }
            boolean alone = i + 1 == words.length || words[i + 1].startsWith("--");
            String name = words[i].substring(2);
            values.put(name, alone ? "true" : words[++i]);
            unread.add(name);
        }
        unread.removeAll(COMMON);
    }

    String get(String name) {
        String value = get(name, null);
        if (value == null) {
            throw new IllegalArgumentException("missing --" + name);
        }
        return value;
    }

    String get(String name, String otherwise) {
        unread.remove(name);
        return values.getOrDefault(name, otherwise);
    }

    int get(String name, int otherwise) {
        return Integer.parseInt(get(name, String.valueOf(otherwise)));
    }

    boolean has(String name) {
        return Boolean.parseBoolean(get(name, "false"));
    }

    /** A misspelt flag must not silently weaken a check. */
    void refuseUnread() {
        if (!unread.isEmpty()) {
            throw new IllegalArgumentException("unknown flags " + unread);
        }
    }
}
