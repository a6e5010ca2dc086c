package main

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// The service, as protoc would generate it from
//
//	service Prices {
//	  rpc Get(google.protobuf.StringValue) returns (google.protobuf.DoubleValue);
//	  rpc Watch(google.protobuf.StringValue) returns (stream google.protobuf.DoubleValue);
//	  rpc Order(google.protobuf.StringValue) returns (google.protobuf.StringValue);
//	}
//
// but written by hand, so that the example needs no tools.
const (
	getMethod   = "/Prices/Get"
	watchMethod = "/Prices/Watch"
	orderMethod = "/Prices/Order"
)

type prices interface {
	Get(ctx context.Context, article *wrapperspb.StringValue) (*wrapperspb.DoubleValue, error)
	Watch(article *wrapperspb.StringValue, stream grpc.ServerStreamingServer[wrapperspb.DoubleValue]) error
	Order(ctx context.Context, reference *wrapperspb.StringValue) (*wrapperspb.StringValue, error)
}

var pricesDesc = grpc.ServiceDesc{
	ServiceName: "Prices",
	HandlerType: (*prices)(nil),
	Methods: []grpc.MethodDesc{
		{MethodName: "Get", Handler: unary(getMethod, prices.Get)},
		{MethodName: "Order", Handler: unary(orderMethod, prices.Order)},
	},
	Streams: []grpc.StreamDesc{{StreamName: "Watch", ServerStreams: true, Handler: func(srv any, stream grpc.ServerStream) error {
		article := new(wrapperspb.StringValue)
		if err := stream.RecvMsg(article); err != nil {
			return err
		}
		return srv.(prices).Watch(article, &grpc.GenericServerStream[wrapperspb.StringValue, wrapperspb.DoubleValue]{ServerStream: stream})
	}}},
}

func unary[R any](fullMethod string, method func(prices, context.Context, *wrapperspb.StringValue) (R, error)) grpc.MethodHandler {
	return func(srv any, ctx context.Context, decode func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error) {
		in := new(wrapperspb.StringValue)
		if err := decode(in); err != nil {
			return nil, err
		}
		handler := func(ctx context.Context, req any) (any, error) {
			return method(srv.(prices), ctx, req.(*wrapperspb.StringValue))
		}
		if interceptor == nil {
			return handler(ctx, in)
		}
		return interceptor(ctx, in, &grpc.UnaryServerInfo{Server: srv, FullMethod: fullMethod}, handler)
	}
}
