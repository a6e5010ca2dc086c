// Package steadysql protects SQL databases with steady's policies. It imports no driver, and needs nothing but the
// standard library and steady.
//
// There are two ways to use it, for one database choose one:
//
//   - The closure form, for every driver and for pgxpool: a pipeline around a function that reads its rows to the end.
//     [Query], [Exec] and [InTx] make that short. It can retry, and time spent waiting for a connection of the pool is
//     inside the policies.
//   - [Wrap], for a *sql.DB whose code stays as it is: breaker, bulkhead and timeout around everything that the pool
//     does with a connection. Nothing is retried but what database/sql itself tries again.
//
// [Classify] says what the error of a database means, for the closure form and for Wrap; as DependencyConfig.Classify
// it serves every pipeline of a dependency:
//
//	orders, err := steady.NewDependency(steady.DependencyConfig{
//		Name:     "orders",
//		Timeout:  2 * time.Second,
//		Breaker:  steady.BreakerConfig{SlowThreshold: 250 * time.Millisecond, WindowSize: 10, MinCalls: 5},
//		Bulkhead: steady.BulkheadConfig{MaxConcurrent: 8}, // fewer than db.SetMaxOpenConns
//		Classify: steadysql.Classify,
//	})
//
// A Bulkhead with fewer slots than the pool has connections keeps the pool from running dry: what finds no slot is
// rejected at once, instead of waiting for a connection that slow queries hold. And those slots are what opens the breaker
// while all of them hang, if MinCalls and half of WindowSize are no more.
package steadysql
