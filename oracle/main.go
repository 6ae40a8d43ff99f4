// The oracle says what the real client-go does.
//
// It reads traces from standard input, one JSON object a line, runs each on
// client-go's own structures, and prints one JSON object a line: what happened.
// The project's tests run the same traces on the Python machinery and compare.
//
//	oracle            traces on standard input (see Trace)
//	oracle follow     an informer on a real server (see follow.go)
//	oracle bench      client-go's own speed (see bench.go)
//
// Traces run inside testing/synctest: time stands still until every goroutine
// waits, so that a delay of a thousand seconds takes none, and «nothing more
// will happen» is known and not guessed. That package wants a *testing.T, and
// so the traces run as one «test» of an ordinary program.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"testing"
	"testing/synctest"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"
)

// Trace is one line of input. Which fields are read depends on Structure.
type Trace struct {
	// Structure is workqueue, limiter, delta_fifo, real_fifo, store or informer.
	Structure string `json:"structure"`
	// Ops are calls, as arrays: the name, then the arguments.
	Ops []Op `json:"ops"`
	// Limiter configures workqueue (optional) and limiter.
	Limiter *LimiterSpec `json:"limiter"`
	// KnownObjects gives a delta_fifo the consumer's store to look at.
	KnownObjects bool `json:"known_objects"`
	// Atomic chooses how a real_fifo takes a list.
	Atomic bool `json:"atomic"`
	// WatchList lets an informer start with a watch-list.
	WatchList bool `json:"watch_list"`
	// Answers are what an informer's scripted server says.
	Answers Answers `json:"answers"`
}

// Op is one call of a trace.
type Op []json.RawMessage

func (o Op) name() string { return o.text(0) }

func (o Op) text(i int) string {
	var value string
	must(json.Unmarshal(o[i], &value))
	return value
}

func (o Op) number(i int) float64 {
	var value float64
	must(json.Unmarshal(o[i], &value))
	return value
}

func (o Op) object(i int) map[string]any {
	var value map[string]any
	must(json.Unmarshal(o[i], &value))
	return value
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func run(trace Trace) any {
	switch trace.Structure {
	case "workqueue":
		return runWorkqueue(trace)
	case "limiter":
		return runLimiter(trace)
	case "delta_fifo":
		return runDeltaFIFO(trace)
	case "real_fifo":
		return runRealFIFO(trace)
	case "store":
		return runStore(trace)
	case "informer":
		return runInformer(trace)
	}
	panic(fmt.Sprintf("there is no structure %q", trace.Structure))
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == "follow" {
		follow(os.Args[2:])
		return
	}
	if len(os.Args) > 1 && os.Args[1] == "bench" {
		bench(os.Args[2:])
		return
	}
	// The testing package prints to standard output; the outcomes go there too, and alone.
	output := bufio.NewWriter(os.Stdout)
	os.Stdout = os.Stderr
	quiet()
	testing.Main(
		func(string, string) (bool, error) { return true, nil },
		[]testing.InternalTest{{Name: "traces", F: func(t *testing.T) { serve(t, output) }}},
		nil, nil,
	)
}

// quiet keeps client-go's log out of the way: errors are part of the traces.
func quiet() {
	klog.LogToStderr(false)
	klog.SetOutput(discard{})
	utilruntime.ErrorHandlers = nil
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

func serve(t *testing.T, output *bufio.Writer) {
	input := bufio.NewReaderSize(os.Stdin, 1<<20)
	for {
		given, err := input.ReadBytes('\n')
		if err == io.EOF && len(given) == 0 {
			break
		}
		if err != io.EOF {
			must(err)
		}
		var trace Trace
		must(json.Unmarshal(given, &trace))
		var outcome any
		synctest.Test(t, func(*testing.T) { outcome = run(trace) })
		line, err := json.Marshal(outcome)
		must(err)
		output.Write(line)
		output.WriteByte('\n')
		if input.Buffered() == 0 {
			// Whoever asks one trace at a time waits for this one.
			must(output.Flush())
		}
	}
	must(output.Flush())
}
