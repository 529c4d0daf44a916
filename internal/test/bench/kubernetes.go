//go:build unix

// Sessions in pods, beside pods that are made by the plain API.

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/cluster/kube"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/cluster"
)

// pods are plain ones in a namespace of the cluster.
type pods struct {
	*kube.Client
	of *cluster.Cluster
}

// inCluster measures what sessions in pods take, where KUBECONFIG names a cluster. settings are the server's.
func (b *bench) inCluster(measure func(ctx context.Context, p *pods, settings []string)) func(context.Context) {
	return func(ctx context.Context) {
		if os.Getenv("KUBECONFIG") == "" {
			b.row("sessions in pods", "not measured: KUBECONFIG is not set", "", "")
			return
		}
		b.server = b.serverProgram()
		of := must(cluster.Open())
		defer func() { check(of.Close()) }()
		image := containers.ImageRef("python")
		check(of.LoadImages(image))
		measure(ctx, &pods{must(kube.Open(kube.Options{Kubeconfig: of.Kubeconfig})), of}, []string{
			"--engine=kubernetes", "--kubeconfig", of.Kubeconfig, "--runtime-class", of.RuntimeClass, "--storage-class", of.StorageClass,
			"--python-image", image, "--js-image", image, "--bash-image=off", "--max-sessions=100",
		})
	}
}

// podStarts measures the starts of sessions, by turns with those of pods, because a machine changes.
func (b *bench) podStarts(ctx context.Context, p *pods, settings []string) {
	alone := append(slices.Clone(settings), "--storage-class=")
	with, without := b.start(ctx, settings...), b.start(ctx, alone...)
	defer with.close()
	defer without.close()
	var plain, claim, cold series
	for i := range 2 * b.rounds {
		id := fmt.Sprintf("bench-%d", i)
		began := time.Now()
		p.running(ctx, id)
		plain = append(plain, time.Since(began))
		p.end(ctx, id)
		cold = append(cold, without.call("run_python_code", "print(1)", object{"session_id": id + "-pod"}))
		without.closeSession(id + "-pod")
		claim = append(claim, with.call("run_python_code", "print(1)", object{"session_id": id}))
		with.closeSession(id)
	}
	b.row("pod: first call of a session", cold.String(), "1.3 x the floor", "plain pod running "+plain.String())
	b.row("pod: the same with a claim", claim.String(), "", "")
	warmed := b.start(ctx, append(alone, "--spares=1")...)
	defer warmed.close()
	warmed.call("run_python_code", "print(1)", nil)
	var spare series
	for i := range 2 * b.rounds {
		time.Sleep(2 * settle)         // the next one is made ready
		id := fmt.Sprintf("new-%d", i) // spare-… gets none
		spare = append(spare, warmed.call("run_python_code", "print(1)", object{"session_id": id}))
		warmed.closeSession(id)
	}
	b.row("pod: the same without a claim, from a spare", spare.String(), "100 ms", "")
}

func (b *bench) podCalls(ctx context.Context, p *pods, settings []string) {
	p.running(ctx, "bench-exec")
	defer p.end(ctx, "bench-exec")
	first, trips := p.echo("bench-exec", b.calls)
	c := b.start(ctx, settings...)
	defer c.close()
	c.call("run_python_code", "x = 1", nil)
	time.Sleep(settle)
	b.row("pod: warm call in Python", calls(c, b.calls, 0, "run_python_code").String(), "the floor + 1.5 ms", "exec round trip "+trips.String()+", to its first byte "+short(first))
}

// podCrowd measures many sessions at once.
func (b *bench) podCrowd(ctx context.Context, p *pods, settings []string) {
	began := time.Now()
	done := make(chan error)
	for i := range 20 {
		go func() { done <- try(func() { p.running(ctx, fmt.Sprintf("bench-together-%d", i)) }) }()
	}
	var failed []error
	for range 20 {
		failed = append(failed, <-done)
	}
	plain := time.Since(began)
	for i := range 20 {
		p.end(ctx, fmt.Sprintf("bench-together-%d", i))
	}
	check(errors.Join(failed...))
	c := b.start(ctx, settings...)
	defer c.close()
	sessions := names(50)
	b.row("pod: 20 sessions created and run at once", c.together(sessions[:20]...).String(), "1.3 x the floor", "20 plain pods running "+short(plain))
	for i := 20; i < len(sessions); i += 10 {
		c.together(sessions[i : i+10]...)
	}
	b.row("pod: a call in each of the 50 at once", c.together(sessions...).String(), "none lost", "")
	b.row("pod: server RSS with 50 sessions", c.rss(), "90 MB with 200", "")
	for _, id := range sessions {
		c.closeSession(id)
	}
}

func (p *pods) end(ctx context.Context, name string) {
	check(p.Delete(ctx, name, &core.Pod{}, 1))
}

// running makes a pod and waits until its container runs.
func (p *pods) running(ctx context.Context, name string) {
	user := int64(10_000)
	pod := &core.Pod{ObjectMeta: meta.ObjectMeta{Name: name}, Spec: core.PodSpec{
		RestartPolicy: core.RestartPolicyNever, AutomountServiceAccountToken: new(false), EnableServiceLinks: new(false), RuntimeClassName: &p.of.RuntimeClass,
		SecurityContext: &core.PodSecurityContext{RunAsNonRoot: new(true), RunAsUser: &user, RunAsGroup: &user, FSGroup: &user, SeccompProfile: &core.SeccompProfile{Type: core.SeccompProfileTypeRuntimeDefault}},
		Containers: []core.Container{{
			Name: "main", Image: containers.ImageRef("python"), Command: []string{"sleep", "600"}, ImagePullPolicy: core.PullIfNotPresent,
			SecurityContext: &core.SecurityContext{AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true), Capabilities: &core.Capabilities{Drop: []core.Capability{"ALL"}}},
			VolumeMounts:    []core.VolumeMount{{Name: "data", MountPath: "/mnt/data"}},
		}},
		Volumes: []core.Volume{{Name: "data", VolumeSource: core.VolumeSource{EmptyDir: &core.EmptyDirVolumeSource{}}}},
	}}
	check(p.Create(ctx, pod))
	w := must(p.Watch(ctx, &core.PodList{}, name, "", pod.ResourceVersion))
	defer w.Stop()
	for event := range w.ResultChan() {
		if now, is := event.Object.(*core.Pod); is && now.Status.Phase == core.PodRunning {
			return
		}
	}
	check(fmt.Errorf("pod %s does not run", name))
}

// echo starts the least program in a pod: to its first byte, and lines there and back.
func (p *pods) echo(pod string, times int) (first time.Duration, trips series) {
	began := time.Now()
	s := must(p.Exec(pod, "main", []string{"python3", "-Sc", echo}, io.Discard))
	defer func() { _ = s.Close() }()
	lines := bufio.NewReader(s)
	must(lines.ReadString('\n'))
	first = time.Since(began)
	for range times {
		began = time.Now()
		must(io.WriteString(s, "x\n"))
		must(lines.ReadString('\n'))
		trips = append(trips, time.Since(began))
	}
	return first, trips
}
