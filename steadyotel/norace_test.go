//go:build !race

package steadyotel_test

const raceEnabled = false
