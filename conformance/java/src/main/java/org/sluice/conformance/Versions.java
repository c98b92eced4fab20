package org.sluice.conformance;

import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.Map;
import java.util.TreeMap;
import org.apache.rocketmq.client.producer.DefaultMQProducer;

/** The few names that differ between the 4.9 and the 5.x clients, reached by reflection so that one source fits both. */
final class Versions {
    private Versions() {
    }

    /** MessageModel lives in another package since 5.0. */
    static void setMessageModel(Object consumer, String model) {
        setEnum(consumer, "setMessageModel", model);
    }

    static void createTopic(DefaultMQProducer producer, String template, String topic, int queues) throws Exception {
        try {
            try {
                DefaultMQProducer.class.getMethod("createTopic", String.class, String.class, int.class)
                    .invoke(producer, template, topic, queues);
            } catch (NoSuchMethodException since5) {
                DefaultMQProducer.class.getMethod("createTopic", String.class, String.class, int.class, Map.class)
                    .invoke(producer, template, topic, queues, Map.of());
            }
        } catch (InvocationTargetException refused) {
            throw (Exception) refused.getCause();
        }
    }

    /** A setter that only 5.x has; 4.9 has nothing to switch. */
    static boolean setIfKnown(Object client, String setter, boolean value) throws Exception {
        try {
            client.getClass().getMethod(setter, boolean.class).invoke(client, value);
            return true;
        } catch (NoSuchMethodException only4) {
            return false;
        }
    }

    /** Request code -> its official name. */
    static Map<Integer, String> requestCodes() throws Exception {
        Class<?> names;
        try {
            names = Class.forName("org.apache.rocketmq.remoting.protocol.RequestCode");
        } catch (ClassNotFoundException only4) {
            names = Class.forName("org.apache.rocketmq.common.protocol.RequestCode");
        }
        Map<Integer, String> codes = new TreeMap<>();
        for (Field field : names.getFields()) {
            codes.put(field.getInt(null), field.getName());
        }
        return codes;
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    private static void setEnum(Object target, String setter, String value) {
        for (Method method : target.getClass().getMethods()) {
            if (method.getName().equals(setter)) {
                try {
                    method.invoke(target, Enum.valueOf((Class<Enum>) method.getParameterTypes()[0], value));
                    return;
                } catch (ReflectiveOperationException e) {
                    throw new IllegalStateException(e);
                }
            }
        }
        throw new IllegalStateException("no " + setter);
    }
}
