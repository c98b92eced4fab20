// Checks with amqp091-go what RabbitMQ's users count on: PORT TLS_PORT FOLDER, of which the last has certificates. Says which promise does
// not hold, and ends with 1 then.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

const patience = 15 * time.Second

var address = "amqp://guest:guest@127.0.0.1:" + os.Args[1] + "/"

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func check(isSo bool, what ...any) {
	if !isSo {
		panic(fmt.Sprint(what...))
	}
}

func got[T any](value T, err error) T {
	must(err)
	return value
}

// What comes next, which may take a moment.
func next[T any](from <-chan T, what string) T {
	select {
	case value, isOpen := <-from:
		check(isOpen, what, ": closed")
		return value
	case <-time.After(patience):
		panic("not in time: " + what)
	}
}

func eventually(what string, isSo func() bool) {
	for end := time.Now().Add(patience); !isSo(); time.Sleep(20 * time.Millisecond) {
		check(time.Now().Before(end), "not in time: ", what)
	}
}

func declare(channel *amqp.Channel, name string, arguments amqp.Table) {
	got(channel.QueueDeclare(name, true, false, false, false, arguments))
}

// Publishes, and says whether the broker took it.
func publish(channel *amqp.Channel, exchange, key, body string, more ...func(*amqp.Publishing)) bool {
	message := amqp.Publishing{Body: []byte(body), DeliveryMode: amqp.Persistent}
	for _, change := range more {
		change(&message)
	}
	confirmed := got(channel.PublishWithDeferredConfirm(exchange, key, false, false, message))
	limit, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return got(confirmed.WaitContext(limit))
}

func publishAll(channel *amqp.Channel, queue, each string) {
	for _, body := range strings.Split(each, "") {
		check(publish(channel, "", queue, body), body, " is taken")
	}
}

func consume(channel *amqp.Channel, queue string, arguments amqp.Table) <-chan amqp.Delivery {
	return got(channel.Consume(queue, "", false, false, false, false, arguments))
}

func take(deliveries <-chan amqp.Delivery, count int) []amqp.Delivery {
	var all []amqp.Delivery
	for len(all) < count {
		all = append(all, next(deliveries, "a message"))
	}
	return all
}

func comesNothing(deliveries <-chan amqp.Delivery) {
	select {
	case delivery := <-deliveries:
		panic(fmt.Sprint(string(delivery.Body), " comes too"))
	case <-time.After(100 * time.Millisecond):
	}
}

func bodies(deliveries []amqp.Delivery) string {
	var all strings.Builder
	for _, delivery := range deliveries {
		all.Write(delivery.Body)
		if delivery.Redelivered {
			all.WriteString("!")
		}
	}
	return all.String()
}

func ready(channel *amqp.Channel, queue string) int {
	return got(channel.QueueDeclarePassive(queue, true, false, false, false, nil)).Messages
}

// What another channel is closed with for that.
func refused(connection *amqp.Connection, code int, act func(*amqp.Channel) error) {
	channel := got(connection.Channel())
	closed := channel.NotifyClose(make(chan *amqp.Error, 1))
	act(channel)
	why := next(closed, fmt.Sprint("the error ", code))
	check(why.Code == code && why.Server, why)
}

func inOrderWithPrefetchOfConsumersAndChannels(connection *amqp.Connection, channel *amqp.Channel) {
	declare(channel, "fetched", nil)
	publishAll(channel, "fetched", "0123456789")
	must(channel.Qos(3, 0, false))
	deliveries := consume(channel, "fetched", nil)
	first := take(deliveries, 3)
	check(bodies(first) == "012", bodies(first))
	comesNothing(deliveries)
	must(first[1].Ack(true))
	check(bodies(take(deliveries, 2)) == "34")
	shared := got(connection.Channel())
	must(shared.Qos(4, 0, true))
	ofBoth := make(chan amqp.Delivery)
	for _, one := range []<-chan amqp.Delivery{consume(shared, "fetched", nil), consume(shared, "fetched", nil)} {
		go func(from <-chan amqp.Delivery) {
			for delivery := range from {
				ofBoth <- delivery
			}
		}(one)
	}
	take(ofBoth, 4)
	comesNothing(ofBoth)
	must(shared.Close())
	eventually("they come back", func() bool { return ready(channel, "fetched") == 5 })
}

func settledAtOnceAndRecovered(connection *amqp.Connection, channel *amqp.Channel) {
	declare(channel, "settled", nil)
	publishAll(channel, "settled", "012345")
	other := got(connection.Channel())
	all := take(consume(other, "settled", nil), 6)
	must(all[1].Ack(true))
	must(all[2].Nack(false, false))
	must(all[3].Reject(false))
	must(other.Cancel(all[0].ConsumerTag, false))
	must(all[5].Nack(true, true))
	again := consume(other, "settled", nil)
	check(bodies(take(again, 2)) == "4!5!")
	must(other.Recover(true))
	check(bodies(take(again, 2)) == "4!5!")
	must(other.Close())
	eventually("they come back", func() bool { return ready(channel, "settled") == 2 })
	check(got(channel.QueuePurge("settled", false)) == 2)
	refused(connection, 406, func(channel *amqp.Channel) error { return channel.Ack(7, false) })
}

func returnedRefusedAndConfirmed(connection *amqp.Connection, channel *amqp.Channel) {
	returned := channel.NotifyReturn(make(chan amqp.Return, 1))
	confirmed := channel.NotifyPublish(make(chan amqp.Confirmation, 9))
	must(channel.Publish("amq.direct", "nobody", true, false, amqp.Publishing{Body: []byte("lost"), MessageId: "m"}))
	back := next(returned, "what goes nowhere")
	check(back.ReplyCode == 312 && back.ReplyText == "NO_ROUTE" && back.MessageId == "m" && string(back.Body) == "lost", back)
	check(next(confirmed, "its confirm").Ack, "it is confirmed")
	declare(channel, "small", amqp.Table{"x-max-length": 1, "x-overflow": "reject-publish"})
	check(publish(channel, "", "small", "fits") && !publish(channel, "", "small", "does not"))
	refused(connection, 404, func(channel *amqp.Channel) error {
		return channel.Publish("missing", "", false, false, amqp.Publishing{})
	})
}

func exchangesOfEveryKind(connection *amqp.Connection, channel *amqp.Channel) {
	must(channel.ExchangeDeclare("lost", "fanout", false, true, true, false, nil))
	must(channel.ExchangeDeclare("in", "topic", false, false, false, false, amqp.Table{"alternate-exchange": "lost"}))
	must(channel.ExchangeDeclare("by-headers", "headers", false, false, true, false, nil))
	for _, queue := range []string{"odd", "even", "rest"} {
		declare(channel, queue, nil)
	}
	must(channel.QueueBind("odd", "*.odd", "in", false, nil))
	must(channel.ExchangeBind("by-headers", "headers.#", "in", false, nil))
	must(channel.QueueBind("even", "", "by-headers", false, amqp.Table{"x-match": "all", "kind": "even", "size": int32(2)}))
	must(channel.QueueBind("rest", "", "lost", false, nil))
	with := func(headers amqp.Table) func(*amqp.Publishing) {
		return func(message *amqp.Publishing) { message.Headers = headers }
	}
	publish(channel, "in", "number.odd", "1")
	publish(channel, "in", "headers", "2", with(amqp.Table{"kind": "even", "size": int64(2)}))
	publish(channel, "in", "headers", "0", with(amqp.Table{"kind": "even"}))
	publish(channel, "in", "elsewhere", "3")
	must(channel.ExchangeUnbind("by-headers", "headers.#", "in", false, nil))
	publish(channel, "in", "headers", "4", with(amqp.Table{"kind": "even", "size": 2}))
	publish(channel, "", "odd", "5", with(amqp.Table{"CC": []any{"even"}, "BCC": []any{"rest"}}))
	for queue, expected := range map[string]string{"odd": "15", "even": "25", "rest": "345"} {
		got := take(consume(channel, queue, nil), len(expected))
		check(bodies(got) == expected, queue, ": ", bodies(got))
	}
	refused(connection, 403, func(channel *amqp.Channel) error {
		return channel.Publish("lost", "", false, false, amqp.Publishing{})
	})
	must(channel.QueueUnbind("rest", "", "lost", nil))
	refused(connection, 404, func(channel *amqp.Channel) error {
		return channel.ExchangeDeclarePassive("lost", "fanout", false, true, true, false, nil)
	})
}

func deadLettersTellTheirWay(_ *amqp.Connection, channel *amqp.Channel) {
	declare(channel, "dead", nil)
	declare(channel, "mortal", amqp.Table{
		"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead", "x-queue-type": "quorum", "x-delivery-limit": 1,
	})
	dead := consume(channel, "dead", nil)
	mortal := consume(channel, "mortal", nil)
	publish(channel, "", "mortal", "rejected")
	must(next(mortal, "to reject").Reject(false))
	publish(channel, "", "mortal", "limited")
	must(next(mortal, "to give back").Nack(false, true))
	must(next(mortal, "to give back again").Nack(false, true))
	reasons := []string{"rejected rejected 1", "limited delivery_limit 1"}
	for _, expected := range reasons {
		checkDeath(next(dead, expected), expected)
	}
	declare(channel, "timed", amqp.Table{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead", "x-message-ttl": 50})
	publish(channel, "", "timed", "1")
	checkDeath(next(dead, "expired"), "1 expired 1")
	declare(channel, "cut", amqp.Table{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead", "x-max-length": 1})
	publishAll(channel, "cut", "23")
	checkDeath(next(dead, "maxlen"), "2 maxlen 1")
}

func checkDeath(delivery amqp.Delivery, expected string) {
	death := delivery.Headers["x-death"].([]any)[0].(amqp.Table)
	said := fmt.Sprint(string(delivery.Body), " ", death["reason"], " ", death["count"])
	check(said == expected && delivery.Headers["x-first-death-reason"] == death["reason"], said)
}

func queuesAsTheirArgumentsSay(connection *amqp.Connection, channel *amqp.Channel) {
	declare(channel, "ranked", amqp.Table{"x-max-priority": uint8(5)})
	for _, priority := range []uint8{0, 3, 9, 1} {
		publish(channel, "", "ranked", fmt.Sprint(priority), func(message *amqp.Publishing) { message.Priority = priority })
	}
	check(bodies(take(consume(channel, "ranked", nil), 4)) == "9310")
	declare(channel, "single", amqp.Table{"x-single-active-consumer": true})
	active := got(connection.Channel())
	first, second := consume(active, "single", nil), consume(channel, "single", nil)
	publish(channel, "", "single", "a")
	check(bodies(take(first, 1)) == "a")
	comesNothing(second)
	must(active.Close())
	check(bodies(take(second, 1)) == "a!", "the next follows")
	declare(channel, "preferred", nil)
	low := consume(channel, "preferred", nil)
	high := consume(channel, "preferred", amqp.Table{"x-priority": 10})
	publishAll(channel, "preferred", "12")
	check(bodies(take(high, 2)) == "12")
	comesNothing(low)
	declare(channel, "passing", amqp.Table{"x-expires": 100})
	time.Sleep(400 * time.Millisecond)
	refused(connection, 404, func(channel *amqp.Channel) error {
		_, err := channel.QueueDeclarePassive("passing", true, false, false, false, nil)
		return err
	})
	refused(connection, 406, func(channel *amqp.Channel) error {
		_, err := channel.QueueDeclare("ranked", true, false, false, false, amqp.Table{"x-max-priority": 4})
		return err
	})
}

func queuesThatGo(connection *amqp.Connection, channel *amqp.Channel) {
	owner := got(amqp.Dial(address))
	own := got(got(owner.Channel()).QueueDeclare("", false, true, true, false, nil)).Name
	check(strings.HasPrefix(own, "amq.gen-"), own)
	refused(connection, 405, func(channel *amqp.Channel) error {
		_, err := channel.Consume(own, "", false, false, false, false, nil)
		return err
	})
	must(owner.Close())
	declare(channel, "removed", nil)
	cancelled := channel.NotifyCancel(make(chan string, 1))
	_ = got(channel.Consume("removed", "tag", true, true, false, false, nil))
	refused(connection, 403, func(channel *amqp.Channel) error {
		_, err := channel.Consume("removed", "", false, false, false, false, nil)
		return err
	})
	refused(connection, 406, func(channel *amqp.Channel) error {
		_, err := channel.QueueDelete("removed", true, false, false)
		return err
	})
	got(got(connection.Channel()).QueueDelete("removed", false, false, true))
	check(next(cancelled, "that it is gone") == "tag")
}

func directReplies(_ *amqp.Connection, channel *amqp.Channel) {
	declare(channel, "questions", nil)
	const replyTo = "amq.rabbitmq.reply-to"
	answers := got(channel.Consume(replyTo, "", true, false, false, false, nil))
	publish(channel, "", "questions", "how", func(message *amqp.Publishing) { message.ReplyTo, message.CorrelationId = replyTo, "7" })
	question := next(consume(channel, "questions", nil), "the question")
	publish(channel, "", question.ReplyTo, "so", func(message *amqp.Publishing) { message.CorrelationId = question.CorrelationId })
	answer := next(answers, "the answer")
	check(string(answer.Body) == "so" && answer.CorrelationId == "7", answer)
}

func transactionsAreWhole(connection *amqp.Connection, channel *amqp.Channel) {
	declare(channel, "together", nil)
	other := got(connection.Channel())
	must(other.Tx())
	send := func(body string) {
		must(other.Publish("", "together", false, false, amqp.Publishing{Body: []byte(body)}))
	}
	send("1")
	must(other.TxRollback())
	send("2")
	check(ready(channel, "together") == 0)
	must(other.TxCommit())
	check(ready(channel, "together") == 1)
	message, _, err := other.Get("together", false)
	must(err)
	must(message.Ack(false))
	must(other.TxRollback())
	must(other.Close())
	eventually("its acknowledgement was taken back", func() bool { return ready(channel, "together") == 1 })
	refused(connection, 406, func(channel *amqp.Channel) error { must(channel.Tx()); return channel.Confirm(false) })
}

func streamsByOffset(connection *amqp.Connection, channel *amqp.Channel) {
	declare(channel, "flow", amqp.Table{"x-queue-type": "stream"})
	publishAll(channel, "flow", "01234")
	for _, from := range []struct {
		offset   any
		expected string
	}{{"first", "01234"}, {int64(3), "34"}, {"last", "4"}, {time.Now().Add(-time.Hour), "01234"}, {"1h", "01234"}} {
		reader := got(connection.Channel())
		must(reader.Qos(10, 0, false))
		messages := take(consume(reader, "flow", amqp.Table{"x-stream-offset": from.offset}), len(from.expected))
		check(bodies(messages) == from.expected, from.offset, ": ", bodies(messages))
		check(messages[0].Headers["x-stream-offset"] == int64(5-len(from.expected)), messages[0].Headers)
		must(reader.Close())
	}
	refused(connection, 406, func(channel *amqp.Channel) error {
		_, err := channel.Consume("flow", "", false, false, false, false, nil)
		return err
	})
}

func whoMayConnect(_ *amqp.Connection, _ *amqp.Channel) {
	for _, user := range []string{"guest:wrong", "nobody:guest"} {
		_, err := amqp.Dial(strings.Replace(address, "guest:guest", user, 1))
		check(err != nil && err.(*amqp.Error).Code == 403, err)
	}
	_, err := amqp.Dial(address + "missing")
	check(err != nil, "there is no such virtual host")
	plain := &amqp.AMQPlainAuth{Username: "guest", Password: "guest"}
	narrow := got(amqp.DialConfig(address, amqp.Config{SASL: []amqp.Authentication{plain}, ChannelMax: 2, FrameSize: 4096}))
	_, _ = got(narrow.Channel()), got(narrow.Channel())
	_, err = narrow.Channel()
	check(err == amqp.ErrChannelMax && narrow.Config.FrameSize == 4096, err)
	must(narrow.UpdateSecret("guest", "it is the same"))
	closed := narrow.NotifyClose(make(chan *amqp.Error, 1))
	_ = narrow.UpdateSecret("another", "it is not")
	check(next(closed, "the end").Code == 530)
	folder := os.Args[3]
	certificate := got(tls.LoadX509KeyPair(filepath.Join(folder, "guest.pem"), filepath.Join(folder, "guest.key")))
	authorities := x509.NewCertPool()
	authorities.AppendCertsFromPEM(got(os.ReadFile(filepath.Join(folder, "ca.pem"))))
	secure := amqp.Config{
		SASL:            []amqp.Authentication{&amqp.ExternalAuth{}},
		TLSClientConfig: &tls.Config{RootCAs: authorities, Certificates: []tls.Certificate{certificate}},
	}
	external := got(amqp.DialConfig("amqps://127.0.0.1:"+os.Args[2]+"/", secure))
	channel := got(external.Channel())
	must(channel.Confirm(false))
	declare(channel, "by-certificate", nil)
	check(publish(channel, "", "by-certificate", "m", func(message *amqp.Publishing) { message.UserId = "guest" }))
	must(external.Close())
}

func main() {
	promises := []struct {
		name  string
		holds func(*amqp.Connection, *amqp.Channel)
	}{
		{"in order, with prefetch of consumers and channels", inOrderWithPrefetchOfConsumersAndChannels},
		{"settled at once and recovered", settledAtOnceAndRecovered},
		{"returned, refused and confirmed", returnedRefusedAndConfirmed},
		{"exchanges of every kind", exchangesOfEveryKind},
		{"dead letters tell their way", deadLettersTellTheirWay},
		{"queues as their arguments say", queuesAsTheirArgumentsSay},
		{"queues that go", queuesThatGo},
		{"direct replies", directReplies},
		{"transactions are whole", transactionsAreWhole},
		{"streams by offset", streamsByOffset},
		{"who may connect", whoMayConnect},
	}
	for _, promise := range promises {
		connection := got(amqp.Dial(address))
		channel := got(connection.Channel())
		must(channel.Confirm(false))
		func() {
			defer func() {
				if why := recover(); why != nil {
					fmt.Println(promise.name+":", why)
					panic(why)
				}
			}()
			promise.holds(connection, channel)
		}()
		must(connection.Close())
		fmt.Println(promise.name + ": holds")
	}
}
