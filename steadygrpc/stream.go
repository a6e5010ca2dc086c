package steadygrpc

import (
	"context"
	"errors"
	"io"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// NewStreamClientInterceptor returns an interceptor that takes streams through the Dependency, or an error that names
// what is wrong with cfg. It may be used by any number of connections at once.
//
// Opening a stream is what is judged, and retried: from the call until gRPC has a connection for it, which is before the
// server has seen anything. A stream that is open counts as a success at once, for a breaker and for a probe of it,
// however long it lives; when it fails later, that success becomes a failure if it is still in the breaker's window. It
// is not retried any more. It holds its slot in the bulkhead until it has finished, and unless it is LongLived the
// Dependency's Timeout and AttemptTimeout go on. When one of these ends it, RecvMsg says so with a DeadlineExceeded that
// matches context.DeadlineExceeded, but is no [*steady.TimeoutError]. The hooks that its end calls run where it is
// noticed: in RecvMsg, say, or on a goroutine of their own when its context ends.
//
// A stream has finished on the first of: an error of RecvMsg, where io.EOF is success; the first RecvMsg of a stream
// on which the server sends one message; an error of Header, or one of SendMsg other than io.EOF; the end of its
// context, which is the caller's and ends at the timeouts; the end of the connection by Close. These are the ways that
// grpc.ClientConn.NewStream wants of every caller. A stream that is left alone without any of these holds its slot
// for ever.
func NewStreamClientInterceptor(cfg ClientConfig) (grpc.StreamClientInterceptor, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	bounded, errBounded := newPipelines[*clientStream](cfg.Dependency, true)
	unbounded, errUnbounded := newPipelines[*clientStream](cfg.Dependency, false)
	if err := errors.Join(errBounded, errUnbounded); err != nil {
		return nil, err
	}
	return func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		ps, longLived := &bounded, cfg.LongLived != nil && cfg.LongLived(method)
		if longLived {
			ps = &unbounded
		}
		s, release, err := ps[cfg.intent(method, opts)].Hold(ctx, func(ctx context.Context) (*clientStream, error) {
			s := &clientStream{desc: desc, longLived: longLived}
			return s, s.open(ctx, cc, method, streamer, opts)
		})
		if err != nil {
			return nil, withStatus(err)
		}
		s.hold(release)
		return s, nil
	}, nil
}

// clientStream is a stream that knows when it has finished.
type clientStream struct {
	grpc.ClientStream
	rpc       rpc
	desc      *grpc.StreamDesc
	longLived bool
	ctx       context.Context // the attempt's, until the stream has finished
	cancel    context.CancelFunc

	mu       sync.Mutex
	finished bool
	release  func(error)
	unwatch  func() bool
}

// open opens the stream.
func (s *clientStream) open(ctx context.Context, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts []grpc.CallOption) (err error) {
	s.ctx, s.cancel = context.WithCancel(ctx)
	opened := false
	defer func() {
		if !opened {
			s.cancel()
		}
	}()
	s.ClientStream, err = streamer(s.ctx, s.desc, cc, method, append(s.rpc.watch(opts), s.cancelOnClose(cc))...)
	opened = err == nil
	return causedBy(s.ctx, err)
}

// cancelOnClose returns the option that ends the stream with its connection, for nobody may be reading it then. That
// gRPC ends a stream says too little otherwise: an interceptor further in may have made several of this one.
func (s *clientStream) cancelOnClose(cc *grpc.ClientConn) grpc.CallOption {
	return grpc.OnFinish(func(error) {
		if cc.GetState() == connectivity.Shutdown {
			s.cancel()
		}
	})
}

// unsent is only about the opening: an interceptor further in may use the stream again, even now.
func (s *clientStream) unsent(err error) bool { return s.ClientStream == nil && s.rpc.unsent(err) }

// discard ends a stream that nobody gets.
func (s *clientStream) discard() { s.cancel() }

// hold hands over what is to be called when the stream has finished, which may be now.
func (s *clientStream) hold(release func(error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.release = release
	s.unwatch = context.AfterFunc(s.ctx, func() {
		s.finish(causedBy(s.ctx, status.FromContextError(s.ctx.Err()).Err()))
	})
}

// finish notes that the stream has finished. Only the first call counts.
func (s *clientStream) finish(err error) {
	if s.longLived && (s.ctx.Err() != nil || expired(s.ctx)) {
		err = nil // the caller's context has done its work
	}
	s.mu.Lock()
	finished := s.finished
	s.finished = true
	s.mu.Unlock()
	if finished {
		return
	}
	defer s.cancel()
	s.unwatch()
	s.release(err)
}

func (s *clientStream) RecvMsg(m any) error {
	err := causedBy(s.ctx, s.ClientStream.RecvMsg(m))
	switch {
	case err == io.EOF: //nolint:errorlint // gRPC wants it untouched
		s.finish(nil)
	case err != nil || !s.desc.ServerStreams:
		s.finish(err)
	}
	return err
}

func (s *clientStream) SendMsg(m any) error {
	err := causedBy(s.ctx, s.ClientStream.SendMsg(m))
	if err != nil && err != io.EOF { //nolint:errorlint // after io.EOF, RecvMsg has the status
		s.finish(err)
	}
	return err
}

func (s *clientStream) Header() (metadata.MD, error) {
	md, err := s.ClientStream.Header()
	err = causedBy(s.ctx, err)
	switch {
	case err == io.EOF: //nolint:errorlint // RecvMsg has the status
	case err != nil:
		s.finish(err)
	case md == nil: // gRPC has ended the stream, and leaves its status to RecvMsg, which may never be called
		if ended, with := s.rpc.end(); ended {
			s.finish(with)
		}
	}
	return md, err
}
