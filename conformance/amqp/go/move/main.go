// Moves messages with amqp091-go, several channels at a time, each confirmed and acknowledged, and checks that each channel's come in
// order and once: PORT COUNT.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"sync"

	amqp "github.com/rabbitmq/amqp091-go"
)

const channels = 4

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func main() {
	count, err := strconv.Atoi(os.Args[2])
	must(err)
	connection, err := amqp.Dial("amqp://guest:guest@127.0.0.1:" + os.Args[1] + "/")
	must(err)
	var all sync.WaitGroup
	for number := 0; number < channels; number++ {
		name := fmt.Sprintf("moved-%d", number)
		all.Add(2)
		go func() { defer all.Done(); produce(connection, name, count) }()
		go func() { defer all.Done(); consume(connection, name, count) }()
	}
	all.Wait()
	must(connection.Close())
	fmt.Printf("moved %d\n", channels*count)
}

func open(connection *amqp.Connection, name string) *amqp.Channel {
	channel, err := connection.Channel()
	must(err)
	_, err = channel.QueueDeclare(name, true, false, false, false, amqp.Table{"x-queue-type": "quorum"})
	must(err)
	return channel
}

func produce(connection *amqp.Connection, name string, count int) {
	channel := open(connection, name)
	must(channel.Confirm(false))
	confirmed := channel.NotifyPublish(make(chan amqp.Confirmation, count))
	for number := 0; number < count; number++ {
		message := amqp.Publishing{DeliveryMode: amqp.Persistent, Body: []byte(strconv.Itoa(number))}
		must(channel.PublishWithContext(context.Background(), "", name, true, false, message))
	}
	for number := 0; number < count; number++ {
		if confirmation := <-confirmed; !confirmation.Ack {
			panic(fmt.Sprintf("%s: %d was not taken", name, confirmation.DeliveryTag))
		}
	}
}

func consume(connection *amqp.Connection, name string, count int) {
	channel := open(connection, name)
	must(channel.Qos(100, 0, false))
	deliveries, err := channel.Consume(name, "", false, false, false, false, nil)
	must(err)
	for number := 0; number < count; number++ {
		delivery := <-deliveries
		if string(delivery.Body) != strconv.Itoa(number) {
			panic(fmt.Sprintf("%s: %s came instead of %d", name, delivery.Body, number))
		}
		must(delivery.Ack(false))
	}
}
