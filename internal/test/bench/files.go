//go:build unix

package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// fileCount is how many files a session has in the measurement of what they cost.
const fileCount = 20_000

// manyFiles measures what a run costs that changes one file among many, beside one that changes one
// where there are none, and what it costs to list them.
func (b *bench) manyFiles(ctx context.Context, _ floors) error {
	c, err := start(ctx, b.server)
	if err != nil {
		return err
	}
	defer c.close()
	if _, err := c.call("run_python_code", "import os", nil); err != nil {
		return err
	}
	time.Sleep(settle)
	alone, err := b.writes(c)
	if err != nil {
		return err
	}
	const many = `for i in range(%d):
    os.makedirs(f"many/{i %% 100}", exist_ok=True)
    open(f"many/{i %% 100}/{i}.txt", "w").close()`
	if _, err := c.call("run_python_code", fmt.Sprintf(many, fileCount), nil); err != nil {
		return err
	}
	among, err := b.writes(c)
	if err != nil {
		return err
	}
	b.row("a run that changes one file of 20,000", among.String(), "", "of one: "+alone.String())
	var took series
	for range b.rounds {
		d, err := c.tool("list_artifacts", map[string]any{"glob": "many/7/*"})
		if err != nil {
			return err
		}
		took = append(took, d)
	}
	b.row("list_artifacts of 20,000 files with a glob", took.String(), "", "")
	return nil
}

func (b *bench) writes(c *client) (series, error) {
	return calls(c, 10*b.rounds, 0, "run_python_code", `open("one.txt", "a").write("x")`)
}

// uploadBytes is what one upload brings in the measurement of what it costs.
const uploadBytes = 500 << 20

// upload measures a large file's way in, and what it costs the server.
func (b *bench) upload(ctx context.Context, _ floors) error {
	dir, err := os.MkdirTemp("", "bench-upload-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path := filepath.Join(dir, "large.bin")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		return err
	}
	if err := os.Truncate(path, uploadBytes); err != nil {
		return err
	}
	c, err := start(ctx, b.server, "--allow-host-dir", dir, "--download-limit", "600MiB")
	if err != nil {
		return err
	}
	defer c.close()
	if _, err := c.tool("upload_file", map[string]any{"filename": "small.txt", "text": "x"}); err != nil {
		return err
	}
	before := c.memory("VmRSS:")
	took, err := c.tool("upload_file", map[string]any{"filename": "large.bin", "host_path": path})
	if err != nil {
		return err
	}
	b.row("upload_file of 500 MiB from the host", fmt.Sprintf("%v, %.0f MiB/s", took.Round(time.Millisecond), 500/took.Seconds()), "", "")
	b.row("server RSS at the peak of that, over before", inMB(c.memory("VmHWM:")-before), "16 MB", "")
	var small series
	for i := range 10 * b.rounds {
		d, err := c.tool("upload_file", map[string]any{"filename": fmt.Sprintf("small-%d.txt", i), "text": "x"})
		if err != nil {
			return err
		}
		small = append(small, d)
	}
	b.row("upload_file of a small text", small.String(), "", "")
	var read series
	for range 10 * b.rounds {
		d, err := c.tool("read_artifact", map[string]any{"path": "input/small-0.txt"})
		if err != nil {
			return err
		}
		read = append(read, d)
	}
	b.row("read_artifact of a small text", read.String(), "", "")
	return nil
}

// linkBytes is what a download and an upload by a link move in the measurement of what they cost.
const linkBytes = 500_000_000

// links measures a large file's way by download and upload links, and what it costs the server.
func (b *bench) links(ctx context.Context, floor floors) error {
	c, err := start(ctx, b.server, "--files-http", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer c.close()
	var made struct {
		Artifacts []struct {
			URL string `json:"download_url"`
		}
	}
	code := fmt.Sprintf("import os\nwith open('output/large.bin', 'wb') as f:\n    for i in range(500): f.write(os.urandom(%d))", linkBytes/500)
	if err := c.fields("run_python_code", map[string]any{"code": code}, &made); err != nil {
		return err
	}
	if len(made.Artifacts) != 1 {
		return fmt.Errorf("a file was made, and %d are listed", len(made.Artifacts))
	}
	before := c.memory("VmRSS:")
	var took series
	for range b.rounds {
		d, err := move(ctx, http.MethodGet, made.Artifacts[0].URL, nil)
		if err != nil {
			return err
		}
		took = append(took, d)
	}
	b.row("download of 500 MB by a link", fmt.Sprintf("%s, %.0f MB/s", took, linkBytes/1e6/took.at(50).Seconds()), "200 MB/s",
		fmt.Sprintf("attached stdout %.0f MB/s", pourBytes/1e6/floor.pour.at(50).Seconds()))
	b.row("server RSS at the peak of that, over before", inMB(c.memory("VmHWM:")-before), "16 MB", "")
	var put struct {
		URL string `json:"upload_url"`
	}
	if err := c.fields("upload_file", map[string]any{"filename": "large.bin"}, &put); err != nil {
		return err
	}
	d, err := move(ctx, http.MethodPut, put.URL, io.LimitReader(zeros{}, linkBytes))
	if err != nil {
		return err
	}
	b.row("upload of 500 MB by a link", fmt.Sprintf("%s, %.0f MB/s", short(d), linkBytes/1e6/d.Seconds()), "", "")
	return nil
}

// zeros is content without an end.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

// move sends or gets a large file by a link, and returns how long that took.
func move(ctx context.Context, method, link string, content io.Reader) (time.Duration, error) {
	request, err := http.NewRequestWithContext(ctx, method, link, content)
	if err != nil {
		return 0, err
	}
	if content != nil {
		request.ContentLength = linkBytes
	}
	began := time.Now()
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	defer func() { _ = answer.Body.Close() }()
	n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, answer.Body, make([]byte, 256<<10))
	if err == nil && (answer.StatusCode/100 != 2 || method == http.MethodGet && n != linkBytes) {
		err = fmt.Errorf("%s: %s, %d bytes", method, answer.Status, n)
	}
	return time.Since(began), err
}

// takeOver measures the first call of a server in a session that an earlier one left.
func (b *bench) takeOver(ctx context.Context, floor floors) error {
	const id = "bench-kept"
	session := map[string]any{"session_id": id}
	var took series
	for range b.rounds + 1 {
		c, err := start(ctx, b.server)
		if err != nil {
			return err
		}
		d, err := c.call("run_python_code", "x = 1", session)
		if err != nil {
			return err
		}
		took = append(took, d)
		c.close()
	}
	b.row("first call of a server that takes a session over", took[1:].String(), "", "container up "+floor.containerUp.String())
	c, err := start(ctx, b.server)
	if err != nil {
		return err
	}
	defer c.close()
	_, err = c.tool("close_session", session)
	return err
}
