package telemetry

import (
	"bufio"
	"fmt"
	"os"
)

// memory returns the total and available memory of this machine.
func memory() (m room) {
	file, err := os.Open("/proc/meminfo")
	if err != nil {
		return room{}
	}
	defer func() { _ = file.Close() }()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var kilobytes int64
		if _, err := fmt.Sscanf(lines.Text(), "MemTotal: %d kB", &kilobytes); err == nil {
			m.total = kilobytes << 10
		}
		if _, err := fmt.Sscanf(lines.Text(), "MemAvailable: %d kB", &kilobytes); err == nil {
			m.available = kilobytes << 10
		}
	}
	return m
}
