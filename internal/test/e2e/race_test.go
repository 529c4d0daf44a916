//go:build race

package e2e

// raceDetector reports whether the tests were built with the race detector, and so is the program under
// test. It ends with exit status 66 where it had a race, which no test takes for an end in order.
const raceDetector = true
