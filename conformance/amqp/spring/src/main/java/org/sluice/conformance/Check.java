package org.sluice.conformance;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import org.springframework.amqp.AmqpException;
import org.springframework.amqp.AmqpRejectAndDontRequeueException;
import org.springframework.amqp.ImmediateAcknowledgeAmqpException;
import org.springframework.amqp.core.AmqpAdmin;
import org.springframework.amqp.core.Binding;
import org.springframework.amqp.core.BindingBuilder;
import org.springframework.amqp.core.Declarables;
import org.springframework.amqp.core.Message;
import org.springframework.amqp.core.MessageBuilder;
import org.springframework.amqp.core.QueueBuilder;
import org.springframework.amqp.core.TopicExchange;
import org.springframework.amqp.core.QueueInformation;
import org.springframework.amqp.rabbit.annotation.Exchange;
import org.springframework.amqp.rabbit.annotation.Queue;
import org.springframework.amqp.rabbit.annotation.QueueBinding;
import org.springframework.amqp.rabbit.annotation.RabbitListener;
import org.springframework.amqp.rabbit.config.ContainerCustomizer;
import org.springframework.amqp.rabbit.connection.CachingConnectionFactory;
import org.springframework.amqp.rabbit.connection.ConnectionFactory;
import org.springframework.amqp.rabbit.connection.CorrelationData;
import org.springframework.amqp.rabbit.core.RabbitTemplate;
import org.springframework.amqp.rabbit.listener.RabbitListenerEndpointRegistry;
import org.springframework.amqp.rabbit.listener.SimpleMessageListenerContainer;
import org.springframework.amqp.rabbit.transaction.RabbitTransactionManager;
import org.springframework.boot.CommandLineRunner;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.context.annotation.Bean;
import org.springframework.messaging.handler.annotation.Header;
import org.springframework.messaging.handler.annotation.SendTo;
import org.springframework.transaction.support.TransactionTemplate;

/**
 * An application of Spring that checks what its kind counts on: PORT. Says which promise does not hold, and ends with 1 then. Before the
 * last it says `restart`, and waits for a line, before which the broker is killed and started again.
 */
@SpringBootApplication(proxyBeanMethods = false)
public class Check {
  private static final int LIMIT_SECONDS = 10;

  /** What listeners were given. */
  private final BlockingQueue<String> heard = new LinkedBlockingQueue<>();

  private final Map<String, Integer> tries = new ConcurrentHashMap<>();

  public static void main(String[] arguments) {
    SpringApplication application = new SpringApplication(Check.class);
    application.setDefaultProperties(
        Map.of(
            "spring.rabbitmq.port", arguments[0],
            "spring.rabbitmq.publisher-confirm-type", "correlated",
            "spring.rabbitmq.publisher-returns", "true",
            "spring.rabbitmq.template.mandatory", "true",
            "spring.rabbitmq.template.reply-timeout", "10s",
            "spring.rabbitmq.listener.simple.concurrency", "2",
            "spring.main.banner-mode", "off",
            "logging.level.root", "error"));
    System.exit(SpringApplication.exit(application.run(), () -> 0));
  }

  /** What is declared when the first connection opens. */
  @Bean
  Declarables topology() {
    var orders = QueueBuilder.durable("orders").deadLetterExchange("").deadLetterRoutingKey("orders.dead").build();
    var dead = QueueBuilder.durable("orders.dead").build();
    var retried = QueueBuilder.durable("retried").deadLetterExchange("").deadLetterRoutingKey("retried.later").build();
    var later =
        QueueBuilder.durable("retried.later").ttl(100).deadLetterExchange("").deadLetterRoutingKey("retried").build();
    var small = QueueBuilder.durable("small").maxLength(1L).overflow(QueueBuilder.Overflow.rejectPublish).build();
    var urgent = QueueBuilder.durable("urgent").maxPriority(5).build();
    TopicExchange shop = new TopicExchange("shop");
    Binding binding = BindingBuilder.bind(orders).to(shop).with("order.#");
    return new Declarables(orders, dead, retried, later, small, urgent, shop, binding);
  }

  /** Listeners look for a broker that has gone this often. */
  @Bean
  ContainerCustomizer<SimpleMessageListenerContainer> soon() {
    return container -> container.setRecoveryInterval(200);
  }

  @RabbitListener(queues = "orders")
  void order(String body) {
    if (body.startsWith("bad")) {
      throw new AmqpRejectAndDontRequeueException(body);
    }
    if (body.startsWith("later") && tries.merge(body, 1, Integer::sum) < 3) {
      throw new IllegalStateException(body + " is given back and comes again");
    }
    if (body.startsWith("never")) {
      throw new ImmediateAcknowledgeAmqpException(body);
    }
    heard.add(body);
  }

  @RabbitListener(queues = "orders.dead")
  void dead(Message message) {
    Map<String, ?> death = message.getMessageProperties().getXDeathHeader().get(0);
    heard.add("dead " + new String(message.getBody()) + " of " + death.get("queue") + ", " + death.get("reason"));
  }

  @RabbitListener(queues = "retried")
  void retried(Message message) {
    List<Map<String, ?>> deaths = message.getMessageProperties().getXDeathHeader();
    long died = deaths == null ? 0 : (long) deaths.get(0).get("count");
    if (died < 3) {
      throw new AmqpRejectAndDontRequeueException("once more");
    }
    heard.add("after " + died);
  }

  @RabbitListener(bindings = @QueueBinding(value = @Queue("questions"), exchange = @Exchange("asked"), key = "a"))
  @SendTo
  String answer(String question, @Header(name = "asker", required = false) String asker) {
    return question + " is answered" + (asker == null ? "" : " for " + asker);
  }

  @RabbitListener(
      id = "news",
      autoStartup = "false",
      bindings = @QueueBinding(value = @Queue("news"), exchange = @Exchange(value = "news", type = "fanout")))
  void news(String body) {
    heard.add("news " + body);
  }

  private void hears(String... wanted) throws InterruptedException {
    Set<String> left = ConcurrentHashMap.newKeySet();
    left.addAll(List.of(wanted));
    while (!left.isEmpty()) {
      String next = heard.poll(LIMIT_SECONDS, TimeUnit.SECONDS);
      check(next != null, "these were not heard: " + left);
      check(left.remove(next), next + " was heard beside " + left);
    }
  }

  private static void check(boolean isSo, String why) {
    if (!isSo) {
      throw new IllegalStateException(why);
    }
  }

  private interface Promise {
    void check() throws Exception;
  }

  private static void keeps(String name, Promise promise) throws Exception {
    try {
      promise.check();
    } catch (Exception | AssertionError error) {
      System.out.println(name + ": " + error);
      throw error;
    }
    System.out.println(name + ": holds");
  }

  @Bean
  CommandLineRunner checks(
      RabbitTemplate template,
      AmqpAdmin admin,
      ConnectionFactory connections,
      RabbitListenerEndpointRegistry listeners) {
    return arguments -> {
      keeps("listeners are given what is sent", () -> listenersAreGivenWhatIsSent(template));
      keeps("confirms and returns", () -> confirmsAndReturns(template));
      keeps("rejected ones are dead letters", () -> rejectedOnesAreDeadLetters(template));
      keeps("requests are answered", () -> requestsAreAnswered(template));
      keeps("all or nothing", () -> allOrNothing(connections));
      keeps("the most urgent first", () -> theMostUrgentFirst(template));
      keeps("declared and looked at", () -> declaredAndLookedAt(template, admin));
      keeps("listeners come and go", () -> listenersComeAndGo(template, listeners));
      keeps("listeners outlive the broker", () -> listenersOutliveTheBroker(template, listeners));
    };
  }

  private void listenersAreGivenWhatIsSent(RabbitTemplate template) throws Exception {
    String[] bodies = IntStream.range(0, 500).mapToObj(number -> "good " + number).toArray(String[]::new);
    for (String body : bodies) {
      template.convertAndSend("shop", "order.new", body);
    }
    hears(bodies);
  }

  private static CorrelationData.Confirm confirm(CorrelationData sent) throws Exception {
    return sent.getFuture().get(LIMIT_SECONDS, TimeUnit.SECONDS);
  }

  private void confirmsAndReturns(RabbitTemplate template) throws Exception {
    CorrelationData taken = new CorrelationData("taken");
    template.convertAndSend("shop", "order.new", "taken", taken);
    check(confirm(taken).ack() && taken.getReturned() == null, "it is confirmed and not returned");
    hears("taken");
    CorrelationData lost = new CorrelationData("lost");
    template.convertAndSend("shop", "nobody", "lost", lost);
    check(confirm(lost).ack(), "what is returned is confirmed");
    check(lost.getReturned() != null && lost.getReturned().getReplyCode() == 312, "it is returned before that");
    CorrelationData fits = new CorrelationData("fits");
    CorrelationData refused = new CorrelationData("refused");
    template.convertAndSend("", "small", "fits", fits);
    template.convertAndSend("", "small", "does not", refused);
    check(confirm(fits).ack() && !confirm(refused).ack(), "a full queue refuses");
    CorrelationData nowhere = new CorrelationData("nowhere");
    template.convertAndSend("missing", "", "nowhere", nowhere);
    CorrelationData.Confirm confirm = confirm(nowhere);
    check(!confirm.ack() && confirm.reason().contains("404"), "its channel was closed with 404: " + confirm);
  }

  private void rejectedOnesAreDeadLetters(RabbitTemplate template) throws Exception {
    for (String body : List.of("bad", "later", "never", "good")) {
      template.convertAndSend("shop", "order.new", body);
    }
    hears("dead bad of orders, rejected", "later", "good");
    check(tries.get("later") == 3, "it was tried three times");
    template.convertAndSend("", "retried", "retried");
    hears("after 3");
  }

  private void requestsAreAnswered(RabbitTemplate template) {
    for (int number = 0; number < 50; number++) {
      Object answer = template.convertSendAndReceive("", "questions", number + "?");
      check((number + "? is answered").equals(answer), "the answer was " + answer);
    }
    Object answer = template.convertSendAndReceive("asked", "a", "why?", message -> {
      message.getMessageProperties().setHeader("asker", "me");
      return message;
    });
    check("why? is answered for me".equals(answer), "the answer was " + answer);
  }

  private void allOrNothing(ConnectionFactory connections) throws Exception {
    CachingConnectionFactory own = new CachingConnectionFactory(connections.getHost(), connections.getPort());
    RabbitTemplate template = new RabbitTemplate(own);
    template.setChannelTransacted(true);
    TransactionTemplate transaction = new TransactionTemplate(new RabbitTransactionManager(own));
    transaction.executeWithoutResult(
        status -> {
          template.convertAndSend("shop", "order.new", "taken back");
          status.setRollbackOnly();
        });
    transaction.executeWithoutResult(
        status -> {
          template.convertAndSend("shop", "order.new", "good");
          template.convertAndSend("shop", "order.new", "good as well");
        });
    hears("good", "good as well");
    own.destroy();
  }

  private void theMostUrgentFirst(RabbitTemplate template) throws Exception {
    for (int priority : new int[] {0, 5, 3}) {
      CorrelationData sent = new CorrelationData();
      template.send("", "urgent", MessageBuilder.withBody(new byte[] {(byte) priority}).setPriority(priority).build(), sent);
      check(confirm(sent).ack(), "it is confirmed");
    }
    for (int priority : new int[] {5, 3, 0}) {
      int came = template.receive("urgent", 1000 * LIMIT_SECONDS).getBody()[0];
      check(came == priority, came + " came before " + priority);
    }
  }

  private void declaredAndLookedAt(RabbitTemplate template, AmqpAdmin admin) {
    check(admin.getQueueProperties("missing") == null, "there is no such queue");
    template.convertAndSend("", "small", "refused");
    QueueInformation small = admin.getQueueInfo("small");
    check(small.getMessageCount() == 1 && small.getConsumerCount() == 0, "one is in it: " + small);
    check(admin.purgeQueue("small") == 1 && admin.deleteQueue("small"), "it goes");
    check(admin.getQueueProperties("small") == null, "it is gone");
    String named = admin.declareQueue().getName();
    check(admin.getQueueInfo(named) != null, "a queue of its own");
    try {
      admin.declareQueue(QueueBuilder.durable("orders").maxLength(3L).build());
    } catch (AmqpException expected) {
      check(causes(expected).contains("PRECONDITION_FAILED"), causes(expected));
      return;
    }
    check(false, "a queue that is there with other arguments was declared");
  }

  private static String causes(Throwable error) {
    return error == null ? "" : error + " " + causes(error.getCause());
  }

  private void listenersComeAndGo(RabbitTemplate template, RabbitListenerEndpointRegistry listeners) throws Exception {
    var news = listeners.getListenerContainer("news");
    news.start();
    template.convertAndSend("news", "", "heard");
    hears("news heard");
    news.stop();
    CorrelationData unheard = new CorrelationData();
    template.convertAndSend("news", "", "unheard", unheard);
    check(confirm(unheard).ack(), "confirmed");
    news.start();
    template.convertAndSend("news", "", "heard again");
    hears("news unheard", "news heard again");
  }

  private void listenersOutliveTheBroker(RabbitTemplate template, RabbitListenerEndpointRegistry listeners)
      throws Exception {
    var news = listeners.getListenerContainer("news");
    news.stop();
    CorrelationData kept = new CorrelationData();
    template.convertAndSend("news", "", "kept", kept);
    check(confirm(kept).ack(), "it is confirmed");
    System.out.println("restart");
    new BufferedReader(new InputStreamReader(System.in)).readLine();
    news.start();
    hears("news kept");
    // The template's connection is made anew by whoever uses it next.
    template.convertAndSend("shop", "order.new", "good after all");
    hears("good after all");
  }
}
