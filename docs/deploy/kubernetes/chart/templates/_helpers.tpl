{{- define "csm.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{ else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "csm.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: server
{{- end }}

{{- define "csm.labels" -}}
{{ include "csm.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end }}

{{- define "csm.account" -}}
{{- if .Values.serviceAccount.create }}{{ default (include "csm.name" .) .Values.serviceAccount.name }}{{ else }}{{ default "default" .Values.serviceAccount.name }}{{ end }}
{{- end }}

{{- define "csm.secret" -}}
{{- default (printf "%s-token" (include "csm.name" .)) .Values.token.existingSecret }}
{{- end }}

{{- define "csm.sandboxes" -}}
{{- default .Release.Namespace .Values.sandboxes.namespace }}
{{- end }}

{{/* The settings of the program, of which those that the chart makes come last. */}}
{{- define "csm.settings" -}}
{{- $name := include "csm.name" . }}
{{- $ours := dict "engine" "kubernetes" "namespace" (include "csm.sandboxes" .) "http" (printf "%s:8000" .Values.listen) }}
{{- $names := concat (list $name (printf "%s.%s" $name .Release.Namespace) (printf "%s.%s.svc" $name .Release.Namespace) (printf "%s.%s.svc.cluster.local" $name .Release.Namespace)) .Values.hostNames }}
{{- $_ := set $ours "allow-host-name" (concat $names (dig "allow-host-name" (list) .Values.settings) | uniq) }}
{{- if .Values.tls.existingSecret }}{{ $_ := set $ours "tls-cert" "/etc/code-sandbox-mcp-tls/tls.crt" }}{{ $_ := set $ours "tls-key" "/etc/code-sandbox-mcp-tls/tls.key" }}{{ end }}
{{- if .Values.policy }}{{ $_ := set $ours "policy" "/etc/code-sandbox-mcp/policy.yaml" }}{{ end }}
{{- with .Values.sandboxes }}
{{- range $flag, $value := dict "python-image" .images.python "js-image" .images.javascript "bash-image" .images.bash "programs-image" .programsImage "storage-class" .storageClass "runtime-class" .runtimeClass "pod-users" .podUsers "pod-seccomp" .podSeccomp }}
{{- if kindIs "bool" $value }}{{ $value = ternary "on" "off" $value }}{{ end }}{{/* an off without quotes */}}
{{- if $value }}{{ $_ := set $ours $flag (toString $value) }}{{ end }}
{{- end }}
{{- end }}
{{- toYaml (mergeOverwrite (deepCopy .Values.settings) $ours) }}
{{- end }}
