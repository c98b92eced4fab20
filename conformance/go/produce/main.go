// Produce sends --count messages and writes down which of them the broker promised to keep.
//
// Thread t of T sends the ordering keys t, t+T, t+2T ... of --order-keys (one per thread unless told), each with its
// own sequence 0, 1, 2 ... A line of --acked-file: key,sequence,queue,queueOffset,msgId,offsetMsgId.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"

	"sluice.org/conformance/body"
	"sluice.org/conformance/program"
	"sluice.org/conformance/tally"
)

var (
	topic        = flag.String("topic", "", "")
	count        = flag.Int("count", 1000, "")
	size         = flag.Int("size", 256, "body bytes")
	threads      = flag.Int("threads", 1, "")
	mode         = flag.String("mode", "sync", "sync, async, oneway, batch or ordered")
	group        = flag.String("group", "conformance_producer", "")
	keys         = flag.Bool("keys", false, "give each message a key")
	tag          = flag.String("tag", "", "")
	run          = flag.String("run", "", "run id, made up unless told")
	orderKeys    = flag.Int("order-keys", 0, "")
	batchSize    = flag.Int("batch-size", 16, "")
	pauseMicros  = flag.Int("pause-micros", 0, "between two sends of a thread")
	retryForever = flag.Bool("retry-forever", false, "send again until acknowledged or time is up")
	ackedFile    = flag.String("acked-file", "", "")

	client           rocketmq.Producer
	acked            *os.File
	ackedLock        sync.Mutex
	sent, ok, failed atomic.Int64
	inFlight         = make(chan struct{}, 512)
	started          time.Time
)

const keyProperty = "orderingKey"

// An ordered message goes to the queue its ordering key says, all others to one after the other.
type byKey struct{ otherwise producer.QueueSelector }

func (s byKey) Select(message *primitive.Message, queues []*primitive.MessageQueue, last string) *primitive.MessageQueue {
	key, err := strconv.Atoi(message.GetProperty(keyProperty))
	if err != nil {
		return s.otherwise.Select(message, queues, last)
	}
	for _, queue := range queues {
		// Their order is not fixed in this client.
		if queue.QueueId == key%len(queues) {
			return queue
		}
	}
	return queues[0]
}

func main() {
	program.Run(work, func(report *program.Report) {
		report.Put("run", *run)
		report.Put("sent", sent.Load())
		report.Put("ok", ok.Load())
		report.Put("failed", failed.Load())
		report.Put("seconds", time.Since(started).Seconds())
		reached := ok.Load()
		if *mode == "oneway" {
			reached = sent.Load()
		}
		report.CheckEqual(int64(*count), reached, "acknowledged messages")
	})
}

func work(*program.Report) (err error) {
	if *run == "" {
		*run = program.Fresh("run")
	}
	if *ackedFile != "" {
		if acked, err = os.Create(*ackedFile); err != nil {
			return err
		}
	}
	client, err = producer.NewDefaultProducer(
		producer.WithNsResolver(program.NameServer()),
		producer.WithGroupName(*group),
		producer.WithInstanceName(program.Fresh("go")),
		producer.WithQueueSelector(byKey{producer.NewRoundRobinQueueSelector()}),
		producer.WithRetry(2))
	if err != nil {
		return err
	}
	if err = client.Start(); err != nil {
		return err
	}
	started = time.Now()
	// This client knows a topic's queues a moment before its brokers' addresses: whoever sends in between is told of no route. So one message goes
	// first, alone.
	routed := make(chan struct{})
	var senders sync.WaitGroup
	for thread := range *threads {
		share := *count / *threads
		if thread < *count%*threads {
			share++
		}
		senders.Go(func() {
			if thread == 0 {
				sendShare(thread, share, sync.OnceFunc(func() { close(routed) }))
				return
			}
			<-routed
			sendShare(thread, share, func() {})
		})
	}
	senders.Wait()
	for range cap(inFlight) {
		inFlight <- struct{}{}
	}
	return client.Shutdown()
}

// Calls begun once it has sent for the first time, or has nothing to send.
func sendShare(thread, share int, begun func()) {
	defer begun()
	ownKeys := (max(*orderKeys, *threads) - thread + *threads - 1) / *threads
	sequences := make([]int64, ownKeys)
	step := 1
	if *mode == "batch" {
		step = *batchSize
	}
	for i, turn := 0, 0; i < share; i, turn = i+step, turn+1 {
		own := turn % ownKeys
		var bodies []body.Body
		for j := i; j < min(i+step, share); j++ {
			bodies = append(bodies, body.Body{Run: *run, Key: thread + own**threads, Sequence: sequences[own]})
			sequences[own]++
		}
		sendUntilDone(bodies)
		begun()
		time.Sleep(time.Duration(*pauseMicros) * time.Microsecond)
	}
}

func sendUntilDone(bodies []body.Body) {
	if *mode == "async" {
		inFlight <- struct{}{}
		sendAsync(bodies[0])
		return
	}
	for !sendOnce(bodies) && *retryForever {
		time.Sleep(50 * time.Millisecond)
	}
}

func sendOnce(bodies []body.Body) bool {
	var messages []*primitive.Message
	for _, b := range bodies {
		messages = append(messages, message(b))
	}
	if *mode == "oneway" {
		if err := client.SendOneWay(context.Background(), messages...); err != nil {
			return fail(err)
		}
		sent.Add(int64(len(bodies)))
		return true
	}
	result, err := client.SendSync(context.Background(), messages...)
	if err != nil {
		return fail(err)
	}
	sent.Add(int64(len(bodies)))
	return acknowledged(bodies, result)
}

// Keeps its place in inFlight until the message is acknowledged or given up.
func sendAsync(b body.Body) {
	err := client.SendAsync(context.Background(), func(_ context.Context, result *primitive.SendResult, err error) {
		if err != nil {
			settle(b, fail(err))
			return
		}
		sent.Add(1)
		settle(b, acknowledged([]body.Body{b}, result))
	}, message(b))
	if err != nil {
		settle(b, fail(err))
	}
}

func settle(b body.Body, done bool) {
	if done || !*retryForever {
		<-inFlight
		return
	}
	time.AfterFunc(50*time.Millisecond, func() { sendAsync(b) })
}

func message(b body.Body) *primitive.Message {
	m := primitive.NewMessage(*topic, b.Encode(*size))
	if *tag != "" {
		m.WithTag(*tag)
	}
	if *keys {
		m.WithKeys([]string{strings.ReplaceAll(b.ID(), " ", "-")})
	}
	if *mode == "ordered" {
		m.WithProperty(tally.Ordered, "true")
		m.WithProperty(keyProperty, strconv.Itoa(b.Key))
	}
	return m
}

func acknowledged(bodies []body.Body, result *primitive.SendResult) bool {
	if result.Status != primitive.SendOK {
		return fail(fmt.Errorf("status %d", result.Status))
	}
	ok.Add(int64(len(bodies)))
	if acked == nil {
		return true
	}
	// A batch answers with one id per message and the offset of the first.
	ids := strings.Split(result.MsgID, ",")
	offsetIDs := strings.Split(result.OffsetMsgID, ",")
	ackedLock.Lock()
	defer ackedLock.Unlock()
	for i, b := range bodies {
		fmt.Fprintf(acked, "%d,%d,%d,%d,%s,%s\n", b.Key, b.Sequence, result.MessageQueue.QueueId,
			result.QueueOffset+int64(i), ids[min(i, len(ids)-1)], offsetIDs[min(i, len(offsetIDs)-1)])
	}
	return true
}

func fail(why error) bool {
	if failed.Add(1) <= 10 {
		fmt.Fprintln(os.Stderr, "send failed:", why)
	}
	return false
}
