// Package harness is what the integration tests share: proxies that make a network misbehave, a ledger of what became of
// every call, and the look at what is left when a scenario has ended.
package harness
