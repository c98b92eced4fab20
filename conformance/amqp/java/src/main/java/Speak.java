import com.rabbitmq.client.AMQP;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.DefaultConsumer;
import com.rabbitmq.client.Envelope;
import java.math.BigDecimal;
import java.util.Arrays;
import java.util.Date;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.CountDownLatch;

/** Says with the Java client what there is to say: PORT. */
public class Speak {
  public static void main(String[] arguments) throws Exception {
    ConnectionFactory factory = new ConnectionFactory();
    factory.setPort(Integer.parseInt(arguments[0]));
    factory.setRequestedHeartbeat(1);
    factory.setRequestedFrameMax(8192);
    factory.setAutomaticRecoveryEnabled(false);
    try (Connection connection = factory.newConnection("java says all")) {
      Channel channel = connection.createChannel();
      String[] kinds = {"direct", "fanout", "topic", "headers"};
      for (String kind : kinds) {
        channel.exchangeDeclare("j." + kind, kind, true, false, Map.of("alternate-exchange", "amq.fanout"));
      }
      channel.exchangeDeclarePassive("j.direct");
      channel.exchangeBind("j.topic", "j.direct", "a.#");
      channel.exchangeUnbind("j.topic", "j.direct", "a.#");
      channel.queueDeclare("j", true, false, false, Map.of("x-message-ttl", 60000, "x-max-length-bytes", 10_000_000L));
      channel.queueBind("j", "j.topic", "a.*");
      channel.queueUnbind("j", "j.topic", "a.*");
      channel.queueBind("j", "j.topic", "a.*", Map.of("x", "y"));
      channel.basicQos(10, false);
      channel.confirmSelect();
      Map<String, Object> headers = new HashMap<>();
      headers.put("bool", true);
      headers.put("byte", (byte) -2);
      headers.put("short", (short) -2);
      headers.put("int", -2);
      headers.put("long", -2L);
      headers.put("float", 1.5f);
      headers.put("double", 1.5);
      headers.put("decimal", new BigDecimal("3.14"));
      headers.put("text", "grüße");
      headers.put("bytes", new byte[] {0, -1});
      headers.put("time", new Date(1_700_000_000_000L));
      headers.put("list", Arrays.asList(1, "two", null));
      headers.put("table", Map.of("inside", Map.of("deep", true)));
      headers.put("nothing", null);
      AMQP.BasicProperties properties =
          new AMQP.BasicProperties.Builder()
              .contentType("text/plain")
              .contentEncoding("utf-8")
              .headers(headers)
              .deliveryMode(2)
              .priority(3)
              .correlationId("c")
              .replyTo("r")
              .expiration("60000")
              .messageId("m")
              .timestamp(new Date(1_700_000_000_000L))
              .type("t")
              .userId("guest")
              .appId("a")
              .build();
      channel.basicPublish("j.topic", "a.b", properties, new byte[20_000]);
      channel.basicPublish("", "j", null, new byte[0]);
      channel.basicPublish("", "nowhere", true, null, "comes back".getBytes());
      channel.waitForConfirmsOrDie(10_000);
      channel.basicNack(channel.basicGet("j", false).getEnvelope().getDeliveryTag(), false, true);
      CountDownLatch done = new CountDownLatch(3);
      DefaultConsumer consumer =
          new DefaultConsumer(channel) {
            @Override
            public void handleDelivery(
                String tag, Envelope envelope, AMQP.BasicProperties ignored, byte[] body) throws java.io.IOException {
              if (done.getCount() == 3) {
                channel.basicReject(envelope.getDeliveryTag(), true);
              } else if (done.getCount() == 1) {
                channel.basicAck(envelope.getDeliveryTag(), true);
              }
              done.countDown();
            }
          };
      String tag = channel.basicConsume("j", false, consumer);
      done.await();
      channel.basicCancel(tag);
      channel.basicRecover(true);
      channel.basicGet("j", true);
      Channel transacted = connection.createChannel();
      transacted.txSelect();
      transacted.basicPublish("", "j", null, "t".getBytes());
      transacted.txCommit();
      transacted.txRollback();
      transacted.close();
      Thread.sleep(1500);
      channel.queuePurge("j");
      channel.queueDelete("j");
      for (String kind : kinds) {
        channel.exchangeDelete("j." + kind);
      }
    }
  }
}
