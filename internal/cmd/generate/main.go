// Command generate writes the files of a release beside its programs: in FOLDER a folder for each program, with the folders man and
// completions. They hold a man page for each command, and completions for each shell.
//
//	go run ./internal/cmd/generate FOLDER
//
// SOURCE_DATE_EPOCH, if set, dates the pages.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/allfeatures"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/cmd"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: generate FOLDER")
		os.Exit(2)
	}
	for _, program := range []cmd.Program{{Name: "code-sandbox-mcp"}, allfeatures.Program} {
		if err := generate(program.Command(), filepath.Join(os.Args[1], program.Name)); err != nil {
			fmt.Fprintln(os.Stderr, "generate:", err)
			os.Exit(1)
		}
	}
}

func generate(command *cobra.Command, folder string) error {
	man, completions := filepath.Join(folder, "man"), filepath.Join(folder, "completions")
	for _, dir := range []string{man, completions} {
		if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o755)); err != nil { //nolint:gosec // it is packed for everybody
			return err
		}
	}
	command.DisableAutoGenTag = true
	if err := doc.GenManTree(command, &doc.GenManHeader{Section: "1", Source: command.Name(), Manual: "User Commands"}, man); err != nil {
		return err
	}
	file := filepath.Join(completions, command.Name())
	return errors.Join(
		command.GenBashCompletionFileV2(file+".bash", true),
		command.GenZshCompletionFile(file+".zsh"),
		command.GenFishCompletionFile(file+".fish", true),
		command.GenPowerShellCompletionFileWithDesc(file+".ps1"),
	)
}
