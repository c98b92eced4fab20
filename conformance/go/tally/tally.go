// Package tally counts what a consumer was given, and notices every message that is damaged, foreign, repeated or out
// of order.
package tally

import (
	"bufio"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2/primitive"

	"sluice.org/conformance/body"
	"sluice.org/conformance/program"
)

// Ordered is the user property of messages whose ordering key always goes to the same queue.
const Ordered = "ordered"

type Tally struct {
	mutex       sync.Mutex
	run         string
	seenFile    *bufio.Writer
	seen        map[body.Body]bool
	lastOfKey   map[string]int64
	lastOfQueue map[string]int64
	lastArrival time.Time

	received, distinct, duplicates, corrupt, foreign, outOfOrder int64
}

// New takes the producer's run id, empty for any, and a file for one line per distinct message, empty for none:
// key,sequence,queue,queueOffset,msgId.
func New(run, seenFile string) (*Tally, error) {
	t := &Tally{
		run: run, seen: map[body.Body]bool{}, lastOfKey: map[string]int64{}, lastOfQueue: map[string]int64{},
		lastArrival: time.Now(),
	}
	if seenFile != "" {
		file, err := os.Create(seenFile)
		if err != nil {
			return nil, err
		}
		t.seenFile = bufio.NewWriter(file)
	}
	return t, nil
}

// Batch takes messages as handed over by the client: inside one batch, offsets of a queue must grow.
func (t *Tally) Batch(messages []*primitive.MessageExt) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	last := int64(-1)
	for _, message := range messages {
		if message.QueueOffset <= last {
			t.complain("offset %d after %d in one batch", message.QueueOffset, last)
		}
		last = message.QueueOffset
		t.message(message, false)
	}
	t.flush()
}

// Ordered takes messages in the order of delivery: every queue must go forward, and every ordering key that was sent
// to one queue.
func (t *Tally) Ordered(messages []*primitive.MessageExt) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	for _, message := range messages {
		t.message(message, true)
	}
	t.flush()
}

func (t *Tally) message(message *primitive.MessageExt, ordered bool) {
	t.received++
	t.lastArrival = time.Now()
	b, err := body.Decode(message.Body)
	if err != nil {
		t.corrupt++
		fmt.Fprintln(os.Stderr, "corrupt:", err, "in", message.MsgId)
		return
	}
	if t.run != "" && t.run != b.Run {
		t.foreign++
		fmt.Fprintln(os.Stderr, "foreign:", b.ID(), "expected run", t.run)
		return
	}
	if t.seen[b] {
		t.duplicates++ // may come again at any time: delivery is at least once
		return
	}
	t.seen[b] = true
	t.distinct++
	if ordered {
		if message.GetProperty(Ordered) != "" {
			t.forward(t.lastOfKey, fmt.Sprint(b.Run, " ", b.Key), b.Sequence)
		}
		t.forward(t.lastOfQueue, fmt.Sprint(message.Queue.BrokerName, "/", message.Queue.QueueId), message.QueueOffset)
	}
	if t.seenFile != nil {
		fmt.Fprintf(t.seenFile, "%d,%d,%d,%d,%s\n", b.Key, b.Sequence, message.Queue.QueueId, message.QueueOffset,
			message.MsgId)
	}
}

func (t *Tally) forward(last map[string]int64, of string, position int64) {
	before, known := last[of]
	if known && before > position {
		t.complain("of %s: %d after %d", of, position, before)
		return
	}
	last[of] = position
}

func (t *Tally) complain(what string, values ...any) {
	t.outOfOrder++
	fmt.Fprintf(os.Stderr, "out of order "+what+"\n", values...)
}

func (t *Tally) flush() {
	if t.seenFile != nil {
		t.seenFile.Flush()
	}
}

// Await returns when expected different messages came and then nothing more for idle.
func (t *Tally) Await(expected int64, idle time.Duration) {
	for {
		t.mutex.Lock()
		done := t.distinct >= expected && time.Since(t.lastArrival) >= idle
		t.mutex.Unlock()
		if done {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (t *Tally) Report(report *program.Report, expected int64) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	report.Put("received", t.received)
	report.Put("distinct", t.distinct)
	report.Put("duplicates", t.duplicates)
	report.Put("corrupt", t.corrupt)
	report.Put("foreign", t.foreign)
	report.Put("out_of_order", t.outOfOrder)
	report.CheckEqual(expected, t.distinct, "distinct messages")
	report.CheckEqual(0, t.corrupt, "corrupt messages")
	report.CheckEqual(0, t.foreign, "foreign messages")
	report.CheckEqual(0, t.outOfOrder, "messages out of order")
}
