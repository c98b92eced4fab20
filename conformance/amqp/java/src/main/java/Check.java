import com.rabbitmq.client.AMQP;
import com.rabbitmq.client.AlreadyClosedException;
import com.rabbitmq.client.AuthenticationFailureException;
import com.rabbitmq.client.BuiltinExchangeType;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.DefaultSaslConfig;
import com.rabbitmq.client.Delivery;
import com.rabbitmq.client.GetResponse;
import com.rabbitmq.client.MessageProperties;
import com.rabbitmq.client.Recoverable;
import com.rabbitmq.client.RecoveryListener;
import com.rabbitmq.client.RpcClient;
import com.rabbitmq.client.RpcClientParams;
import com.rabbitmq.client.ShutdownSignalException;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyFactory;
import java.security.KeyStore;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.security.spec.PKCS8EncodedKeySpec;
import java.time.Instant;
import java.util.Base64;
import java.util.Date;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;

/**
 * Checks with the Java client what RabbitMQ's users count on: PORT TLS_PORT FOLDER COUNT, of which the third has certificates, and the last
 * is how many messages it moves. Says which promise does not hold, and ends with 1 then. Before the last it says `restart`, and waits for a
 * line, before which the broker is killed and started again.
 */
public class Check {
  private static final long PATIENCE_MS = 15_000;
  private static int port;
  private static int tlsPort;
  private static Path certificates;

  private interface Act<T> {
    T on(Channel channel) throws Exception;
  }

  private interface Promise {
    void check(Connection connection, Channel channel) throws Exception;
  }

  public static void main(String[] arguments) throws Exception {
    port = Integer.parseInt(arguments[0]);
    tlsPort = Integer.parseInt(arguments[1]);
    certificates = Path.of(arguments[2]);
    try {
      keeps("messages in order, once", (connection, channel) -> Move.main(new String[] {arguments[0], arguments[3]}));
      keeps("prefetch of consumers and channels", Check::prefetch);
      keeps("settled at once and recovered", Check::settledAndRecovered);
      keeps("returned, refused and confirmed", Check::returnedAndRefused);
      keeps("exchanges of every kind", Check::exchanges);
      keeps("dead letters tell their way", Check::deadLetters);
      keeps("queues as their arguments say", Check::queueArguments);
      keeps("queues that go", Check::queuesThatGo);
      keeps("direct replies", Check::directReplies);
      keeps("transactions are whole", Check::transactions);
      keeps("streams by offset", Check::streams);
      keeps("who may connect", Check::whoMayConnect);
      keeps("recovery after a kill", Check::recovery);
    } catch (Throwable error) {
      error.printStackTrace();
      System.exit(1);
    }
    System.exit(0);
  }

  private static void keeps(String name, Promise promise) throws Exception {
    try (Connection connection = factory().newConnection()) {
      Channel channel = connection.createChannel();
      channel.confirmSelect();
      promise.check(connection, channel);
    }
    System.out.println(name + ": holds");
  }

  private static ConnectionFactory factory() {
    ConnectionFactory factory = new ConnectionFactory();
    factory.setPort(port);
    factory.setNetworkRecoveryInterval(100);
    return factory;
  }

  private static void check(boolean isSo, Object what) {
    if (!isSo) {
      throw new IllegalStateException(String.valueOf(what));
    }
  }

  private interface Condition {
    boolean holds() throws Exception;
  }

  private static void eventually(String what, Condition condition) throws Exception {
    long end = System.currentTimeMillis() + PATIENCE_MS;
    while (!condition.holds()) {
      check(System.currentTimeMillis() < end, "not in time: " + what);
      Thread.sleep(20);
    }
  }

  private static void declare(Channel channel, String queue, Map<String, Object> arguments) throws IOException {
    channel.queueDeclare(queue, true, false, false, arguments);
  }

  private static boolean publish(Channel channel, String exchange, String key, String body, AMQP.BasicProperties properties)
      throws Exception {
    channel.basicPublish(exchange, key, properties, body.getBytes());
    return channel.waitForConfirms(PATIENCE_MS);
  }

  private static boolean publish(Channel channel, String queue, String body) throws Exception {
    return publish(channel, "", queue, body, MessageProperties.MINIMAL_PERSISTENT_BASIC);
  }

  private static AMQP.BasicProperties.Builder properties() {
    return new AMQP.BasicProperties.Builder();
  }

  /** What a consumer was given and has not looked at. */
  private static final class Given {
    private final Channel channel;
    private final BlockingQueue<Delivery> deliveries = new LinkedBlockingQueue<>();
    private final CompletableFuture<String> cancelled = new CompletableFuture<>();
    private final String tag;

    Given(Channel channel, String queue, Map<String, Object> arguments) throws IOException {
      this.channel = channel;
      tag = channel.basicConsume(queue, false, arguments, (tag, delivery) -> deliveries.add(delivery), cancelled::complete);
    }

    Given(Channel channel, String queue) throws IOException {
      this(channel, queue, Map.of());
    }

    Delivery next() throws InterruptedException {
      Delivery next = deliveries.poll(PATIENCE_MS, TimeUnit.MILLISECONDS);
      check(next != null, "nothing came in time");
      return next;
    }

    /** The bodies of the next ones, of which each that was redelivered has a `!`. */
    String next(int count) throws InterruptedException {
      StringBuilder bodies = new StringBuilder();
      for (int number = 0; number < count; number++) {
        Delivery next = next();
        bodies.append(new String(next.getBody())).append(next.getEnvelope().isRedeliver() ? "!" : "");
      }
      return bodies.toString();
    }

    void comesNothing() throws InterruptedException {
      Delivery next = deliveries.poll(100, TimeUnit.MILLISECONDS);
      check(next == null, "something comes too");
    }
  }

  private static long tag(Delivery delivery) {
    return delivery.getEnvelope().getDeliveryTag();
  }

  /** Fails unless the broker closes another channel for that with that code. */
  private static void refused(Connection connection, int code, Act<?> act) throws Exception {
    Channel channel = connection.createChannel();
    CompletableFuture<ShutdownSignalException> closed = new CompletableFuture<>();
    channel.addShutdownListener(closed::complete);
    try {
      act.on(channel);
    } catch (IOException | AlreadyClosedException expected) {
      // It says why below.
    }
    var why = (AMQP.Channel.Close) closed.get(PATIENCE_MS, TimeUnit.MILLISECONDS).getReason();
    check(why.getReplyCode() == code, why);
  }

  private static void prefetch(Connection connection, Channel channel) throws Exception {
    declare(channel, "fetched", null);
    for (String body : "0123456789".split("")) {
      publish(channel, "fetched", body);
    }
    channel.basicQos(3);
    Given given = new Given(channel, "fetched");
    check(given.next(2).equals("01"), "in order");
    Delivery third = given.next();
    given.comesNothing();
    channel.basicAck(tag(third), true);
    check(given.next(3).equals("345"), "as many as were acknowledged");
    Channel shared = connection.createChannel();
    shared.basicQos(3, true);
    Given one = new Given(shared, "fetched");
    Given two = new Given(shared, "fetched");
    eventually("three for both", () -> one.deliveries.size() + two.deliveries.size() == 3);
    Thread.sleep(100);
    check(one.deliveries.size() + two.deliveries.size() == 3, "no more than three for both");
    shared.close();
    eventually("they come back", () -> channel.messageCount("fetched") == 4);
  }

  private static void settledAndRecovered(Connection connection, Channel channel) throws Exception {
    declare(channel, "settled", null);
    for (String body : "012345".split("")) {
      publish(channel, "settled", body);
    }
    Channel other = connection.createChannel();
    Given given = new Given(other, "settled");
    given.next(6);
    other.basicAck(2, true);
    other.basicNack(3, false, false);
    other.basicReject(4, false);
    other.basicCancel(given.tag);
    other.basicNack(6, true, true);
    Given again = new Given(other, "settled");
    check(again.next(2).equals("4!5!"), "given back");
    other.basicRecover(true);
    check(again.next(2).equals("4!5!"), "recovered");
    other.close();
    eventually("they come back", () -> channel.messageCount("settled") == 2);
    check(channel.queuePurge("settled").getMessageCount() == 2, "purged");
    refused(connection, 406, refusing -> {
      refusing.basicAck(7, false);
      return null;
    });
  }

  private static void returnedAndRefused(Connection connection, Channel channel) throws Exception {
    CompletableFuture<com.rabbitmq.client.Return> returned = new CompletableFuture<>();
    channel.addReturnListener(returned::complete);
    channel.basicPublish("amq.direct", "nobody", true, properties().messageId("m").build(), "lost".getBytes());
    check(channel.waitForConfirms(PATIENCE_MS), "it is confirmed");
    var back = returned.get(PATIENCE_MS, TimeUnit.MILLISECONDS);
    check(back.getReplyCode() == 312 && back.getProperties().getMessageId().equals("m"), back.getReplyText());
    declare(channel, "small", Map.of("x-max-length", 1, "x-overflow", "reject-publish"));
    check(publish(channel, "small", "fits") && !publish(channel, "small", "does not"), "a full queue refuses");
    refused(connection, 404, refusing -> {
      refusing.basicPublish("missing", "", null, new byte[0]);
      return null;
    });
  }

  private static void exchanges(Connection connection, Channel channel) throws Exception {
    channel.exchangeDeclare("lost", BuiltinExchangeType.FANOUT, false, true, true, null);
    channel.exchangeDeclare("in", "topic", false, false, Map.of("alternate-exchange", "lost"));
    channel.exchangeDeclare("by-headers", BuiltinExchangeType.HEADERS);
    for (String queue : List.of("odd", "even", "rest")) {
      declare(channel, queue, null);
    }
    channel.queueBind("odd", "in", "*.odd");
    channel.exchangeBind("by-headers", "in", "headers.#");
    channel.queueBind("even", "by-headers", "", Map.of("x-match", "all", "kind", "even", "size", 2));
    channel.queueBind("rest", "lost", "");
    publish(channel, "in", "number.odd", "1", null);
    publish(channel, "in", "headers", "2", properties().headers(Map.of("kind", "even", "size", 2L)).build());
    publish(channel, "in", "headers", "0", properties().headers(Map.of("kind", "even")).build());
    publish(channel, "in", "elsewhere", "3", null);
    channel.exchangeUnbind("by-headers", "in", "headers.#");
    publish(channel, "in", "headers", "4", null);
    Map<String, Object> copies = Map.of("CC", List.of("even"), "BCC", List.of("rest"));
    publish(channel, "", "odd", "5", properties().headers(copies).build());
    for (var expected : Map.of("odd", "15", "even", "25", "rest", "345").entrySet()) {
      String came = new Given(channel, expected.getKey()).next(expected.getValue().length());
      check(came.equals(expected.getValue()), expected + ": " + came);
    }
    refused(connection, 403, refusing -> {
      refusing.basicPublish("lost", "", null, new byte[0]);
      return null;
    });
    channel.queueUnbind("rest", "lost", "");
    refused(connection, 404, refusing -> refusing.exchangeDeclarePassive("lost"));
    refused(connection, 406, refusing -> refusing.exchangeDeclare("in", "fanout"));
  }

  private static void checkDeath(Given dead, String body, String reason) throws Exception {
    Delivery delivery = dead.next();
    Map<String, Object> headers = delivery.getProperties().getHeaders();
    var death = (Map<?, ?>) ((List<?>) headers.get("x-death")).get(0);
    check(new String(delivery.getBody()).equals(body) && death.get("reason").toString().equals(reason), death);
    check((long) death.get("count") == 1 && headers.get("x-first-death-reason").toString().equals(reason), headers);
  }

  private static void deadLetters(Connection connection, Channel channel) throws Exception {
    declare(channel, "dead", null);
    Map<String, Object> toDead = Map.of("x-dead-letter-exchange", "", "x-dead-letter-routing-key", "dead");
    declare(channel, "mortal", with(toDead, Map.of("x-queue-type", "quorum", "x-delivery-limit", 1)));
    declare(channel, "timed", with(toDead, Map.of("x-message-ttl", 50)));
    declare(channel, "cut", with(toDead, Map.of("x-max-length", 1)));
    Given dead = new Given(channel, "dead");
    Given mortal = new Given(channel, "mortal");
    publish(channel, "mortal", "rejected");
    channel.basicReject(tag(mortal.next()), false);
    checkDeath(dead, "rejected", "rejected");
    publish(channel, "mortal", "limited");
    for (int count = 0; count < 2; count++) {
      Delivery delivery = mortal.next();
      check(delivery.getEnvelope().isRedeliver() == (count > 0), "redelivered");
      channel.basicNack(tag(delivery), false, true);
    }
    checkDeath(dead, "limited", "delivery_limit");
    publish(channel, "timed", "1");
    checkDeath(dead, "1", "expired");
    publish(channel, "cut", "2");
    publish(channel, "cut", "3");
    checkDeath(dead, "2", "maxlen");
    publish(channel, "", "dead", "late", properties().expiration("0").build());
    check(dead.next(1).equals("late"), "who waits has it in time");
  }

  private static Map<String, Object> with(Map<String, Object> some, Map<String, Object> others) {
    Map<String, Object> both = new java.util.HashMap<>(some);
    both.putAll(others);
    return both;
  }

  private static void queueArguments(Connection connection, Channel channel) throws Exception {
    declare(channel, "ranked", Map.of("x-max-priority", 5));
    for (int priority : new int[] {0, 3, 9, 1}) {
      publish(channel, "", "ranked", "" + priority, properties().priority(priority).build());
    }
    String came = new Given(channel, "ranked").next(4);
    check(came.equals("9310"), came);
    declare(channel, "single", Map.of("x-single-active-consumer", true));
    Channel active = connection.createChannel();
    Given first = new Given(active, "single");
    Given second = new Given(channel, "single");
    publish(channel, "single", "a");
    check(first.next(1).equals("a"), "the first is active");
    second.comesNothing();
    active.close();
    check(second.next(1).equals("a!"), "the next follows");
    declare(channel, "preferred", null);
    Given low = new Given(channel, "preferred");
    Given high = new Given(channel, "preferred", Map.of("x-priority", 10));
    publish(channel, "preferred", "1");
    publish(channel, "preferred", "2");
    check(high.next(2).equals("12"), "the preferred one has them");
    low.comesNothing();
    declare(channel, "passing", Map.of("x-expires", 100));
    Thread.sleep(400);
    refused(connection, 404, refusing -> refusing.queueDeclarePassive("passing"));
    refused(connection, 406, refusing -> refusing.queueDeclare("ranked", true, false, false, Map.of("x-max-priority", 4)));
  }

  private static void queuesThatGo(Connection connection, Channel channel) throws Exception {
    String own;
    try (Connection owner = factory().newConnection()) {
      own = owner.createChannel().queueDeclare().getQueue();
      check(own.startsWith("amq.gen-"), own);
      refused(connection, 405, refusing -> refusing.queueDeclarePassive(own));
    }
    refused(connection, 404, refusing -> refusing.queueDeclarePassive(own));
    channel.queueDeclare("last-one-out", false, false, true, null);
    channel.basicCancel(new Given(channel, "last-one-out").tag);
    refused(connection, 404, refusing -> refusing.queueDeclarePassive("last-one-out"));
    declare(channel, "removed", null);
    Given given = new Given(channel, "removed");
    refused(connection, 403, refusing -> refusing.basicConsume("removed", false, "", false, true, null, (tag, it) -> {}, tag -> {}));
    refused(connection, 406, refusing -> refusing.queueDelete("removed", true, false));
    connection.createChannel().queueDelete("removed");
    check(given.cancelled.get(PATIENCE_MS, TimeUnit.MILLISECONDS).equals(given.tag), "it hears that the queue is gone");
  }

  private static void directReplies(Connection connection, Channel channel) throws Exception {
    declare(channel, "questions", null);
    channel.basicConsume("questions", true, (tag, question) -> {
      AMQP.BasicProperties asked = question.getProperties();
      byte[] answer = (new String(question.getBody()) + "!").getBytes();
      channel.basicPublish("", asked.getReplyTo(), properties().correlationId(asked.getCorrelationId()).build(), answer);
    }, tag -> {});
    RpcClient caller = new RpcClient(new RpcClientParams().channel(connection.createChannel()).exchange("").routingKey("questions"));
    for (int number = 0; number < 10; number++) {
      String answer = caller.stringCall("how" + number);
      check(answer.equals("how" + number + "!"), answer);
    }
    caller.close();
  }

  private static void transactions(Connection connection, Channel channel) throws Exception {
    declare(channel, "together", null);
    Channel other = connection.createChannel();
    other.txSelect();
    other.basicPublish("", "together", null, "1".getBytes());
    other.txRollback();
    other.basicPublish("", "together", null, "2".getBytes());
    check(channel.messageCount("together") == 0, "nothing before the commit");
    other.txCommit();
    check(channel.messageCount("together") == 1, "all with the commit");
    GetResponse got = other.basicGet("together", false);
    other.basicAck(got.getEnvelope().getDeliveryTag(), false);
    other.txRollback();
    other.close();
    eventually("its acknowledgement was taken back", () -> channel.messageCount("together") == 1);
    refused(connection, 406, refusing -> {
      refusing.txSelect();
      return refusing.confirmSelect();
    });
  }

  private static void streams(Connection connection, Channel channel) throws Exception {
    declare(channel, "flow", Map.of("x-queue-type", "stream"));
    for (String body : "01234".split("")) {
      publish(channel, "flow", body);
    }
    Map<Object, String> offsets =
        Map.of("first", "01234", 3L, "34", "last", "4", Date.from(Instant.now().minusSeconds(3600)), "01234", "1h", "01234");
    for (var offset : offsets.entrySet()) {
      Channel reader = connection.createChannel();
      reader.basicQos(10);
      Given given = new Given(reader, "flow", Map.of("x-stream-offset", offset.getKey()));
      int count = offset.getValue().length();
      Delivery first = given.next();
      check(first.getProperties().getHeaders().get("x-stream-offset").equals(5L - count), first.getProperties());
      String rest = given.next(count - 1);
      check((new String(first.getBody()) + rest).equals(offset.getValue()), offset);
      reader.close();
    }
    refused(connection, 406, refusing -> refusing.basicConsume("flow", (tag, it) -> {}, tag -> {}));
  }

  private static void whoMayConnect(Connection connection, Channel channel) throws Exception {
    ConnectionFactory wrong = factory();
    wrong.setPassword("wrong");
    fails(AuthenticationFailureException.class, wrong);
    ConnectionFactory elsewhere = factory();
    elsewhere.setVirtualHost("missing");
    fails(IOException.class, elsewhere);
    ConnectionFactory narrow = factory();
    narrow.setRequestedChannelMax(1);
    narrow.setRequestedFrameMax(4096);
    try (Connection of = narrow.newConnection()) {
      check(of.getChannelMax() == 1 && of.getFrameMax() == 4096, of.getFrameMax());
      check(of.createChannel() != null && of.createChannel() == null, "one channel");
    }
    ConnectionFactory secure = factory();
    secure.setPort(tlsPort);
    secure.setSaslConfig(DefaultSaslConfig.EXTERNAL);
    secure.useSslProtocol(tls());
    try (Connection of = secure.newConnection()) {
      Channel certain = of.createChannel();
      certain.confirmSelect();
      String queue = certain.queueDeclare().getQueue();
      check(publish(certain, "", queue, "m", properties().userId("guest").build()), "as guest");
      check(certain.basicGet(queue, true) != null, "it came");
    }
  }

  private static void fails(Class<? extends Exception> expected, ConnectionFactory factory) throws Exception {
    try {
      factory.newConnection().close();
    } catch (Exception error) {
      check(expected.isInstance(error), error);
      return;
    }
    check(false, "it was let in");
  }

  private static SSLContext tls() throws Exception {
    KeyStore own = KeyStore.getInstance("PKCS12");
    own.load(null, null);
    String pem = Files.readString(certificates.resolve("guest.key")).replaceAll("-----.*-----|\\s", "");
    var key = new PKCS8EncodedKeySpec(Base64.getDecoder().decode(pem));
    own.setKeyEntry("own", KeyFactory.getInstance("EC").generatePrivate(key), new char[0], new Certificate[] {certificate("guest.pem")});
    KeyManagerFactory keys = KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
    keys.init(own, new char[0]);
    KeyStore authorities = KeyStore.getInstance("PKCS12");
    authorities.load(null, null);
    authorities.setCertificateEntry("authority", certificate("ca.pem"));
    TrustManagerFactory trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
    trust.init(authorities);
    SSLContext context = SSLContext.getInstance("TLS");
    context.init(keys.getKeyManagers(), trust.getTrustManagers(), null);
    return context;
  }

  private static Certificate certificate(String file) throws Exception {
    try (InputStream from = Files.newInputStream(certificates.resolve(file))) {
      return CertificateFactory.getInstance("X.509").generateCertificate(from);
    }
  }

  /** Who lets the client recover finds its exchanges, queues, bindings and consumers again, also those that went with the broker. */
  private static void recovery(Connection connection, Channel channel) throws Exception {
    channel.exchangeDeclare("passing-exchange", "topic", false);
    String own = channel.queueDeclare().getQueue();
    channel.queueBind(own, "passing-exchange", "to.own");
    declare(channel, "lasting", null);
    publish(channel, "lasting", "held");
    publish(channel, "lasting", "kept");
    channel.basicQos(1);
    Given lasting = new Given(channel, "lasting");
    Given ofOwn = new Given(channel, own);
    check(lasting.next(1).equals("held"), "it has it");
    CompletableFuture<Boolean> recovered = new CompletableFuture<>();
    ((Recoverable) connection).addRecoveryListener(new RecoveryListener() {
      @Override
      public void handleRecovery(Recoverable recoverable) {
        recovered.complete(true);
      }

      @Override
      public void handleRecoveryStarted(Recoverable recoverable) {}
    });
    System.out.println("restart");
    new BufferedReader(new InputStreamReader(System.in)).readLine();
    recovered.get(PATIENCE_MS, TimeUnit.MILLISECONDS);
    for (String body : List.of("held", "kept")) {
      Delivery delivery = lasting.next();
      check(new String(delivery.getBody()).equals(body) && delivery.getEnvelope().isRedeliver(), body + " comes again, and says so");
      channel.basicAck(tag(delivery), false);
    }
    check(publish(channel, "passing-exchange", "to.own", "new", null), "confirms go on");
    check(ofOwn.next(1).equals("new"), "its own queue is bound again");
  }
}
