// Package program is the frame around every program: flags in, one JSON line out, exit code 0 when the promise held
// and 1 when not. Every program takes --namesrv HOST:PORT and --limit-seconds N.
package program

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/rlog"
)

var (
	namesrv = flag.String("namesrv", "127.0.0.1:9876", "name server HOST:PORT")
	limit   = flag.Int("limit-seconds", 120, "overall time limit")
)

type Report struct {
	mutex  sync.Mutex
	fields map[string]any
	broken []string
}

func (r *Report) Put(name string, value any) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.fields[name] = value
}

func (r *Report) Check(held bool, otherwise string, values ...any) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if !held {
		r.broken = append(r.broken, fmt.Sprintf(otherwise, values...))
	}
}

func (r *Report) CheckEqual(expected, found int64, what string) {
	r.Check(expected == found, "%s: expected %d, found %d", what, expected, found)
}

// Run parses the flags, then calls work; soFar puts down the counts, at the end or when time is up.
func Run(work func(*Report) error, soFar func(*Report)) {
	flag.Parse()
	rlog.SetLogLevel("error")
	// The client prints to stdout here and there; stdout is for the one line.
	stdout := os.Stdout
	os.Stdout = os.Stderr

	report := &Report{fields: map[string]any{}}
	done := make(chan struct{})
	go func() {
		if err := work(report); err != nil {
			report.Check(false, "%v", err)
		}
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(time.Duration(*limit) * time.Second):
		report.Check(false, "time limit of %d s reached", *limit)
	}
	soFar(report)
	report.mutex.Lock()
	for _, reason := range report.broken {
		fmt.Fprintln(os.Stderr, "broken:", reason)
	}
	report.fields["held"] = len(report.broken) == 0
	line, _ := json.Marshal(report.fields)
	fmt.Fprintln(stdout, string(line))
	if len(report.broken) > 0 {
		os.Exit(1)
	}
}

func NameServer() primitive.NsResolver {
	return primitive.NewPassthroughResolver([]string{*namesrv})
}

// Fresh is a name nobody used before, and so also a name of its own for each client process.
func Fresh(name string) string {
	return fmt.Sprintf("%s_%d_%d", name, os.Getpid(), time.Now().UnixNano())
}
