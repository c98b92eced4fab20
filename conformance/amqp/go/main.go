// Says with amqp091-go what there is to say: PORT.
package main

import (
	"context"
	"os"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func main() {
	connection, err := amqp.DialConfig("amqp://guest:guest@127.0.0.1:"+os.Args[1]+"/", amqp.Config{
		Heartbeat:  time.Second,
		FrameSize:  8192,
		Properties: amqp.Table{"connection_name": "go says all", "capabilities": amqp.Table{"connection.blocked": true}},
	})
	must(err)
	channel, err := connection.Channel()
	must(err)
	for _, kind := range []string{"direct", "fanout", "topic", "headers"} {
		must(channel.ExchangeDeclare("g."+kind, kind, true, false, false, false, amqp.Table{"alternate-exchange": "amq.fanout"}))
	}
	must(channel.ExchangeDeclarePassive("g.direct", "direct", true, false, false, false, nil))
	must(channel.ExchangeBind("g.topic", "a.#", "g.direct", false, nil))
	must(channel.ExchangeUnbind("g.topic", "a.#", "g.direct", false, nil))
	queue, err := channel.QueueDeclare("g", true, false, false, false, amqp.Table{
		"x-message-ttl": int32(60000), "x-expires": int64(600000), "x-overflow": "reject-publish", "x-max-length": int16(100),
	})
	must(err)
	must(channel.QueueBind(queue.Name, "a.*", "g.topic", false, nil))
	must(channel.Qos(10, 0, false))
	must(channel.Confirm(false))
	confirmed := channel.NotifyPublish(make(chan amqp.Confirmation, 10))
	returned := channel.NotifyReturn(make(chan amqp.Return, 10))
	publish := func(exchange, key string, message amqp.Publishing) {
		must(channel.PublishWithContext(context.Background(), exchange, key, true, false, message))
		<-confirmed
	}
	publish("g.topic", "a.b", amqp.Publishing{
		ContentType: "text/plain", ContentEncoding: "utf-8", DeliveryMode: amqp.Persistent, Priority: 3, CorrelationId: "c",
		ReplyTo: "r", Expiration: "60000", MessageId: "m", Timestamp: time.Unix(1700000000, 0), Type: "t", UserId: "guest", AppId: "a",
		Headers: amqp.Table{
			"bool": true, "byte": byte(254), "int8": int8(-2), "int16": int16(-2), "int32": int32(-2), "int64": int64(-2),
			"float32": float32(1.5), "float64": 1.5, "decimal": amqp.Decimal{Scale: 2, Value: 314}, "text": "grüße",
			"bytes": []byte{0, 255}, "time": time.Unix(1700000000, 0), "list": []interface{}{int32(1), "two", nil},
			"table": amqp.Table{"inside": amqp.Table{"deep": true}}, "nothing": nil,
		},
		Body: make([]byte, 20000),
	})
	publish("", queue.Name, amqp.Publishing{})
	publish("", "nowhere", amqp.Publishing{Body: []byte("comes back")})
	<-returned
	message, ok, err := channel.Get(queue.Name, false)
	must(err)
	if !ok {
		panic("nothing there")
	}
	must(message.Nack(false, true))
	deliveries, err := channel.Consume(queue.Name, "tag", false, false, false, false, amqp.Table{"x-priority": int32(1)})
	must(err)
	first := <-deliveries
	must(first.Reject(true))
	<-deliveries
	last := <-deliveries
	must(last.Ack(true))
	must(channel.Cancel("tag", false))
	_, _, err = channel.Get(queue.Name, false)
	must(err)
	transacted, err := connection.Channel()
	must(err)
	must(transacted.Tx())
	must(transacted.PublishWithContext(context.Background(), "", queue.Name, false, false, amqp.Publishing{Body: []byte("t")}))
	must(transacted.TxCommit())
	must(transacted.TxRollback())
	must(transacted.Close())
	must(connection.UpdateSecret("guest", "for a change"))
	time.Sleep(1500 * time.Millisecond)
	_, err = channel.QueuePurge(queue.Name, false)
	must(err)
	_, err = channel.QueueDelete(queue.Name, false, false, false)
	must(err)
	for _, kind := range []string{"direct", "fanout", "topic", "headers"} {
		must(channel.ExchangeDelete("g."+kind, false, false))
	}
	must(connection.Close())
}
