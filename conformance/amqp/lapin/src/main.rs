//! Checks with lapin what RabbitMQ's users count on: PORT. Says which promise does not hold, and ends with 101 then.

use std::time::Duration;

use futures_lite::StreamExt as _;
use lapin::options::*;
use lapin::types::{AMQPValue, FieldTable};
use lapin::{
    BasicProperties, Channel, Confirmation, Connection, ConnectionProperties, Consumer, ErrorKind, ExchangeKind,
};

type Outcome = Result<(), lapin::Error>;

const LIMIT: Duration = Duration::from_secs(10);

async fn connect() -> Connection {
    let port = std::env::args().nth(1).expect("PORT");
    let at = format!("amqp://guest:guest@127.0.0.1:{port}/%2f?heartbeat=10");
    Connection::connect(&at, ConnectionProperties::default()).await.expect("connected")
}

fn table<const COUNT: usize>(entries: [(&str, AMQPValue); COUNT]) -> FieldTable {
    let mut table = FieldTable::default();
    for (name, value) in entries {
        table.insert(name.into(), value);
    }
    table
}

fn text(text: &str) -> AMQPValue {
    AMQPValue::LongString(text.into())
}

async fn declare<const COUNT: usize>(channel: &Channel, queue: &str, arguments: [(&str, AMQPValue); COUNT]) -> Outcome {
    channel.queue_declare(queue.into(), QueueDeclareOptions::durable(), table(arguments)).await.map(drop)
}

/// Publishes to a queue; how the broker confirmed it.
async fn send(
    channel: &Channel,
    queue: &str,
    body: &str,
    properties: BasicProperties,
) -> Result<Confirmation, lapin::Error> {
    let options = BasicPublishOptions { mandatory: true, ..Default::default() };
    channel.basic_publish("".into(), queue.into(), options, body.as_bytes(), properties).await?.await
}

async fn consume(channel: &Channel, queue: &str) -> Result<Consumer, lapin::Error> {
    channel.basic_consume(queue.into(), "".into(), BasicConsumeOptions::default(), FieldTable::default()).await
}

async fn next(consumer: &mut Consumer) -> lapin::message::Delivery {
    let next = tokio::time::timeout(LIMIT, consumer.next()).await.expect("it comes soon");
    next.expect("the consumer goes on").expect("the channel is open")
}

fn body(delivery: &lapin::message::Delivery) -> &str {
    str::from_utf8(&delivery.data).expect("text")
}

async fn in_order_with_confirms_and_prefetch(channel: &Channel) -> Outcome {
    const COUNT: usize = 2000;
    declare(channel, "ordered", []).await?;
    for number in 0..COUNT {
        let persistent = BasicProperties::default().with_delivery_mode(2);
        let body = number.to_string();
        channel
            .basic_publish("".into(), "ordered".into(), BasicPublishOptions::default(), body.as_bytes(), persistent)
            .await?;
    }
    assert!(channel.wait_for_confirms().await?.is_empty());
    channel.basic_qos(20, BasicQosOptions::default()).await?;
    let mut consumer = consume(channel, "ordered").await?;
    for number in 0..COUNT {
        let delivery = next(&mut consumer).await;
        assert_eq!((body(&delivery), delivery.redelivered), (&*number.to_string(), false));
        if number % 20 == 19 {
            delivery.ack(BasicAckOptions { multiple: true }).await?;
        }
    }
    channel.basic_cancel(consumer.tag(), BasicCancelOptions::default()).await?;
    channel.basic_recover(BasicRecoverOptions { requeue: true }).await?;
    assert_eq!(channel.queue_delete("ordered".into(), QueueDeleteOptions::default()).await?, 0, "all are acknowledged");
    Ok(())
}

async fn as_it_was(channel: &Channel) -> Outcome {
    declare(channel, "properties", []).await?;
    let headers = table([
        ("text", text("grüße")),
        ("byte", AMQPValue::ShortShortInt(-7)),
        ("large", AMQPValue::LongLongInt(1 << 40)),
        ("real", AMQPValue::Double(0.5)),
        ("at", AMQPValue::Timestamp(1_700_000_000)),
        ("bytes", AMQPValue::ByteArray(vec![0, 255].into())),
        ("list", AMQPValue::FieldArray(vec![AMQPValue::Boolean(true), AMQPValue::Void, text("two")].into())),
        ("table", AMQPValue::FieldTable(table([("deep", text("er"))]))),
    ]);
    let properties = BasicProperties::default()
        .with_content_type("a".into())
        .with_content_encoding("b".into())
        .with_headers(headers)
        .with_delivery_mode(2)
        .with_priority(3)
        .with_correlation_id("c".into())
        .with_reply_to("d".into())
        .with_message_id("e".into())
        .with_timestamp(1_700_000_000)
        .with_type("f".into())
        .with_user_id("guest".into())
        .with_app_id("g".into());
    let sent = "x".repeat(1_000_000);
    assert!(send(channel, "properties", &sent, properties.clone()).await?.is_ack());
    let got = channel.basic_get("properties".into(), BasicGetOptions { no_ack: true }).await?.expect("it is there");
    assert!(body(&got) == sent && got.properties == properties, "{:?}", got.properties);
    Ok(())
}

async fn returned_and_refused(channel: &Channel) -> Outcome {
    let confirmed = send(channel, "nobody", "lost", BasicProperties::default()).await?;
    assert!(confirmed.is_ack(), "a returned one is confirmed");
    let returned = confirmed.take_message().expect("and comes back");
    assert_eq!((returned.reply_code, returned.reply_text.as_str(), body(&returned)), (312, "NO_ROUTE", "lost"));
    let small = [("x-max-length", AMQPValue::LongInt(1)), ("x-overflow", text("reject-publish"))];
    declare(channel, "small", small).await?;
    assert!(send(channel, "small", "fits", BasicProperties::default()).await?.is_ack());
    assert!(send(channel, "small", "does not", BasicProperties::default()).await?.is_nack());
    Ok(())
}

async fn rejected_ones_die_and_given_back_ones_come_again(channel: &Channel) -> Outcome {
    declare(channel, "dead", []).await?;
    let rules = [("x-dead-letter-exchange", text("")), ("x-dead-letter-routing-key", text("dead"))];
    declare(channel, "mortal", rules).await?;
    for body in ["kept", "again", "dies"] {
        send(channel, "mortal", body, BasicProperties::default()).await?;
    }
    let mut consumer = consume(channel, "mortal").await?;
    let [kept, again, dies] = [next(&mut consumer).await, next(&mut consumer).await, next(&mut consumer).await];
    kept.ack(BasicAckOptions::default()).await?;
    again.nack(BasicNackOptions { requeue: true, ..Default::default() }).await?;
    dies.reject(BasicRejectOptions { requeue: false }).await?;
    let comes = next(&mut consumer).await;
    assert_eq!((body(&comes), comes.redelivered), ("again", true));
    let mut graves = consume(channel, "dead").await?;
    let dead = next(&mut graves).await;
    let headers = dead.properties.headers().as_ref().expect("headers").inner();
    let Some(AMQPValue::FieldArray(deaths)) = headers.get("x-death") else { panic!("no x-death: {headers:?}") };
    let [AMQPValue::FieldTable(death)] = deaths.as_slice() else { panic!("not one death: {deaths:?}") };
    let of = |name: &str| death.inner().get(name).cloned();
    assert_eq!(
        [of("queue"), of("reason"), of("exchange")],
        [Some(text("mortal")), Some(text("rejected")), Some(text(""))]
    );
    assert_eq!((body(&dead), of("count")), ("dies", Some(AMQPValue::LongLongInt(1))));
    assert!(matches!(of("time"), Some(AMQPValue::Timestamp(_))), "{death:?}");
    Ok(())
}

async fn late_ones_die_and_urgent_ones_are_first(channel: &Channel) -> Outcome {
    let rules = [("x-max-priority", AMQPValue::ShortShortUInt(5)), ("x-message-ttl", AMQPValue::LongInt(60_000))];
    declare(channel, "urgent", rules).await?;
    for (body, priority) in [("c", 0), ("a", 5), ("b", 3)] {
        send(channel, "urgent", body, BasicProperties::default().with_priority(priority)).await?;
    }
    let late = BasicProperties::default().with_expiration("50".into()).with_priority(4);
    send(channel, "urgent", "late", late).await?;
    tokio::time::sleep(Duration::from_millis(400)).await;
    let mut consumer = consume(channel, "urgent").await?;
    let got = [next(&mut consumer).await, next(&mut consumer).await, next(&mut consumer).await];
    assert_eq!(got.each_ref().map(body), ["a", "b", "c"]);
    Ok(())
}

async fn exchanges_of_every_kind(channel: &Channel) -> Outcome {
    let none = FieldTable::default;
    let made = async |name: &str, kind, options, arguments| {
        channel.exchange_declare(name.into(), kind, options, arguments).await
    };
    let options = ExchangeDeclareOptions::default();
    made("lost", ExchangeKind::Fanout, ExchangeDeclareOptions { internal: true, ..options }, none()).await?;
    made("in", ExchangeKind::Topic, options, table([("alternate-exchange", text("lost"))])).await?;
    made("by-headers", ExchangeKind::Headers, options, none()).await?;
    for queue in ["odd", "even", "rest"] {
        declare(channel, queue, []).await?;
    }
    let bound = async |queue: &str, exchange: &str, key: &str, arguments| {
        channel.queue_bind(queue.into(), exchange.into(), key.into(), QueueBindOptions::default(), arguments).await
    };
    bound("odd", "in", "*.odd", none()).await?;
    bound("even", "by-headers", "", table([("x-match", text("any")), ("kind", text("even"))])).await?;
    bound("rest", "lost", "", none()).await?;
    let (to, from, key) = ("by-headers", "in", "headers.#");
    channel.exchange_bind(to.into(), from.into(), key.into(), ExchangeBindOptions::default(), none()).await?;
    let even = BasicProperties::default().with_headers(table([("kind", text("even"))]));
    let copied = table([("CC", AMQPValue::FieldArray(vec![text("odd")].into()))]);
    for (exchange, key, body, properties) in [
        ("in", "number.odd", "1", BasicProperties::default()),
        ("in", "headers", "2", even),
        ("in", "elsewhere", "3", BasicProperties::default()),
        ("", "rest", "4", BasicProperties::default().with_headers(copied)),
    ] {
        let options = BasicPublishOptions::default();
        let sent = channel.basic_publish(exchange.into(), key.into(), options, body.as_bytes(), properties).await?;
        assert!(sent.await?.is_ack(), "{body}");
    }
    for (queue, expected) in [("odd", "14"), ("even", "2"), ("rest", "34")] {
        let mut consumer = consume(channel, queue).await?;
        let mut came = String::new();
        while came.len() < expected.len() {
            came.push_str(body(&next(&mut consumer).await));
        }
        assert_eq!(came, expected, "{queue}");
    }
    Ok(())
}

async fn one_consumer_is_active_or_preferred(channel: &Channel) -> Outcome {
    declare(channel, "single", [("x-single-active-consumer", AMQPValue::Boolean(true))]).await?;
    let connection = connect().await;
    let other = connection.create_channel().await?;
    let mut active = consume(&other, "single").await?;
    let mut waiting = consume(channel, "single").await?;
    send(channel, "single", "a", BasicProperties::default()).await?;
    assert_eq!(body(&next(&mut active).await), "a");
    connection.close(200, "".into()).await?;
    let again = next(&mut waiting).await;
    assert_eq!((body(&again), again.redelivered), ("a", true));
    declare(channel, "preferred", []).await?;
    let _low = consume(channel, "preferred").await?;
    let arguments = table([("x-priority", AMQPValue::LongInt(5))]);
    let options = BasicConsumeOptions::default();
    let mut high = channel.basic_consume("preferred".into(), "".into(), options, arguments).await?;
    for sent in ["1", "2"] {
        send(channel, "preferred", sent, BasicProperties::default()).await?;
        assert_eq!(body(&next(&mut high).await), sent);
    }
    Ok(())
}

async fn streams_by_offset(channel: &Channel) -> Outcome {
    declare(channel, "flow", [("x-queue-type", text("stream"))]).await?;
    for number in 0..5 {
        send(channel, "flow", &number.to_string(), BasicProperties::default()).await?;
    }
    let connection = connect().await;
    for (offset, first) in [
        (text("first"), 0),
        (AMQPValue::LongLongInt(3), 3),
        (text("last"), 4),
        (AMQPValue::Timestamp(1_700_000_000), 0),
    ] {
        let reader = connection.create_channel().await?;
        reader.basic_qos(10, BasicQosOptions::default()).await?;
        let (options, arguments) = (BasicConsumeOptions::default(), table([("x-stream-offset", offset)]));
        let mut consumer = reader.basic_consume("flow".into(), "".into(), options, arguments).await?;
        for number in first..5 {
            let delivery = next(&mut consumer).await;
            let headers = delivery.properties.headers().as_ref().expect("headers").inner();
            assert_eq!(headers.get("x-stream-offset"), Some(&AMQPValue::LongLongInt(number)));
            assert_eq!(body(&delivery), number.to_string());
        }
    }
    connection.close(200, "".into()).await
}

async fn direct_replies(channel: &Channel) -> Outcome {
    declare(channel, "questions", []).await?;
    let options = BasicConsumeOptions { no_ack: true, ..Default::default() };
    let mut answers =
        channel.basic_consume("amq.rabbitmq.reply-to".into(), "".into(), options, FieldTable::default()).await?;
    let asking =
        BasicProperties::default().with_reply_to("amq.rabbitmq.reply-to".into()).with_correlation_id("7".into());
    send(channel, "questions", "how", asking).await?;
    let asked = next(&mut consume(channel, "questions").await?).await;
    let reply_to = asked.properties.reply_to().as_ref().expect("where to").as_str();
    send(channel, reply_to, "so", BasicProperties::default().with_correlation_id("7".into())).await?;
    let answer = next(&mut answers).await;
    assert_eq!((body(&answer), answer.properties.correlation_id().as_ref().map(|id| id.as_str())), ("so", Some("7")));
    Ok(())
}

async fn transactions(channel: &Channel) -> Outcome {
    let connection = connect().await;
    let other = connection.create_channel().await?;
    declare(channel, "together", []).await?;
    other.tx_select().await?;
    let waiting = async || -> Result<u32, lapin::Error> {
        let options = QueueDeclareOptions { passive: true, ..Default::default() };
        Ok(channel.queue_declare("together".into(), options, FieldTable::default()).await?.message_count())
    };
    send(&other, "together", "taken back", BasicProperties::default()).await?;
    other.tx_rollback().await?;
    send(&other, "together", "stays", BasicProperties::default()).await?;
    assert_eq!(waiting().await?, 0);
    other.tx_commit().await?;
    assert_eq!(waiting().await?, 1);
    connection.close(200, "".into()).await
}

async fn errors_close_the_channel_alone(channel: &Channel) -> Outcome {
    declare(channel, "durable", []).await?;
    let connection = connect().await;
    async fn refused(connection: &Connection, code: u16, act: impl AsyncFnOnce(&Channel) -> Outcome) -> Outcome {
        let channel = connection.create_channel().await?;
        let error = act(&channel).await.expect_err("it is refused");
        assert!(matches!(error.kind(), ErrorKind::ProtocolError(error) if error.get_id() == code), "{code}: {error:?}");
        Ok(())
    }
    let passive = QueueDeclareOptions { passive: true, ..Default::default() };
    let none = FieldTable::default;
    let declared = async |channel: &Channel, queue: &str, options| {
        channel.queue_declare(queue.into(), options, none()).await.map(drop)
    };
    refused(&connection, 404, async |channel| declared(channel, "missing", passive).await).await?;
    refused(&connection, 406, async |channel| declared(channel, "durable", QueueDeclareOptions::default()).await)
        .await?;
    refused(&connection, 403, async |channel| declared(channel, "amq.mine", QueueDeclareOptions::default()).await)
        .await?;
    refused(&connection, 403, async |channel| {
        let direct = ExchangeKind::Direct;
        channel.exchange_declare("amq.mine".into(), direct, ExchangeDeclareOptions::default(), none()).await
    })
    .await?;
    let exclusive = QueueDeclareOptions { exclusive: true, ..Default::default() };
    declared(channel, "mine", exclusive).await?;
    refused(&connection, 405, async |channel| declared(channel, "mine", passive).await).await?;
    connection.close(200, "".into()).await?;
    declared(channel, "durable", passive).await
}

async fn consumers_hear_of_a_queue_that_goes(channel: &Channel) -> Outcome {
    declare(channel, "short-lived", []).await?;
    let mut consumer = consume(channel, "short-lived").await?;
    channel.queue_delete("short-lived".into(), QueueDeleteOptions::default()).await?;
    let end = tokio::time::timeout(LIMIT, consumer.next()).await.expect("it hears soon");
    assert!(end.is_none(), "{end:?}");
    Ok(())
}

async fn secrets_can_be_renewed(channel: &Channel) -> Outcome {
    let connection = connect().await;
    connection.update_secret("guest".into(), "renewed".into()).await?;
    connection.close(200, "".into()).await?;
    declare(channel, "after-a-secret", []).await
}

macro_rules! check {
    ($($promise:ident)+) => {$(
        let connection = connect().await;
        let channel = connection.create_channel().await.expect("a channel");
        channel.confirm_select(ConfirmSelectOptions::default()).await.expect("confirms");
        if let Err(error) = $promise(&channel).await {
            panic!("{}: {error:?}", stringify!($promise));
        }
        connection.close(200, "".into()).await.expect("closed");
        println!("{}: holds", stringify!($promise));
    )+};
}

#[tokio::main]
async fn main() {
    check! {
        in_order_with_confirms_and_prefetch
        as_it_was
        returned_and_refused
        rejected_ones_die_and_given_back_ones_come_again
        late_ones_die_and_urgent_ones_are_first
        exchanges_of_every_kind
        one_consumer_is_active_or_preferred
        streams_by_offset
        direct_replies
        transactions
        errors_close_the_channel_alone
        consumers_hear_of_a_queue_that_goes
        secrets_can_be_renewed
    }
}
