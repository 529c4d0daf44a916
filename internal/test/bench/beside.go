//go:build unix

package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	testpg "github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/postgres"
)

// beside measures two programs in turns, so that a noisy machine is noisy for both. A scenario prepares a new server and returns what is
// measured of it.
func (b *bench) beside(ctx context.Context) {
	if b.other == "" {
		return
	}
	dir := must(os.MkdirTemp("", "bench-beside-"))
	defer func() { _ = os.RemoveAll(dir) }()
	large := filepath.Join(dir, "large.bin")
	check(os.WriteFile(large, nil, 0o600))
	check(os.Truncate(large, 100_000_000))
	db := must(testpg.Start(ctx))
	defer db.Stop()
	check(os.Setenv("SANDBOX_SQL_BENCH", db.DSN(testpg.Superuser)))
	run := func(c *client, code string) { c.call(python, code, object{"session_id": "s", "timeout_seconds": 300}) }
	back := func(change string) func(*client) func() time.Duration {
		return func(c *client) func() time.Duration {
			run(c, "x = 0\ndef write(n, size):\n    for i in range(n): open(f'f{i}', 'wb').write(bytes([x]) * size)")
			return func() time.Duration {
				run(c, "x = 1\n"+change)
				time.Sleep(time.Second) // an older program has no undo of a run that follows at once
				id := c.runID("x = 2\n"+change, object{"session_id": "s"})
				time.Sleep(time.Second)
				return c.tool("restore_session", object{"session_id": "s", "run_id": id})
			}
		}
	}
	for _, s := range []struct {
		what   string
		rounds int
		args   string
		ready  func(c *client) (measure func() time.Duration)
	}{
		{"warm call in Python", 200, "", func(c *client) func() time.Duration {
			return func() time.Duration { return c.call(python, "x = 1", nil) }
		}},
		{"the same behind a pause of 0.3 s", 20, "", func(c *client) func() time.Duration {
			return func() time.Duration { time.Sleep(rest); return c.call(python, "x = 1", nil) }
		}},
		{"warm call in JavaScript", 200, "", func(c *client) func() time.Duration {
			return func() time.Duration { return c.call("run_js_code", "x = 1", nil) }
		}},
		{"fresh run in Python, the first not counted", 10, "", func(c *client) func() time.Duration {
			fresh := func() time.Duration { return c.call(python, "print(1)", object{"session_id": "s", "fresh": true}) }
			run(c, "1")
			fresh()
			return func() time.Duration { time.Sleep(3 * time.Second); return fresh() }
		}},
		{"a run undone", 20, "", back("write(1, 10)")},
		{"a run undone that wrote 1,000 files", 10, "", back("write(1000, 10)")},
		{"a run undone that wrote 256 MB", 10, "", back("write(1, 256_000_000)")},
		{"a killed kernel's variables back", 10, "", func(c *client) func() time.Duration {
			run(c, "x = 5")
			return func() time.Duration {
				time.Sleep(time.Second)
				c.ask(codeCall(python, "import os; os._exit(1)", object{"session_id": "s"}))
				return c.wantValue("x", "5", object{"session_id": "s"})
			}
		}},
		{"list_sessions", 50, "", func(c *client) func() time.Duration {
			for _, id := range names(8) {
				c.call("run_bash", "true", object{"session_id": id})
			}
			return func() time.Duration { return c.tool("list_sessions", object{}) }
		}},
		{"tools/list", 50, "", func(c *client) func() time.Duration {
			return func() time.Duration {
				began := time.Now()
				return c.request("tools/list", object{}).at.Sub(began)
			}
		}},
		{"upload of 100 MB from the host", 5, "--allow-host-dir=" + dir, func(c *client) func() time.Duration {
			n := 0
			return func() time.Duration {
				n++
				return c.tool("upload_file", object{"filename": fmt.Sprint("large", n), "host_path": large})
			}
		}},
		{"download of 500 MB by a link", 5, "--files-http=127.0.0.1:0", func(c *client) func() time.Duration {
			link := c.largeFile()
			return func() time.Duration { return move(ctx, http.MethodGet, link, nil) }
		}},
		{"exec_sql of 100,000 rows to CSV", 5, "", func(c *client) func() time.Duration {
			run(c, "1")
			query := strings.Replace(exportedQuery, "bench_numbers", "generate_series(1, 100000) AS t(n)", 1)
			return func() time.Duration {
				return c.tool("exec_sql", object{"session_id": "s", "query": query, "save_as": "rows.csv", "overwrite": true})
			}
		}},
		{"install of pandas 2.3.2", 3, "", func(c *client) func() time.Duration {
			n := 0
			return func() time.Duration {
				n++
				return c.tool("install_packages", object{"session_id": fmt.Sprint("i", n), "language": "python", "packages": []string{"pandas==2.3.2"}})
			}
		}},
	} {
		if b.part != "" && !strings.Contains(s.what, b.part) {
			continue
		}
		b.attempt(s.what, "", "", func() string {
			var took [2]series
			var measure [2]func() time.Duration
			for i, program := range []string{b.server, b.other} {
				c := start(ctx, program, append(strings.Fields(s.args), "--state-dir="+filepath.Join(dir, fmt.Sprint(i)))...)
				defer c.close()
				measure[i] = s.ready(c)
			}
			time.Sleep(settle)
			for range s.rounds {
				for i := range took {
					took[i] = append(took[i], measure[i]())
				}
			}
			slices.Sort(took[0])
			slices.Sort(took[1])
			here, there := took[0][s.rounds/2], took[1][s.rounds/2]
			return fmt.Sprintf("%v, the other %v: %.2f", here.Round(10*time.Microsecond), there.Round(10*time.Microsecond), here.Seconds()/there.Seconds())
		})
	}
}
