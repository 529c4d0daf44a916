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

// uploadBytes is what one upload brings in the measurement of what it costs.
const uploadBytes = 500 << 20

// upload measures a large file's way in, and what it costs the server.
func (b *bench) upload(ctx context.Context) {
	dir := must(os.MkdirTemp("", "bench-upload-"))
	defer func() { _ = os.RemoveAll(dir) }()
	path := filepath.Join(dir, "large.bin")
	check(os.WriteFile(path, nil, 0o600))
	check(os.Truncate(path, uploadBytes))
	c := b.start(ctx, "--allow-host-dir", dir, "--download-limit", "600MiB")
	defer c.close()
	c.tool("upload_file", object{"filename": "small.txt", "text": "x"})
	before := c.memory("VmRSS:")
	took := c.tool("upload_file", object{"filename": "large.bin", "host_path": path})
	b.row("upload_file of 500 MiB from the host", fmt.Sprintf("%v, %.0f MiB/s", took.Round(time.Millisecond), 500/took.Seconds()), "", "")
	b.row("server RSS at the peak of that, over before", inMB(c.memory("VmHWM:")-before), "16 MB", "")
}

// linkBytes is what a download and an upload by a link move in the measurement of what they cost.
const linkBytes = 500_000_000

// links measures a large file's way by download and upload links, and what it costs the server.
func (b *bench) links(ctx context.Context) {
	c := b.start(ctx, "--files-http", "127.0.0.1:0")
	defer c.close()
	link := c.largeFile()
	before := c.memory("VmRSS:")
	var took series
	for range b.rounds {
		took = append(took, move(ctx, http.MethodGet, link, nil))
	}
	b.row("download of 500 MB by a link", fmt.Sprintf("%s, %.0f MB/s", took, linkBytes/1e6/took.at(50).Seconds()), "200 MB/s",
		fmt.Sprintf("attached stdout %.0f MB/s", pourBytes/1e6/b.floor.pour.at(50).Seconds()))
	b.row("server RSS at the peak of that, over before", inMB(c.memory("VmHWM:")-before), "16 MB", "")
	var put struct {
		URL string `json:"upload_url"`
	}
	c.fields("upload_file", object{"filename": "large.bin"}, &put)
	d := move(ctx, http.MethodPut, put.URL, io.LimitReader(zeros{}, linkBytes))
	b.row("upload of 500 MB by a link", fmt.Sprintf("%s, %.0f MB/s", short(d), linkBytes/1e6/d.Seconds()), "", "")
}

// largeFile makes a file in the session, and returns its link.
func (c *client) largeFile() string {
	var made struct {
		Artifacts []struct {
			URL string `json:"download_url"`
		}
	}
	code := fmt.Sprintf("import os\nwith open('output/large.bin', 'wb') as f:\n    for i in range(500): f.write(os.urandom(%d))", linkBytes/500)
	if c.fields("run_python_code", object{"code": code}, &made); len(made.Artifacts) != 1 {
		check(fmt.Errorf("a file was made, and %d are listed", len(made.Artifacts)))
	}
	return made.Artifacts[0].URL
}

// zeros is content without an end.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

// move sends or gets a large file by a link, and returns how long that took.
func move(ctx context.Context, method, link string, content io.Reader) time.Duration {
	request := must(http.NewRequestWithContext(ctx, method, link, content))
	if content != nil {
		request.ContentLength = linkBytes
	}
	began := time.Now()
	answer, err := http.DefaultClient.Do(request)
	check(err)
	defer func() { _ = answer.Body.Close() }()
	n := must(io.CopyBuffer(struct{ io.Writer }{io.Discard}, answer.Body, make([]byte, 256<<10)))
	if answer.StatusCode/100 != 2 || method == http.MethodGet && n != linkBytes {
		check(fmt.Errorf("%s: %s, %d bytes", method, answer.Status, n))
	}
	return time.Since(began)
}
