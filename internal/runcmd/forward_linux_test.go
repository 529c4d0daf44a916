package runcmd

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

func TestAnotherUserOfTheMachineDoesNotGetThrough(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root starts programs of another user")
	}
	l := must.Get(net.Listen("tcp4", loopback+":0"))(t)
	for user, own := range map[uint32]bool{0: true, 65534: false} {
		c := exec.CommandContext(t.Context(), "bash", "-c", fmt.Sprintf("exec 3<>/dev/tcp/%s/%d; cat <&3", loopback, l.Addr().(*net.TCPAddr).Port))
		c.Dir, c.SysProcAttr = "/", &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: user}}
		must.OK(t, c.Start())
		conn := must.Get(l.Accept())(t)
		should.Equal(t, isOwn(conn), own, strconv.Itoa(int(user)))
		must.OK(t, conn.Close())
		_ = c.Wait()
	}
}
