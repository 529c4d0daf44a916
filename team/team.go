// Package team holds a server's features for several people: their identities, rights, and recorded actions.
package team

import (
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/server"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/setting"
)

// Features returns the features.
func Features() []server.Feature {
	return []server.Feature{quotas(), policyFeature(), principals(), auditFeature()}
}

// quotas bound all sessions of a principal together.
func quotas() server.Feature {
	return server.Feature{Name: "quotas", PrincipalSettings: func(s *setting.Settings) []setting.Group {
		c, d, n := &s.Sandbox, &s.Tools, &s.Network
		return []setting.Group{{Title: "Quotas", Settings: []setting.Setting{
			setting.Row("max-kernels", "N", &c.Quota.MaxKernels, 0, 0, "kernels at a time in all sessions of a principal; one more freezes the named session that was idle longest; 0: no limit"),
			setting.Row("memory-total", "SIZE", setting.Size(&c.Quota.MemoryBytes), 0, 0, "what the containers of all sessions of a principal may have in memory, by their limits; 0: no limit"),
			setting.Row("cpu-total", "N", &c.Quota.CPUs, 0, 0, "processors of all of them, by their limits; 0: no limit"),
			setting.Row("disk-total", "SIZE", setting.Size(&c.Quota.DiskBytes), 0, 0, "what the files and histories of all sessions of a principal may take, those that sleep too; 0: no limit"),
			setting.Row("calls-per-minute", "N", &d.CallsPerMinute, 0, 0, "calls that a principal may make in a minute: of tools and REST, resources, uses of links; 0: no limit"),
			setting.Row("bytes-out-limit", "SIZE", setting.Size(&n.Limits.HourBytes), 0, 0, "what all sessions of a principal may send in an hour; 0: no limit"),
		}}}
	}}
}
