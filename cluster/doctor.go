// The part of `doctor` about a cluster.

package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/cluster/kube"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/cluster/kubernetes"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/doctor"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/place"
)

// look makes the engine's checks. They start one pod with the first image.
func look(on *kubernetes.Engine) func(context.Context, doctor.Options) (checks []doctor.Check, answers bool) {
	return func(ctx context.Context, o doctor.Options) ([]doctor.Check, bool) {
		info, err := on.Info(ctx)
		checks := clusterChecks(info, err)
		if err != nil || len(info.Missing) > 0 {
			return checks, false
		}
		checks = append(checks, podChecks(info)...)
		if len(o.Images) == 0 {
			return checks, true
		}
		seen, goesOn := podSeen(ctx, on, o, info)
		return append(checks, seen...), goesOn
	}
}

// clusterChecks judge the cluster's description of itself and this program. err is the reason for its gaps.
func clusterChecks(info kubernetes.Info, err error) []doctor.Check {
	check := doctor.Check{Name: "Kubernetes", Status: doctor.OK, Found: fmt.Sprintf("version %s at %s, by %s", info.Version, info.Server, info.Source)}
	var checks []doctor.Check
	if info.Version != "" {
		if info.Account != "" {
			check.Found += ", as " + info.Account
		}
		checks = append(checks, check, clockCheck(info), imageVolumes(info), rightsCheck(info))
	}
	if err == nil {
		return append(checks, namespaceCheck(info))
	}
	failed := doctor.Check{Name: "namespace", Status: doctor.Fail, Found: "not usable", Why: err.Error(), Fix: "run `kubectl get pods` and mend what it says"}
	switch {
	case info.Version == "":
		failed.Name, failed.Found = "Kubernetes", "not reachable"
	case strings.Contains(err.Error(), "RuntimeClass"):
		failed.Name = "RuntimeClass"
	}
	explain(&failed, err)
	return append(checks, failed)
}

// explain takes the words for a person from an engine's error, and keeps the rest in Why.
func explain(check *doctor.Check, err error) {
	reason, fix, ok := place.Explain(err)
	if !ok {
		return
	}
	check.Found, check.Fix, check.Why = strings.TrimSuffix(reason, "."), strings.TrimSuffix(fix, "."), ""
	var e *kubernetes.Error
	if errors.As(err, &e) && e.Err != nil {
		check.Why = e.Err.Error()
	}
}

// noticeable is the clock difference that is worth a word: tokens and certificates begin and end by them.
const noticeable = 5 * time.Second

func clockCheck(info kubernetes.Info) doctor.Check {
	check := doctor.Check{Name: "connection", Status: doctor.Info, Found: fmt.Sprintf("an answer takes %.1f ms; the clocks agree", float64(info.RoundTrip.Microseconds())/1000)}
	if ahead := info.Ahead.Round(time.Second); ahead.Abs() > noticeable {
		check.Found = strings.Replace(check.Found, "the clocks agree", fmt.Sprintf("the API server's clock is %v ahead of this machine's", ahead), 1)
	}
	return check
}

func imageVolumes(info kubernetes.Info) doctor.Check {
	check := doctor.Check{Name: "programs", Status: doctor.OK, Found: "mounted as an image"}
	if !info.ImageVolumes {
		check.Status, check.Found = doctor.Info, "copied by an init container, about a second for each pod: pods mount images since 1.36"
	}
	return check
}

func rightsCheck(info kubernetes.Info) doctor.Check {
	check := doctor.Check{Name: "rights", Status: doctor.OK, Found: "all that are needed in namespace " + info.Namespace}
	if len(info.Missing) == 0 {
		return check
	}
	check.Status, check.Why = doctor.Fail, "sessions are made of these"
	var names, fixes, order []string
	verbs := make(map[string][]string)
	for _, right := range info.Missing {
		names = append(names, right.String())
		resource := resourceOf(right)
		if verbs[resource] == nil {
			order = append(order, resource)
		}
		verbs[resource] = append(verbs[resource], right.Verb)
	}
	check.Found = "missing in namespace " + info.Namespace + ": " + strings.Join(names, ", ")
	for _, resource := range order {
		name := "code-sandbox-mcp-" + strings.NewReplacer("/", "-", ".", "-").Replace(resource)
		fixes = append(fixes,
			fmt.Sprintf("kubectl create role %s --namespace %s --verb=%s --resource=%s", name, info.Namespace, strings.Join(verbs[resource], ","), resource),
			fmt.Sprintf("kubectl create rolebinding %s --namespace %s --role=%s %s", name, info.Namespace, name, subject(info.Account)))
	}
	check.Fix = "as an administrator: " + strings.Join(fixes, " && ") + "; or the Role of docs/kubernetes.md"
	return check
}

// resourceOf names a resource as kubectl does.
func resourceOf(r kube.Right) string {
	_, name, _ := strings.Cut(r.String(), " ")
	return name
}

// subject is kubectl's option for a role binding's subject.
func subject(account string) string {
	if of, is := strings.CutPrefix(account, "system:serviceaccount:"); is {
		return "--serviceaccount=" + of
	}
	return "--user=" + cmp.Or(account, "ACCOUNT")
}

func namespaceCheck(info kubernetes.Info) doctor.Check {
	check := doctor.Check{Name: "namespace", Status: doctor.OK, Found: info.Namespace + ", which enforces Pod Security " + info.PodSecurity}
	switch {
	case !info.LabelsKnown:
		check.Status, check.Found = doctor.Info, info.Namespace+"; this account may not see what Pod Security it enforces"
	case info.PodSecurity == "":
		check.Status, check.Found = doctor.Info, info.Namespace+", which enforces no Pod Security; our pods pass restricted"
	}
	return check
}

// podChecks judge pods' isolation with these settings, as far as it is known without one.
func podChecks(info kubernetes.Info) []doctor.Check {
	class := doctor.Check{Name: "RuntimeClass", Status: doctor.OK, Found: info.RuntimeClass}
	switch {
	case info.RuntimeClass == "":
		class.Found = "the cluster's default"
	case info.Handler != "":
		class.Found += ", which nodes know as " + info.Handler
	}
	namespaces := doctor.Check{Name: "user namespaces", Status: doctor.OK, Found: "one for each pod"}
	if !info.UserNamespaces {
		namespaces = doctor.Check{
			Name: "user namespaces", Status: doctor.Warn, Found: "none: pods have the nodes' users",
			Why: "code that broke out of its container would be an ordinary user of the node, if one whom nobody else is",
			Fix: "--pod-user-namespaces, where nodes have Linux 6.3, containerd 2.0 or CRI-O 1.31, and runc 1.2 or crun 1.9",
		}
	}
	users := doctor.Check{Name: "session users", Status: doctor.OK, Found: info.Users}
	if info.FewUsers {
		users.Status, users.Why = doctor.Warn, "two sessions may have one user then, whose processes count together, and whose files are each other's for code that broke out"
		users.Fix = "leave --pod-users out, or name a range of 65536 numbers or more, where the cluster admits that"
	}
	seccomp := doctor.Check{Name: "seccomp", Status: doctor.OK, Found: info.SeccompProfile}
	if info.SeccompProfile == "" {
		seccomp = doctor.Check{
			Name: "seccomp", Status: doctor.Warn, Found: "the container runtime's default list of system calls",
			Why: "it allows more of the kernel than this program's own: among others MPTCP, and limits and priorities of a session's other processes",
			Fix: "put docs/deploy/kubernetes/seccomp.json into the kubelet's seccomp folder of each node, and name it by --pod-seccomp",
		}
	}
	return []doctor.Check{class, namespaces, users, seccomp, {
		Name: "pids limit", Status: doctor.Warn, Found: "by the limit of the session's user",
		Why: "a pod has no limit of processes of its own, and the kubelet's cannot be seen from here",
		Fix: "podPidsLimit: 1024 in the kubelet's configuration, which many managed clusters have",
	}}
}

// podSeen starts a pod as a session's, and reports the evidence from it. goesOn: the image alone is at fault, if anything is.
func podSeen(ctx context.Context, on *kubernetes.Engine, o doctor.Options, info kubernetes.Info) (checks []doctor.Check, goesOn bool) {
	began := time.Now()
	err := doctor.TryContainer(ctx, o, o.Images[0], info.StorageClass != "")
	took := time.Since(began).Round(time.Millisecond)
	shown, met := on.Shown()
	network := doctor.Check{Name: "network", Status: doctor.OK, Found: "pods have nothing but loopback"}
	if !shown.Loopback {
		network.Found = "a NetworkPolicy is enforced: a pod reached neither its node, nor the API server, nor another pod"
	}
	switch {
	case errors.Is(err, engine.ErrImageMissing), errors.Is(err, engine.ErrNoInterpreter), errors.Is(err, engine.ErrArchitecture):
		return nil, true // its own check says so
	case errors.Is(err, kubernetes.ErrReaches):
		network.Status, network.Found, network.Why = doctor.Fail, "not shut off", err.Error()
		explain(&network, err)
		return []doctor.Check{network}, false
	case err != nil:
		check := doctor.Check{Name: "pod", Status: doctor.Fail, Found: "did not start", Why: err.Error(), Fix: "`kubectl get events --namespace " + info.Namespace + "` shows more"}
		if info.StorageClass != "" {
			check.Name = "pod with a claim of storage class " + info.StorageClass
		}
		explain(&check, err)
		return []doctor.Check{check}, false
	}
	if met {
		checks = append(checks, network)
	}
	storage := doctor.Check{Name: "storage class", Status: doctor.Info, Found: "none: files are in their session's pod, and end with it"}
	if info.StorageClass != "" {
		storage.Status, storage.Found = doctor.OK, fmt.Sprintf("%s: a claim was bound, and its pod started, in %v", info.StorageClass, took)
	}
	return append(checks, storage), true
}
