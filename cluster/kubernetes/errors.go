// The cluster's answers, in words for a person and in package engine's errors.

package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"syscall"

	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/exec"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/cluster/kube"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
)

var (
	errClosed  = fmt.Errorf("%w: the engine was closed", engine.ErrEngineUnavailable)
	errNoReach = errors.New("a pod did not say what it reaches")
	// ErrReaches is in the error about a pod that reaches a forbidden address.
	ErrReaches         = errors.New("a pod reaches the network")
	errNoCanary        = errors.New("the pod that others must not reach does not listen")
	errNoUserNamespace = errors.New("the pod has a user namespace")
	errKilled          = errors.New("killed with what ran in the container")
)

// killed is the exit status after a SIGKILL.
const killed = 128 + int(syscall.SIGKILL)

// Error is an error that a person can mend. It matches its error in package engine.
type Error struct {
	Reason string // a sentence without a final stop and without secrets
	Fix    string // a command, or a sentence that names one
	Is     error  // of package engine, or ErrReaches; nil: none
	Err    error  // for the log; may be nil
}

// Error returns the reason and, for the log, the cause.
func (e *Error) Error() string {
	if e.Err == nil {
		return e.Reason
	}
	return e.Reason + ": " + e.Err.Error()
}

// Explain returns the words for a person: the reason and the fix.
func (e *Error) Explain() (reason, fix string) { return e.Reason + ".", e.Fix }

// Unwrap lets errors.Is find package engine's error and the cause.
func (e *Error) Unwrap() []error {
	var all []error
	for _, err := range []error{e.Is, e.Err} {
		if err != nil {
			all = append(all, err)
		}
	}
	return all
}

// preparing is for a pod on a node that still gets its images or volumes.
func preparing(pod *core.Pod) error {
	return &Error{
		Reason: "A node of the cluster gets the images for its first pod of them, which can take minutes",
		Fix:    "wait, or look at the pod's events: `kubectl describe pod " + pod.Name + " --namespace " + pod.Namespace + "`",
		Is:     engine.ErrPreparing, Err: engine.ErrEngineUnavailable,
	}
}

// noUserNamespace is for a pod with a user namespace that its node does not begin.
func noUserNamespace(pod *core.Pod) error {
	return &Error{
		Reason: "Node " + pod.Spec.NodeName + " does not begin the pod, as if it had no user namespaces, which --pod-user-namespaces asks for",
		Fix:    "leave that out, or have nodes with Linux 6.3, containerd 2.0 or CRI-O 1.31, and runc 1.2 or crun 1.9; `kubectl get events --namespace " + pod.Namespace + "` says why the pod waited",
		Is:     errNoUserNamespace,
	}
}

// notRemoved is for a pod that has to go before the next one of its session can come.
func notRemoved(pod *core.Pod, err error) error {
	node := pod.Spec.NodeName
	return &Error{
		Reason: fmt.Sprintf("The session's former pod, %s, is not removed yet: node %s may be lost", pod.Name, node),
		Fix:    fmt.Sprintf("try again; where `kubectl get node %s` says NotReady for long, and the machine is off, `kubectl delete node %s` frees its pods and volumes", node, node),
		Is:     engine.ErrEngineUnavailable, Err: err,
	}
}

// otherSettings is for a pod with the only copy of a session's files, which cannot take this server's settings.
func otherSettings(pod *core.Pod) error {
	return &Error{
		Reason: "This session's pod was made with other settings than this server has, or by another version, and its files are in it, so it stays",
		Fix:    "start the server and the version that it was made with; or save what is in it by those (`code-sandbox-server sessions export`), and close the session",
		Err:    fmt.Errorf("pod %s", pod.Name),
	}
}

const doctor = "run `code-sandbox-server doctor --engine kubernetes`"

// configError is for a configuration without a cluster.
func configError(err error) error {
	e := &Error{
		Reason: "No Kubernetes cluster is configured here", Fix: "name one by --kubeconfig or KUBECONFIG, or run the server in a pod with an account; `kubectl config view` shows what there is",
		Is: engine.ErrEngineUnavailable, Err: err,
	}
	if !clientcmd.IsEmptyConfig(err) {
		e.Reason, e.Fix = "The kubeconfig cannot be used: "+withoutPaths(firstLine(err.Error())), "name a file that is there, and can be read, by --kubeconfig or KUBECONFIG"
		if strings.Contains(e.Reason, "context") {
			e.Fix = "run `kubectl config get-contexts`, and name one that is there by --context"
		}
	}
	return e
}

var hostPath = regexp.MustCompile(`(^|[\s"'\[])(/|[A-Za-z]:\\)[^\s"':,\]]+`)

// withoutPaths removes the paths of this machine's files, which are in the log.
func withoutPaths(text string) string { return hostPath.ReplaceAllString(text, "${1}FILE") }

// otherCluster is for a configuration that was read again: the sessions stayed at the old place.
func otherCluster(now, before *kube.Client) error {
	return &Error{
		Reason: fmt.Sprintf("The kubeconfig names namespace %s at %s now, and this server's sessions are in %s at %s", now.Namespace, now.Host, before.Namespace, before.Host),
		Fix:    "choose the context of the sessions again, or start the server with --context or --namespace of another",
		Is:     engine.ErrEngineUnavailable,
	}
}

// missingRights names an account's missing rights.
func missingRights(namespace string, missing []kube.Right) error {
	names := make([]string, len(missing))
	for i, r := range missing {
		names[i] = r.String()
	}
	return &Error{
		Reason: fmt.Sprintf("This account may not %s in namespace %s", strings.Join(names, ", "), namespace),
		Fix:    "bind the Role of docs/kubernetes.md to it, or choose another --namespace or --context",
		Is:     engine.ErrEngineUnavailable,
	}
}

// apiError explains the API server's answer, or its absence.
func (e *Engine) apiError(c *kube.Client, err error) error {
	if err == nil {
		return nil
	}
	text := firstLine(err.Error())
	made := &Error{Err: err}
	switch {
	case e.closing.Err() != nil:
		return errClosed
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return err
	case apierrors.IsUnauthorized(err):
		if at := e.cluster.Load(); at != nil && at.Client == c {
			at.refused.Store(true) // the next call reads the configuration again
		}
		made.Reason, made.Fix, made.Is = "The API server does not accept this account's token or certificate, which may have expired", "sign in again (`kubectl get pods` does so where the kubeconfig can), then try again", engine.ErrEngineUnavailable
	case strings.Contains(text, "exceeded quota"):
		made.Reason, made.Fix = "The namespace's quota is used up: "+unprefixed(text), "close sessions, or have the ResourceQuota of namespace "+c.Namespace+" raised"
	case apierrors.IsForbidden(err) && strings.Contains(text, " usage per "):
		made.Reason, made.Fix = "The namespace's LimitRange does not admit the pod: "+unprefixed(text), "choose another --memory-limit or --cpu-limit, or have the LimitRange of namespace "+c.Namespace+" changed"
	case strings.Contains(text, "violates PodSecurity"):
		made.Reason, made.Fix = "Pod Security does not admit the pod: "+unprefixed(text), "the pod passes `restricted`; look for a webhook or policy that changes it"
	case strings.Contains(text, "security context constraint"):
		made.Reason, made.Fix = "OpenShift does not admit the pod's user", "start the server with --pod-users none, so that the cluster chooses the user"
	case strings.Contains(text, "pod rejected: RuntimeClass"):
		return noClass(e.opts.RuntimeClass)
	case strings.Contains(text, "denied the request"), strings.Contains(text, "denied request"):
		made.Reason, made.Fix = "A rule of the cluster does not admit the pod: "+unprefixed(text), "ask who runs the cluster for what it asks"
	case apierrors.IsForbidden(err) && strings.Contains(text, "being terminated"), apierrors.IsNotFound(err) && strings.Contains(text, "namespaces "):
		return noNamespace(c.Namespace, err)
	case apierrors.IsForbidden(err):
		made.Reason, made.Fix = "This account is not allowed to: "+text, "bind the Role of docs/kubernetes.md to it"
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		made.Reason, made.Fix = "The cluster does not accept what was asked for: "+text, doctor
	case isLost(err), apierrors.IsServiceUnavailable(err), apierrors.IsServerTimeout(err), apierrors.IsTooManyRequests(err), apierrors.IsInternalError(err):
		made.Reason, made.Fix, made.Is = "The Kubernetes API server does not answer", "check it by `kubectl get pods`, then try again", engine.ErrEngineUnavailable
	default:
		return err
	}
	return made
}

// isLost reports whether err means that there was no answer.
func isLost(err error) bool {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return false
	}
	var dial *net.OpError
	var request *url.Error
	return errors.As(err, &dial) || errors.As(err, &request) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.EPIPE)
}

// waitingError returns the error of a container that waits in vain; nil: it may yet run.
func waitingError(image string, w *core.ContainerStateWaiting) error {
	message := w.Reason
	if w.Message != "" {
		message += ": " + firstLine(w.Message)
	}
	switch w.Reason {
	case "ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "RegistryUnavailable", "ImageInspectError", "SignatureValidationFailed":
		return &Error{
			Reason: fmt.Sprintf("The cluster does not get image %s (%s)", image, message),
			Fix:    "make it known to the nodes, or name one that they can pull; a private registry's secret belongs to the namespace's default account", Is: engine.ErrImageMissing,
		}
	case "CreateContainerConfigError", "CreateContainerError", "RunContainerError", "StartError", "CreateContainerDeadlineExceeded", "CrashLoopBackOff":
		e := &Error{Reason: "The container does not start (" + message + ")", Fix: doctor}
		if strings.Contains(message, "executable file") || strings.Contains(message, "no such file") || strings.Contains(message, "exec format") {
			e.Is = engine.ErrNoInterpreter
			if strings.Contains(message, "exec format") {
				e.Is = engine.ErrArchitecture
			}
			if strings.Contains(message, supervisor) {
				e.Reason, e.Fix = "The image of --programs-image has not this program's supervisor ("+message+")", "leave --programs-image out, or make the image by `code-sandbox-server setup --programs-archive FILE`"
			}
		}
		return e
	}
	return nil
}

// terminatedError is for a container that ended before it was entered.
func terminatedError(t *core.ContainerStateTerminated) error {
	if t.Reason == "StartError" || t.Reason == "ContainerCannotRun" {
		return waitingError("", &core.ContainerStateWaiting{Reason: "StartError", Message: t.Message})
	}
	return fmt.Errorf("%w: %s, exit status %d %s", engine.ErrContainerGone, t.Reason, t.ExitCode, firstLine(t.Message))
}

// unscheduled is for a pod that no node takes. claim is its unbound claim; nil: it is bound, or there is none.
func unscheduled(pod *core.Pod, why string, claim *core.PersistentVolumeClaim) error {
	e := &Error{
		Reason: "No node takes the pod: " + firstLine(why), Fix: "close sessions, lower --memory-limit or --cpu-limit, or add a node",
		Err: fmt.Errorf("pod %s is not scheduled", pod.Name),
	}
	if claim != nil {
		e.Reason = fmt.Sprintf("No node takes the pod: claim %s has no volume of storage class %s yet", claim.Name, *claim.Spec.StorageClassName)
		if why != "" {
			e.Reason += ": " + firstLine(why)
		}
		e.Fix = fmt.Sprintf("name a class that makes volumes by --storage-class (`kubectl get storageclasses`); `kubectl get events --namespace %s --field-selector involvedObject.name=%s` says what the claim has waited for. Where nodes are full, %s",
			claim.Namespace, claim.Name, e.Fix)
	}
	return e
}

// foreign is for a pod or claim with a name like ours.
func foreign(kind string, o meta.Object) error {
	return &Error{
		Reason: fmt.Sprintf("The cluster has another %s of the session's name, %s, which this program has not made", kind, o.GetName()),
		Fix:    fmt.Sprintf("use another session_id, or remove it: `kubectl delete %s %s --namespace %s`", kind, o.GetName(), o.GetNamespace()),
	}
}

func noNamespace(name string, err error) error {
	return &Error{
		Reason: "Namespace " + name + " is not there, or is being removed", Fix: "make it (`kubectl create namespace " + name + "`), or name another by --namespace",
		Is: engine.ErrEngineUnavailable, Err: err,
	}
}

// noClass is for a RuntimeClass unknown to the cluster.
func noClass(name string) error {
	return &Error{Reason: "There is no RuntimeClass " + name, Fix: "`kubectl get runtimeclasses` lists those that there are; name one by --runtime-class, or leave it out"}
}

// notShut refuses a pod that reaches something.
func notShut(reached []string) error {
	return &Error{
		Reason: "Pods of this cluster are not shut off from its network: one reached " + strings.Join(reached, ", ") + " although a NetworkPolicy forbids it",
		Fix:    "use a network plugin that enforces NetworkPolicy for egress, such as Calico or Cilium, or a --runtime-class whose pods have loopback alone",
		Is:     ErrReaches,
	}
}

// notShown is for a node that differs from those before it.
func notShown(node string) error {
	return &Error{Reason: "It is not known yet what pods on node " + node + " reach", Fix: "try again"}
}

// gonePhrases are the cluster's words for a missing or stopped container.
var gonePhrases = []string{
	"not found", "not running", "not created", "in a stopped", "no running task", "CONTAINER_EXITED", "ttrpc: closed",
	"does not have a host assigned", "completed pod",
}

// refusal returns an API server's refusal of an exec, which client-go returns as text alone; nil: err is another.
func refusal(err error) error {
	_, text, _ := strings.Cut(err.Error(), "unable to upgrade connection: ")
	switch {
	case strings.HasPrefix(text, "Unauthorized"):
		return apierrors.NewUnauthorized(text)
	case strings.Contains(text, "is forbidden: "), strings.Contains(text, "denied the request"):
		return &apierrors.StatusError{ErrStatus: meta.Status{Reason: meta.StatusReasonForbidden, Message: text}}
	}
	return nil
}

// execError explains why a program did not start.
func (c *cluster) execError(err error, stderr string) error {
	text := err.Error() + " " + stderr
	var exit exec.ExitError
	switch refused := refusal(err); {
	case refused != nil:
		return c.engine.apiError(c.Client, refused)
	case errors.As(err, &exit) && exit.ExitStatus() == killed:
		return fmt.Errorf("%w: %w", engine.ErrContainerGone, errKilled)
	case strings.Contains(text, "executable file"), strings.Contains(text, "no such file or directory"):
		return fmt.Errorf("%w: %s", engine.ErrNoInterpreter, firstLine(text))
	case slices.ContainsFunc(gonePhrases, func(phrase string) bool { return strings.Contains(text, phrase) }):
		return fmt.Errorf("%w: %s", engine.ErrContainerGone, firstLine(text))
	case isLost(err):
		return &Error{Reason: "The connection through the API server was lost", Fix: "try again", Is: engine.ErrEngineUnavailable, Err: err}
	}
	return fmt.Errorf("%w: %s", err, firstLine(stderr))
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return line[:min(len(line), 500)]
}

// unprefixed is an admission's reason alone.
func unprefixed(text string) string {
	if _, rest, found := strings.Cut(text, "forbidden: "); found {
		return rest
	}
	return text
}
