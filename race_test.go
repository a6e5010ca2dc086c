//go:build race

package steady_test

// raceEnabled says that the tests were built with -race, under which sync.Pool drops items at random.
const raceEnabled = true
