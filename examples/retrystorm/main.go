// Retrystorm shows what retries do to a server that has fallen behind, and what keeps them from doing it.
//
// A server on loopback has 5 workers that need 100 ms a request, so it can answer 50 requests a second, and
// a queue of 120; when that is full it answers 503. It works on whatever is in the queue, whether the client
// is still there or not, as most servers do. 100 clients call it, each thinking for 2.9 s on average between
// its calls: 33 a second, two thirds of what the server can do. An attempt may take 1 s. In good times 3 % of
// the requests fail at random.
//
// After 10 s of calm the server needs 20 times as long for a request, for 10 s; then it is well again. But
// its queue is full now, and takes 2.4 s to pass: whoever is served has hung up long ago. If the clients send
// more than 50 requests a second, retries included, the queue stays full and nobody is ever answered, though
// nothing is broken any more. The arithmetic of that state, in which every attempt times out: without retries,
// 100 clients send 100/(2.9+1) = 26 requests a second, and the queue drains. With 4 attempts, one straight
// after the other, it is 400/(2.9+4) = 58, and it does not. Delays of 0.1, 0.2 and 0.4 s make it 53, and full
// jitter, which halves them on average, 55: jitter keeps clients from coming back together, it does not make
// them come less often. A budget and a breaker do.
//
// The clients belong to 4 instances of a service, each with a retry, a budget and a breaker of its own. The
// retries have steady's default delays, the budget and the breaker its defaults but for OpenDuration, which
// is 2 s instead of 10 s.
//
// Everything that is printed has been measured. All durations, the flags included, are model time, which
// passes -speed times faster than real time. A machine that is busy with other things shows in the numbers; a
// lower speed makes it show less.
package main

import (
	"fmt"
	"os"
)

func main() {
	sc := flags()
	r := report{sc: sc, w: os.Stdout}
	r.title()
	var results []result
	for _, st := range strategies {
		r.begin(st)
		res, err := run(sc, st, r.second)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		r.end(res)
		results = append(results, res)
	}
	r.table(results)
}
