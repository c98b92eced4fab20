package org.sluice.conformance;

import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.StringJoiner;

/** What a program found: one JSON object, and the reasons why the promise did not hold, if any. */
final class Report {
    private final Map<String, Object> fields = new LinkedHashMap<>();
    private final List<String> broken = new ArrayList<>();

    synchronized Report put(String name, Object value) {
        fields.put(name, value);
        return this;
    }

    synchronized void check(boolean held, String otherwise) {
        if (!held) {
            broken.add(otherwise);
        }
    }

    void checkEqual(Object expected, Object found, String what) {
        check(String.valueOf(expected).equals(String.valueOf(found)), what + ": expected " + expected + ", found " + found);
    }

    synchronized List<String> broken() {
        return new ArrayList<>(broken);
    }

    synchronized String json() {
        return json(fields);
    }

    private static String json(Object value) {
        if (value instanceof Map<?, ?> map) {
            StringJoiner members = new StringJoiner(",", "{", "}");
            map.forEach((name, member) -> members.add(quote(name.toString()) + ":" + json(member)));
            return members.toString();
        }
        if (value instanceof Collection<?> list) {
            StringJoiner elements = new StringJoiner(",", "[", "]");
            list.forEach(element -> elements.add(json(element)));
            return elements.toString();
        }
        if (value == null || value instanceof Number || value instanceof Boolean) {
            return String.valueOf(value);
        }
        return quote(value.toString());
    }

    private static String quote(String text) {
        StringBuilder quoted = new StringBuilder("\"");
        for (char c : text.toCharArray()) {
            if (c == '"' || c == '\\') {
                quoted.append('\\').append(c);
            } else if (c < ' ') {
                quoted.append(String.format("\\u%04x", (int) c));
            } else {
                quoted.append(c);
            }
        }
        return quoted.append('"').toString();
    }
}
