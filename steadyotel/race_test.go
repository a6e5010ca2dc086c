//go:build race

package steadyotel_test

const raceEnabled = true
