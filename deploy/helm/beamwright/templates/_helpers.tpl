{{- define "beamwright.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 52 | trimSuffix "-" }}
{{- else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 52 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "beamwright.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "beamwright.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{ include "beamwright.selector" . }}
{{- end }}

{{- define "beamwright.serviceAccount" -}}
{{- if .Values.serviceAccount.create }}{{ .Values.serviceAccount.name | default (include "beamwright.name" .) }}
{{- else }}{{ .Values.serviceAccount.name | default "default" }}
{{- end }}
{{- end }}

{{- /* The server is gone 5 s after drain.delay and drain.timeout whatever hangs; 5 more are for the kubelet. */ -}}
{{- define "beamwright.gracePeriod" -}}
{{- add .Values.drain.delay .Values.drain.timeout 5 5 }}
{{- end }}

{{- /* Files are held once, the largest model twice while it is replaced, and tables per token may take as much as the
decoder's weights; the program itself and its connections take some 200 MiB. */ -}}
{{- define "beamwright.memoryMiB" -}}
{{- add 256 (mul 3 .Values.size.modelMiB) .Values.size.stateMiB }}
{{- end }}

{{- define "beamwright.resources" -}}
{{- if .Values.resources }}
{{- toYaml .Values.resources }}
{{- else -}}
requests: &size
  cpu: {{ .Values.size.cores | int64 | quote }}
  memory: {{ include "beamwright.memoryMiB" . }}Mi
limits: *size
{{- end }}
{{- end }}

{{- /* Helm reads whole numbers of values as floating-point ones. */ -}}
{{- define "beamwright.value" -}}
{{- if and (kindIs "float64" .) (eq (floor .) .) }}{{ int64 . }}{{ else }}{{ . }}{{ end }}
{{- end }}

{{- define "beamwright.modelFlags" -}}
{{- if eq .Values.models.source "bundled" -}}
- --model-path=/models/g2p-en
{{- else -}}
- --model-repository=/models
{{- end }}
- --model-control={{ .Values.models.control }}
{{- if ne .Values.models.control "none" }}
- --repository-poll-interval={{ .Values.models.pollInterval }}
{{- end }}
{{- end }}

{{- define "beamwright.securityFlags" -}}
{{- with .Values.tls.secretName }}
- --tls-cert=/etc/beamwright/tls/tls.crt
- --tls-key=/etc/beamwright/tls/tls.key
{{- end }}
{{- with .Values.tls.clientCaSecretName }}
- --tls-client-ca=/etc/beamwright/client-ca/ca.crt
{{- end }}
{{- with .Values.tokens.secretName }}
- --auth-token-file=/etc/beamwright/tokens/tokens.textproto
{{- end }}
{{- if .Values.tokens.inClear }}
- --auth-in-clear=true
{{- end }}
{{- with .Values.tenants.secretName }}
- --tenant-file=/etc/beamwright/tenants/tenants.textproto
{{- end }}
{{- end }}

{{- /* name -> secret of what is mounted below /etc/beamwright. Folders, never single files (subPath): only those
follow a secret that changes. */ -}}
{{- define "beamwright.secrets" -}}
{{- $secrets := dict }}
{{- with .Values.tls.secretName }}{{ $_ := set $secrets "tls" . }}{{ end }}
{{- with .Values.tls.clientCaSecretName }}{{ $_ := set $secrets "client-ca" . }}{{ end }}
{{- with .Values.tokens.secretName }}{{ $_ := set $secrets "tokens" . }}{{ end }}
{{- with .Values.tenants.secretName }}{{ $_ := set $secrets "tenants" . }}{{ end }}
{{- toYaml $secrets }}
{{- end }}

{{- define "beamwright.modelVolume" -}}
{{- if eq .Values.models.source "claim" -}}
persistentVolumeClaim:
  claimName: {{ .Values.models.claim.name }}
  readOnly: true
{{- else if eq .Values.models.source "image" -}}
image:
  reference: {{ .Values.models.image.reference }}
  pullPolicy: {{ .Values.models.image.pullPolicy }}
{{- else -}}
emptyDir:
  sizeLimit: {{ .Values.models.initContainer.sizeLimit }}
{{- end }}
{{- end }}

{{- define "beamwright.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}
