package steadygrpc

import (
	"slices"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// rpc is what gRPC tells of one attempt.
type rpc struct {
	peer peer.Peer // set when there was a connection

	mu    sync.Mutex
	ended bool
	err   error // what it ended with
}

// watch returns the options that tell, behind the caller's.
func (r *rpc) watch(opts []grpc.CallOption) []grpc.CallOption {
	return append(slices.Clip(opts), grpc.Peer(&r.peer), grpc.OnFinish(func(err error) {
		r.mu.Lock()
		r.ended, r.err = true, err
		r.mu.Unlock()
	}))
}

// end reports whether gRPC has ended the attempt, and with what.
func (r *rpc) end() (bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ended, r.err
}

// unsent reports whether the attempt, which failed with err, cannot have been sent: gRPC says that it has ended, and
// has never named a peer. That it has ended needs to be said: an interceptor further in may have dropped the options.
func (r *rpc) unsent(err error) bool {
	switch status.Code(err) {
	case codes.Unavailable, codes.DeadlineExceeded:
	default:
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ended && r.peer.Addr == nil && r.peer.AuthInfo == nil // a connection of the caller's own may have no address
}
