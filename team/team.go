// Package team holds the features of a server for several people: their identities, their rights, and the record of their actions.
package team

import (
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/server"
)

// Features returns the features.
func Features() []server.Feature {
	return []server.Feature{quotas(), policyFeature(), principals(), auditFeature()}
}

// quotas bound all sessions of a principal together.
func quotas() server.Feature {
	return server.Feature{Name: "quotas", PrincipalSettings: func(s *server.Settings) []server.SettingGroup {
		c, d, n := &s.Sandbox, &s.Tools, &s.Network
		return []server.SettingGroup{{Title: "Quotas", Settings: []server.Setting{
			server.Row("max-kernels", "N", &c.Quota.MaxKernels, 0, 0, "kernels at a time in all sessions of a principal; one more freezes the named session that was idle longest; 0: no limit"),
			server.Row("memory-total", "SIZE", server.Size(&c.Quota.MemoryBytes), 0, 0, "what the containers of all sessions of a principal may have in memory, by their limits; 0: no limit"),
			server.Row("cpu-total", "N", &c.Quota.CPUs, 0, 0, "processors of all of them, by their limits; 0: no limit"),
			server.Row("disk-total", "SIZE", server.Size(&c.Quota.DiskBytes), 0, 0, "what the files and histories of all sessions of a principal may take, those that sleep too; 0: no limit"),
			server.Row("calls-per-minute", "N", &d.CallsPerMinute, 0, 0, "calls that a principal may make in a minute: of tools and REST, resources, uses of links; 0: no limit"),
			server.Row("bytes-out-limit", "SIZE", server.Size(&n.Limits.HourBytes), 0, 0, "what all sessions of a principal may send in an hour; 0: no limit"),
		}}}
	}}
}
