import com.rabbitmq.client.AMQP;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.MessageProperties;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

/** Moves messages with the Java client, each confirmed and acknowledged, and checks that they come in order and once: PORT COUNT. */
public class Move {
  public static void main(String[] arguments) throws Exception {
    ConnectionFactory factory = new ConnectionFactory();
    factory.setPort(Integer.parseInt(arguments[0]));
    int count = Integer.parseInt(arguments[1]);
    try (Connection connection = factory.newConnection("move")) {
      Channel consumer = connection.createChannel();
      consumer.exchangeDeclare("java.topic", "topic", true);
      consumer.queueDeclare("java", true, false, false, Map.of("x-max-priority", 5));
      consumer.queueBind("java", "java.topic", "numbers.#");
      consumer.basicQos(100);
      CompletableFuture<String> end = new CompletableFuture<>();
      int[] next = {0};
      consumer.basicConsume(
          "java",
          false,
          (tag, delivery) -> {
            String body = new String(delivery.getBody());
            if (!body.equals(Integer.toString(next[0]))) {
              end.complete(body + " came instead of " + next[0]);
            }
            consumer.basicAck(delivery.getEnvelope().getDeliveryTag(), false);
            if (++next[0] == count) {
              end.complete("");
            }
          },
          tag -> end.complete("cancelled"));
      Channel producer = connection.createChannel();
      producer.confirmSelect();
      AMQP.BasicProperties persistent = MessageProperties.PERSISTENT_TEXT_PLAIN;
      for (int number = 0; number < count; number++) {
        producer.basicPublish("java.topic", "numbers." + number, true, persistent, Integer.toString(number).getBytes());
      }
      producer.waitForConfirmsOrDie(60_000);
      String problem = end.get(60, TimeUnit.SECONDS);
      if (!problem.isEmpty()) {
        throw new IllegalStateException(problem);
      }
    }
    System.out.println("moved " + count);
  }
}
