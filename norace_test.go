//go:build !race

package steady_test

const raceEnabled = false
