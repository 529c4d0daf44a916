//go:build linux

package main

import (
	"os"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/procs"
)

// programs are what runs have started and have left behind: all that is no kernel and no zygote.
func (s *Supervisor) programs(table procs.Table) map[int]bool {
	programs := table.Family(os.Getpid())
	for pid := range s.reserve.zygoteFamily(table) {
		delete(programs, pid)
	}
	for _, k := range s.kernels() {
		delete(programs, k.pid)
	}
	for _, r := range s.runs {
		if r.Fresh && r.kernel != nil {
			for pid := range ownedBy(table, r.kernel.pid) {
				delete(programs, pid)
			}
		}
	}
	return programs
}

// ownedBy is what a kernel has started, as far as that did not leave both its family and its session.
func ownedBy(table procs.Table, kernel int) map[int]bool {
	owned := table.Family(kernel)
	for pid, p := range table {
		if p.Session == kernel && pid != kernel {
			owned[pid] = true
		}
	}
	return owned
}

// strays are the programs that do not belong to a kernel that stays.
func (s *Supervisor) strays(table procs.Table) map[int]bool {
	strays := s.programs(table)
	if s.main != nil {
		for pid := range table.Family(s.main.pid) {
			delete(strays, pid)
		}
	}
	return strays
}

// killLeftovers kills what a dead main kernel had started, and nothing of fresh runs that go on.
func (s *Supervisor) killLeftovers() { s.killAll(s.programs) }

func (s *Supervisor) killAll(choose func(procs.Table) map[int]bool) {
	if !procs.KillAll(choose) && os.Getpid() == 1 {
		s.shutDown() // the end of the container is the end of everything
	}
}
