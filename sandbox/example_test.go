package sandbox_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/podman"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/podman/service"
)

// A program runs Python, whose variables last from run to run, and reads a file that the code has made.
func Example() {
	stateDir, err := os.MkdirTemp("", "sandbox-example-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(stateDir)
	engine := podman.Open(service.Options{})
	defer engine.Close()
	config := sandbox.DefaultConfig()
	config.Engine, config.StateDir = engine, stateDir
	config.Kernels = map[sandbox.Language]sandbox.KernelConfig{sandbox.Python: podman.Kernel(sandbox.Python, "")}
	manager := sandbox.NewManager(config)
	defer manager.Close(context.Background())

	for _, code := range []string{
		"squares = [n * n for n in range(5)]; print(squares)",
		"open('sum.txt', 'w').write(f'the sum is {sum(squares)}')",
		"squares[99]",
	} {
		result, err := run(manager, code)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(result.Status, result.ExitCode)
		fmt.Print(result.Stdout.Head)
		if result.Error != nil {
			fmt.Println(result.Error.Name)
		}
		for _, artifact := range result.Artifacts {
			file, err := manager.OpenFile(context.Background(), result.SessionID, artifact.Path, sandbox.ReadOptions{Limit: -1})
			if err != nil {
				fmt.Println(err)
				return
			}
			text, err := io.ReadAll(file)
			fmt.Printf("%s: %s %v\n", artifact.Path, text, err)
			file.Close()
		}
	}
	_, err = run(manager, "")
	if fault := (*sandbox.Fault)(nil); errors.As(err, &fault) {
		fmt.Println(fault.Code, "-", fault.Hint)
	}

	// Output:
	// completed 0
	// [0, 1, 4, 9, 16]
	// completed 0
	// sum.txt: the sum is 30 <nil>
	// failed 1
	// IndexError
	// invalid_argument - Pass the code to run as text.
}

// run runs code in the default session, and returns what it came to.
func run(manager *sandbox.Manager, code string) (*sandbox.Result, error) {
	run, err := manager.Run(sandbox.RunOptions{Language: sandbox.Python, Code: code})
	if err != nil {
		return nil, err
	}
	<-run.Done()
	return run.Result()
}
