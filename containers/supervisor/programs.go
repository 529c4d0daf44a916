//go:build linux

package main

import (
	"os"
	"slices"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/procs"
)

// programs are the processes of runs and their leftovers: all but kernels, zygotes and the browser.
func (ks *kernels) programs(table procs.Table) map[int]bool {
	programs := table.Family(os.Getpid())
	for pid := range ks.s.reserve.zygoteFamily(table) {
		delete(programs, pid)
	}
	for pid := range ks.s.browsers(table) {
		delete(programs, pid)
	}
	for _, k := range ks.all() {
		delete(programs, k.pid)
	}
	for _, r := range ks.s.runs.all {
		if r.Fresh && r.kernel != nil {
			for pid := range ownedBy(table, r.kernel.pid) {
				delete(programs, pid)
			}
		}
	}
	return programs
}

// ownedBy lists the programs of a kernel, except those that left both its family and its session.
func ownedBy(table procs.Table, kernel int) map[int]bool {
	owned := table.Family(kernel)
	for pid, p := range table {
		if p.Session == kernel && pid != kernel {
			owned[pid] = true
		}
	}
	return owned
}

// strays are the programs that do not belong to a kernel that stays. There are none to be told while a twin is on its way, whose
// process is not known before it speaks.
func (ks *kernels) strays(table procs.Table) map[int]bool {
	if slices.ContainsFunc(ks.s.twins.coming, func(n *twin) bool { return !n.ready }) {
		return nil
	}
	strays := ks.programs(table)
	if ks.main != nil {
		for pid := range table.Family(ks.main.pid) {
			delete(strays, pid)
		}
	}
	return strays
}

func killAll(choose func(procs.Table) map[int]bool) {
	if !procs.KillAll(choose) && isContainer {
		shutDown() // the end of the container is the end of everything
	}
}
