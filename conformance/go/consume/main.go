// Consume reads with the push consumer until --expect different messages came and nothing more for --idle-seconds.
// Every body must be whole. With --orderly each queue, and each ordering key of an ordered producer, must arrive in
// order; without, each batch.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"

	"sluice.org/conformance/program"
	"sluice.org/conformance/tally"
)

var (
	topic     = flag.String("topic", "", "")
	group     = flag.String("group", "", "")
	expect    = flag.Int64("expect", 1000, "different messages to wait for")
	from      = flag.String("from", "first", "where a new group starts: first, last or timestamp")
	timestamp = flag.String("timestamp", "", "yyyyMMddHHmmss for --from timestamp")
	model     = flag.String("model", "clustering", "clustering or broadcasting")
	orderly   = flag.Bool("orderly", false, "")
	tags      = flag.String("tag-expression", "*", "")
	idle      = flag.Int("idle-seconds", 3, "")
	run       = flag.String("run", "", "run id of the producer; messages of others are reported")
	seenFile  = flag.String("seen-file", "", "")
	batchSize = flag.Int("batch-size", 16, "")

	counts *tally.Tally
)

func main() {
	program.Run(work, func(report *program.Report) {
		if counts != nil {
			counts.Report(report, *expect)
		}
	})
}

func work(*program.Report) (err error) {
	if counts, err = tally.New(*run, *seenFile); err != nil {
		return err
	}
	options := []consumer.Option{
		consumer.WithNsResolver(program.NameServer()),
		consumer.WithGroupName(*group),
		consumer.WithInstance(program.Fresh("go")),
		consumer.WithConsumerOrder(*orderly),
		consumer.WithConsumeMessageBatchMaxSize(*batchSize),
		consumer.WithConsumeFromWhere(map[string]consumer.ConsumeFromWhere{
			"first": consumer.ConsumeFromFirstOffset, "last": consumer.ConsumeFromLastOffset,
			"timestamp": consumer.ConsumeFromTimestamp}[*from]),
		consumer.WithConsumerModel(map[string]consumer.MessageModel{
			"clustering": consumer.Clustering, "broadcasting": consumer.BroadCasting}[strings.ToLower(*model)]),
	}
	if *timestamp != "" {
		options = append(options, consumer.WithConsumeTimestamp(*timestamp))
	}
	client, err := consumer.NewPushConsumer(options...)
	if err != nil {
		return err
	}
	selector := consumer.MessageSelector{Type: consumer.TAG, Expression: *tags}
	err = client.Subscribe(*topic, selector,
		func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
			if *orderly {
				counts.Ordered(messages)
			} else {
				counts.Batch(messages)
			}
			return consumer.ConsumeSuccess, nil
		})
	if err != nil {
		return err
	}
	if err = client.Start(); err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "started") // a caller that tests --from last sends only now
	counts.Await(*expect, time.Duration(*idle)*time.Second)
	return client.Shutdown()
}
