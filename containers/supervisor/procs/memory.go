//go:build linux

package procs

import (
	"bytes"
	"os"
	"strconv"
)

// Memory is a container's memory that cannot be reclaimed: without the cache of files.
type Memory struct {
	Anonymous int64 // also where it was swapped out
	Shared    int64 // files in memory, such as those in /tmp
}

// Bytes returns all of it.
func (m Memory) Bytes() int64 { return m.Anonymous + m.Shared }

// Account is a control group that counts a container's memory.
type Account struct {
	limit, stat       string // files
	anonymous, shared string // names in stat
	swapped           string // likewise, or a file of its own
}

var accounts = []Account{
	{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.stat", "anon ", "shmem ", "/sys/fs/cgroup/memory.swap.current"},
	{
		"/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.stat",
		"total_rss ", "total_shmem ", "total_swap ",
	},
}

// FindAccount returns the account with this limit; nil: none is, and the visible ones count other processes too.
func FindAccount(limit int64) *Account {
	for i := range accounts {
		if accounts[i].hasLimit(limit) {
			return &accounts[i]
		}
	}
	return nil
}

func (a *Account) hasLimit(limit int64) bool {
	const page = 64 << 10 // limits are rounded to the largest one
	text, err := os.ReadFile(a.limit)
	n := number(bytes.TrimSpace(text))
	return err == nil && n > 0 && n < limit+page
}

// Read reads it.
func (a *Account) Read() Memory {
	room := make([]byte, 8<<10)
	text, ok := readSmall(a.stat, room)
	if !ok {
		return Memory{}
	}
	m := Memory{Anonymous: field(text, a.anonymous), Shared: field(text, a.shared)}
	if a.swapped[0] != '/' {
		m.Anonymous += field(text, a.swapped)
	} else if text, ok := readSmall(a.swapped, room); ok {
		m.Anonymous += number(bytes.TrimSpace(text))
	}
	return m
}

// Anonymous is a process's own memory; 0 if it is gone.
func Anonymous(pid int) int64 {
	text, ok := readSmall("/proc/"+strconv.Itoa(pid)+"/statm", make([]byte, 256))
	fields := bytes.Fields(text)
	if !ok || len(fields) < 3 {
		return 0
	}
	return (number(fields[1]) - number(fields[2])) * int64(os.Getpagesize())
}

// Anonymous returns the own memory of several processes.
func (t Table) Anonymous(counted map[int]bool) (all int64) {
	for pid := range counted {
		own := Anonymous(pid)
		if parent := t[pid].Parent; counted[parent] {
			own -= min(own, Anonymous(parent)) // a fork shares its parent's memory
		}
		all += own
	}
	return all
}
