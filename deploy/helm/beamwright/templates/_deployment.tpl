{{- /* One Deployment. Takes root, track (stable or canary), tag, replicas (empty: not said) and settings. */ -}}
{{- define "beamwright.deployment" -}}
{{- $root := .root }}
{{- $v := $root.Values }}
{{- $secrets := include "beamwright.secrets" $root | fromYaml }}
{{- $ownModels := ne $v.models.source "bundled" }}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ include "beamwright.name" $root }}{{ if eq .track "canary" }}-canary{{ end }}
  labels:
    {{- include "beamwright.labels" $root | nindent 4 }}
    app.kubernetes.io/version: {{ .tag | quote }}
    beamwright.dev/track: {{ .track }}
spec:
  {{- if .replicas }}
  replicas: {{ .replicas }}
  {{- end }}
  # A new pod is ready before an old one goes.
  strategy:
    type: RollingUpdate
    rollingUpdate: {maxUnavailable: 0, maxSurge: {{ $v.maxSurge }}}
  minReadySeconds: 5
  selector:
    matchLabels:
      {{- include "beamwright.selector" $root | nindent 6 }}
      beamwright.dev/track: {{ .track }}
  template:
    metadata:
      labels:
        {{- include "beamwright.labels" $root | nindent 8 }}
        app.kubernetes.io/version: {{ .tag | quote }}
        beamwright.dev/track: {{ .track }}
        {{- with $v.podLabels }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- with $v.podAnnotations }}
      annotations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
    spec:
      terminationGracePeriodSeconds: {{ include "beamwright.gracePeriod" $root }}
      serviceAccountName: {{ include "beamwright.serviceAccount" $root }}
      automountServiceAccountToken: false
      {{- with $v.imagePullSecrets }}
      imagePullSecrets:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $v.priorityClassName }}
      priorityClassName: {{ . }}
      {{- end }}
      securityContext:
        runAsNonRoot: true
        runAsUser: 10001
        runAsGroup: 10001
        fsGroup: 10001
        seccompProfile: {type: RuntimeDefault}
      topologySpreadConstraints:
        - maxSkew: 1
          topologyKey: topology.kubernetes.io/zone
          whenUnsatisfiable: {{ $v.topologySpread.zone }}
          labelSelector:
            matchLabels:
              {{- include "beamwright.selector" $root | nindent 14 }}
        - maxSkew: 1
          topologyKey: kubernetes.io/hostname
          whenUnsatisfiable: {{ $v.topologySpread.host }}
          labelSelector:
            matchLabels:
              {{- include "beamwright.selector" $root | nindent 14 }}
      {{- with $v.nodeSelector }}
      nodeSelector:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $v.tolerations }}
      tolerations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $v.affinity }}
      affinity:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- if eq $v.models.source "initContainer" }}
      initContainers:
        - name: models
          image: {{ $v.models.initContainer.image }}
          command:
            {{- toYaml $v.models.initContainer.command | nindent 12 }}
          securityContext:
            {{- include "beamwright.containerSecurity" $root | nindent 12 }}
          volumeMounts:
            - {name: models, mountPath: /models}
      {{- end }}
      containers:
        - name: beamwright
          image: {{ printf "%s:%s" $v.image.repository .tag | quote }}
          imagePullPolicy: {{ $v.image.pullPolicy }}
          command: [beamwright-server]
          args:
            {{- include "beamwright.modelFlags" $root | nindent 12 }}
            - --grpc-address=0.0.0.0:8001
            - --http-address=0.0.0.0:8000
            - --metrics-address=0.0.0.0:8002
            - --admin-address=127.0.0.1:8003
            - --drain-delay={{ $v.drain.delay }}s
            - --drain-timeout={{ $v.drain.timeout }}s
            - --startup-timeout={{ $v.startup.timeout }}s
            {{- if not $v.resources }}
            - --max-state-bytes={{ mul $v.size.stateMiB 1048576 }}
            {{- end }}
            {{- with include "beamwright.securityFlags" $root | trim }}
            {{- . | nindent 12 }}
            {{- end }}
            {{- range $name, $value := .settings }}
            - --{{ $name }}={{ include "beamwright.value" $value }}
            {{- end }}
          ports:
            - {name: grpc, containerPort: 8001}
            - {name: http, containerPort: 8000}
            - {name: probes, containerPort: 8002}
          # Models load for startup.timeout at most; the server then ends by itself with exit code 3.
          startupProbe:
            httpGet: {path: /startupz, port: probes}
            periodSeconds: 2
            timeoutSeconds: 2
            failureThreshold: {{ add 5 (div (add1 $v.startup.timeout) 2) }}
          readinessProbe:
            httpGet: {path: /readyz, port: probes}
            periodSeconds: 2
            timeoutSeconds: 2
            failureThreshold: 2
          # /livez fails only when the engine hangs; it is never a matter of load.
          livenessProbe:
            httpGet: {path: /livez, port: probes}
            periodSeconds: 10
            timeoutSeconds: 5
            failureThreshold: 3
          resources:
            {{- include "beamwright.resources" $root | nindent 12 }}
          securityContext:
            {{- include "beamwright.containerSecurity" $root | nindent 12 }}
          {{- if or $ownModels $secrets }}
          volumeMounts:
            {{- if $ownModels }}
            - name: models
              mountPath: /models
              readOnly: true
              {{- if and (eq $v.models.source "claim") $v.models.claim.subPath }}
              subPath: {{ $v.models.claim.subPath }}
              {{- end }}
            {{- end }}
            {{- range $name, $secret := $secrets }}
            - {name: {{ $name }}, mountPath: /etc/beamwright/{{ $name }}, readOnly: true}
            {{- end }}
          {{- end }}
      {{- if or $ownModels $secrets }}
      volumes:
        {{- if $ownModels }}
        - name: models
          {{- include "beamwright.modelVolume" $root | nindent 10 }}
        {{- end }}
        {{- range $name, $secret := $secrets }}
        - name: {{ $name }}
          secret: {secretName: {{ $secret }}, optional: false}
        {{- end }}
      {{- end }}
{{- end }}
