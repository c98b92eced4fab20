{{- define "sluice.name" -}}
{{- if contains "sluice" .Release.Name }}{{ .Release.Name | trunc 40 | trimSuffix "-" }}{{ else }}{{ printf "%s-sluice" .Release.Name | trunc 40 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "sluice.selector" -}}
app.kubernetes.io/name: sluice
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "sluice.labels" -}}
{{ include "sluice.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "sluice.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{/* The name servers of all pods, for brokers and clients. */}}
{{- define "sluice.nameServers" -}}
{{- $name := include "sluice.name" . -}}
{{- $servers := list -}}
{{- range $number := until (int .Values.replicas) -}}
{{- $servers = append $servers (printf "%s-%d.%s-pods.%s.svc:%d" $name $number $name $.Release.Namespace (int $.Values.ports.nameServer)) -}}
{{- end -}}
{{- join ";" $servers -}}
{{- end }}
