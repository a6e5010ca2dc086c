package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/steady-go/steady"
	"github.com/steady-go/steady/steadygrpc"
)

// Client is the service as its callers see it. It may be used by any number of goroutines.
type Client struct {
	prices *steady.Dependency
	conn   *grpc.ClientConn
}

// NewClient returns a client of the server at an address.
func NewClient(addr string, log *slog.Logger) (*Client, error) {
	prices, err := steady.NewDependency(steady.DependencyConfig{
		Name:     "prices",
		Timeout:  1500 * time.Millisecond,
		Retry:    steady.RetryConfig{ThrottledDelay: 100 * time.Millisecond},
		Breaker:  steady.BreakerConfig{SlowThreshold: 300 * time.Millisecond, OpenDuration: 500 * time.Millisecond},
		Bulkhead: steady.BulkheadConfig{MaxConcurrent: 40},                       // open streams included
		Hooks:    &steady.Hooks{OnTransition: steady.LogHooks(log).OnTransition}, // of calls, the callers tell
	})
	if err != nil {
		return nil, err
	}
	// One dependency, so one breaker, one bulkhead and one retry budget, for calls and streams together.
	config := steadygrpc.ClientConfig{
		Dependency: prices,
		Intent: func(fullMethod string) steady.Intent {
			if fullMethod == orderMethod {
				return steady.WriteNonIdempotent // there is no key by which the server would know a repetition
			}
			return steady.ReadIdempotent
		},
		LongLived: func(fullMethod string) bool { return fullMethod == watchMethod },
	}
	unary, unaryErr := steadygrpc.NewUnaryClientInterceptor(config)
	stream, streamErr := steadygrpc.NewStreamClientInterceptor(config)
	if err := errors.Join(unaryErr, streamErr); err != nil {
		return nil, err
	}
	conn, err := grpc.NewClient(addr,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.5, MaxDelay: 200 * time.Millisecond}}),
		grpc.WithChainUnaryInterceptor(unary),
		grpc.WithChainStreamInterceptor(stream))
	return &Client{prices, conn}, err
}

// Close closes the connection, and with it every stream.
func (c *Client) Close() { _ = c.conn.Close() }

// Price asks for the price of an article.
func (c *Client) Price(ctx context.Context, article string) (float64, error) {
	price := new(wrapperspb.DoubleValue)
	err := c.conn.Invoke(ctx, getMethod, wrapperspb.String(article), price)
	return price.GetValue(), err
}

// Order orders under a reference. The server delivers whatever it is sent.
func (c *Client) Order(ctx context.Context, reference string) error {
	return c.conn.Invoke(ctx, orderMethod, wrapperspb.String(reference), new(wrapperspb.StringValue))
}

// Watch calls f with every new price of an article, until the context ends or the stream breaks.
func (c *Client) Watch(ctx context.Context, article string, f func(price float64)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // so the stream ends, whatever becomes of f
	stream, err := c.conn.NewStream(ctx, &pricesDesc.Streams[0], watchMethod)
	if err != nil {
		return err
	}
	if err := errors.Join(stream.SendMsg(wrapperspb.String(article)), stream.CloseSend()); err != nil {
		return err
	}
	for {
		price := new(wrapperspb.DoubleValue)
		if err := stream.RecvMsg(price); err != nil {
			return err
		}
		f(price.GetValue())
	}
}
